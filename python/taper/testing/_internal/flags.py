"""What tests may know of the machine and of how they are run. The TEST_WITH_ flags are environment switches."""
import importlib.util
import os
import platform
import sys


def switch(name):
    return os.environ.get(name, "0") == "1"


def installed(module):
    return importlib.util.find_spec(module) is not None


IS_WINDOWS = sys.platform == "win32"
IS_MACOS = sys.platform == "darwin"
IS_LINUX = sys.platform == "linux"
IS_X86 = platform.machine() in ("x86_64", "i386")
IS_ARM64 = platform.machine() in ("arm64", "aarch64")
IS_PPC = platform.processor() == "ppc64le"
IS_JETSON = IS_FBCODE = IS_SANDCASTLE = False
IS_CI = bool(os.environ.get("CI"))

TEST_WITH_ASAN = switch("PYTORCH_TEST_WITH_ASAN")
TEST_WITH_TSAN = switch("PYTORCH_TEST_WITH_TSAN")
TEST_WITH_UBSAN = switch("PYTORCH_TEST_WITH_UBSAN")
TEST_WITH_SLOW = switch("PYTORCH_TEST_WITH_SLOW")
TEST_SKIP_FAST = switch("PYTORCH_TEST_SKIP_FAST")
TEST_WITH_CROSSREF = switch("PYTORCH_TEST_WITH_CROSSREF")
TEST_WITH_TORCHINDUCTOR = switch("PYTORCH_TEST_WITH_INDUCTOR")
TEST_WITH_AOT_EAGER = switch("PYTORCH_TEST_WITH_AOT_EAGER")
TEST_WITH_TORCHDYNAMO = switch("PYTORCH_TEST_WITH_DYNAMO") or TEST_WITH_TORCHINDUCTOR or TEST_WITH_AOT_EAGER

TEST_WITH_ROCM = TEST_CUDA = TEST_MPS = TEST_XPU = TEST_MKL = TEST_MULTIGPU = False     # a CPU, and our own kernels
TEST_NUMPY = installed("numpy")
TEST_SCIPY = installed("scipy")
TEST_DILL = installed("dill")
TEST_LIBROSA = installed("librosa")
TEST_TRANSFORMERS = installed("transformers")
NO_MULTIPROCESSING_SPAWN = False
SEED = 1234
