"""Fourier transforms of every kind of length, against the definition; windows there and back; threads change no bit."""
import cmath
import math

import pytest
import taper as torch

LENGTHS = [1, 2, 3, 4, 7, 11, 13, 15, 16, 17, 30, 31, 49, 64, 77, 97, 128, 210, 257, 360, 512, 1009]
TOLERANCE = {torch.float32: 3e-6, torch.float64: 1e-13}


def definition(x, sign):
    """By a matrix of roots, in double."""
    n = len(x)
    root = [cmath.exp(sign * 2j * math.pi * k / n) for k in range(n)]
    return [sum(v * root[j * k % n] for j, v in enumerate(x)) for k in range(n)]


def numbers(t):
    return [complex(*pair) for pair in torch.view_as_real(t).tolist()] if t.is_complex() else t.tolist()


def close(ours, theirs, dtype):
    size = max(map(abs, theirs))
    return len(ours) == len(theirs) and all(abs(a - b) <= TOLERANCE[dtype] * max(size, 1) for a, b in zip(ours, theirs))


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("n", LENGTHS)
def test_lengths(n, dtype):
    torch.manual_seed(n)
    real = torch.randn(n, dtype=dtype)
    whole = torch.complex(real, torch.randn(n, dtype=dtype))
    spectrum = definition(numbers(real), -1)
    assert close(numbers(torch.fft.fft(whole)), definition(numbers(whole), -1), dtype)
    assert close(numbers(torch.fft.ifft(whole, norm="forward")), definition(numbers(whole), 1), dtype)
    assert close(numbers(torch.fft.rfft(real)), spectrum[:n // 2 + 1], dtype)
    assert close(numbers(torch.fft.fft(real)), spectrum, dtype)
    assert close(numbers(torch.fft.irfft(torch.fft.rfft(real), n)), numbers(real), dtype)


@pytest.mark.parametrize("n", [5, 24, 64, 97])
def test_lines_with_gaps_are_those_without(n):
    torch.manual_seed(0)
    x = torch.randn(5, n, 3, dtype=torch.complex64)
    rows = torch.fft.fft(x.transpose(1, 2).contiguous()).transpose(1, 2)
    assert torch.allclose(torch.fft.fft(x, dim=1), rows, atol=1e-4)
    assert torch.allclose(torch.fft.rfft(x.real, dim=1), torch.fft.rfft(x.real.transpose(1, 2).contiguous()).transpose(1, 2), atol=1e-4)
    assert torch.allclose(torch.fft.fftn(x), torch.fft.fft(torch.fft.fft(rows, dim=0), dim=2), atol=1e-3)


def test_threads_change_no_bit():
    x = torch.randn(64, 300)
    threads = torch.get_num_threads()
    try:
        made = []
        for count in (1, 2, 5):
            torch.set_num_threads(count)
            made.append(torch.fft.rfft(x))
        assert all(torch.equal(m, made[0]) for m in made)
    finally:
        torch.set_num_threads(threads)


def test_imaginary_ends_do_not_count():
    half = torch.tensor([1 + 5j, 2 - 1j, 3 + 7j])
    assert torch.equal(torch.fft.irfft(half), torch.fft.irfft(torch.tensor([1, 2 - 1j, 3])))


def test_windows_there_and_back():
    x = torch.randn(2, 64, dtype=torch.float64)
    window = torch.hann_window(16, dtype=torch.float64) + 0.1
    spectra = torch.stft(x, 16, 4, window=window, return_complex=True)
    assert tuple(spectra.shape) == (2, 9, 17)
    assert torch.allclose(torch.istft(spectra, 16, 4, window=window, length=64), x)


def test_mistakes():
    with pytest.raises(RuntimeError, match=r"Invalid number of data points \(0\) specified"):
        torch.fft.fft(torch.ones(3), n=0)
    with pytest.raises(RuntimeError, match='Invalid normalization mode: "x"'):
        torch.fft.fft(torch.ones(3), norm="x")
    with pytest.raises(RuntimeError, match="rfft expects a real input tensor, but got ComplexFloat"):
        torch.fft.rfft(torch.ones(3, dtype=torch.complex64))
    with pytest.raises(RuntimeError, match="FFT dims must be unique"):
        torch.fft.fftn(torch.ones(2, 2), dim=(0, 0))
    with pytest.raises(RuntimeError, match="expected 0 < n_fft < 16, but got n_fft=20"):
        torch.stft(torch.ones(16), 20, center=False, return_complex=True)


@pytest.mark.parametrize("call", [
    lambda x: torch.ops.aten._fft_r2c(x, [0], 0, True), lambda x: torch.ops.aten._fft_c2c(x.to(torch.complex64), [1, 0], 0, True),
    lambda x: torch.ops.aten._fft_c2r(x.to(torch.complex64), [0, 1], 0, 4)])
def test_nothing_is_not_transformed(call):
    with pytest.raises(RuntimeError, match=r"Invalid number of data points \(0\) specified"):
        call(torch.ones(0, 4))
