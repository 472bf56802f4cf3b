"""What a GPU could do: we have none."""
TEST_CUDA = TEST_MULTIGPU = TEST_CUDNN = TEST_MAGMA = False
PLATFORM_SUPPORTS_FLASH_ATTENTION = PLATFORM_SUPPORTS_MEM_EFF_ATTENTION = PLATFORM_SUPPORTS_FUSED_ATTENTION = False
SM53OrLater = SM60OrLater = SM70OrLater = SM75OrLater = SM80OrLater = SM90OrLater = False
TEST_CUDNN_VERSION = 0


def with_tf32_off(function):
    """TF32 is a matter of GPUs."""
    return function
