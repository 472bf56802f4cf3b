"""The test case of captures."""
from ..testing._internal.common_utils import run_tests  # noqa: F401
from ..testing._internal.common_utils import TestCase  # noqa: F401
