"""numpy, the buffer protocol and DLPack, both ways."""
import gc

import pytest
import taper as torch

numpy = pytest.importorskip("numpy")


@pytest.mark.parametrize("name", "float32 float64 float16 int64 int32 int16 int8 uint8 bool complex64 complex128".split())
def test_round_trip(name):
    array = numpy.array([[0, 1], [1, 0], [1, 1]]).astype(name)
    x = torch.from_numpy(array)
    assert x.dtype is getattr(torch, name) and x.tolist() == array.tolist() and x.numpy().dtype == array.dtype
    assert x.numpy().__array_interface__["data"] == array.__array_interface__["data"]


def test_memory_is_shared():
    array = numpy.arange(6.0).reshape(2, 3)
    x = torch.from_numpy(array.T)
    assert x.stride() == (1, 3)
    x[0, 1] = 9
    assert array[1, 0] == 9
    y = torch.zeros(3)
    y.numpy()[1] = 5
    assert y.tolist() == [0, 5, 0]


def test_life_is_shared():
    x = torch.from_numpy(numpy.arange(1000.0))
    gc.collect()
    assert x.sum().item() == 499500
    array = torch.arange(1000.0).numpy()
    gc.collect()
    assert array.sum() == 499500


def test_refusals():
    with pytest.raises(TypeError, match=r"expected np.ndarray \(got int\)"):
        torch.from_numpy(1)
    with pytest.raises(ValueError, match="At least one stride in the given numpy array is negative"):
        torch.from_numpy(numpy.arange(3)[::-1])
    with pytest.raises(TypeError, match="can't convert np.ndarray of type"):
        torch.from_numpy(numpy.array(["a"]))
    with pytest.raises(TypeError, match="Got unsupported ScalarType BFloat16"):
        torch.zeros(1, dtype=torch.bfloat16).numpy()


def test_numbers_of_numpy():
    x = torch.ones(2)
    assert (x + numpy.float64(1)).tolist() == [2, 2] and (x * numpy.float32(2)).dtype is torch.float32
    assert torch.zeros(numpy.int64(2)).shape == (2,) and torch.tensor(numpy.float32(1.5)).item() == 1.5
    assert numpy.asarray(x).tolist() == [1, 1] and torch.as_tensor(numpy.ones(2)).dtype is torch.float64
    assert torch.tensor([numpy.int32(1), 2]).tolist() == [1, 2]


def test_dlpack():
    x = torch.arange(6.0).view(2, 3)
    y = torch.from_dlpack(x)
    y[0, 0] = 7
    assert x[0, 0].item() == 7 and y.stride() == x.stride()
    assert torch.from_dlpack(x, device="cpu").data_ptr() == x.data_ptr() != torch.from_dlpack(x, copy=True).data_ptr()
    array = numpy.from_dlpack(x)
    assert array.tolist() == x.tolist()
    assert torch.from_dlpack(numpy.arange(3)).tolist() == [0, 1, 2] and x.__dlpack_device__() == (1, 0)


def test_frombuffer():
    data = bytearray(b"abcd")
    x = torch.frombuffer(data, dtype=torch.uint8, offset=1)
    x[0] = 65
    assert bytes(data) == b"aAcd" and x.numel() == 3
    with pytest.raises(ValueError, match="must be a multiple of element size"):
        torch.frombuffer(bytearray(3), dtype=torch.int16)


def test_frombuffer_with_a_huge_count():
    with pytest.raises(ValueError, match="must not be greater than actual buffer length"):
        torch.frombuffer(bytearray(8), dtype=torch.float32, count=2**62)
