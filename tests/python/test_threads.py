"""Threads that share weights, and processes that split off after work that was split: equal to the serial run, bit for bit."""
import os
import signal
import threading

import pytest

import taper as torch

THREADS, ROUNDS = 8, 12


def in_threads(work):
    """What work(i) gives for each i, computed at once by as many threads; the first error of any is raised."""
    results, errors, start = [None] * THREADS, [], threading.Barrier(THREADS)

    def run(i):
        try:
            start.wait()
            results[i] = work(i)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results


def bits(tensors):
    return [t.detach().contiguous().view(torch.int32).tolist() for t in tensors]


@pytest.mark.parametrize("size", [16, 160])           # the larger products release the GIL and are split
def test_gradients_of_shared_weights_equal_the_serial_run(size):
    torch.manual_seed(0)
    weights = [torch.randn(size, size, requires_grad=True), torch.randn(size, requires_grad=True), torch.randn(size, size, requires_grad=True)]
    inputs = [torch.randn(size, size) for _ in range(THREADS)]

    def work(i):
        for _ in range(ROUNDS if size < 100 else 3):
            w, b, v = weights
            out = torch.softmax(torch.tanh(inputs[i] @ w + b) @ v, 1)
            result = bits([out, *torch.autograd.grad((out * inputs[i]).sum(), weights)])
        return result

    assert in_threads(work) == [work(i) for i in range(THREADS)]
    assert all(w.grad is None for w in weights)


def test_all_add_to_one_grad():
    """Whole numbers, so that the order of additions cannot show."""
    w = torch.arange(-50.0, 50.0).reshape(10, 10).requires_grad_()
    inputs = [torch.full((10, 10), float(i + 1)) for i in range(THREADS)]

    def work(i):
        for _ in range(ROUNDS):
            ((inputs[i] @ w) * inputs[i]).sum().backward()

    in_threads(work)
    at_once, w.grad = w.grad, None
    for i in range(THREADS):
        work(i)
    assert torch.equal(at_once, w.grad)


def test_hooks_and_views_in_threads():
    """Python objects on the tape, made and dropped while other threads hold the same leaf."""
    w = torch.arange(6.0).requires_grad_()

    def work(i):
        seen = []
        for _ in range(ROUNDS):
            y = w.view(2, 3).t() * (i + 1)
            y.register_hook(lambda g: seen.append(g.sum().item()))
            torch.autograd.grad(y[1:].sum(), w)
        return seen

    assert in_threads(work) == [[4.0] * ROUNDS] * THREADS


def in_child(work):
    """The exit code of a child that does work(); a child that hangs is ended by its own alarm."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            signal.alarm(60)
            code = 0 if work() else 1
        finally:
            os._exit(code)
    return os.waitpid(child, 0)[1]


def test_fork_after_parallel_work():
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    try:
        x = torch.arange(90000.0).reshape(300, 300).sin().requires_grad_()

        def work():
            return bits([x @ x, *torch.autograd.grad(((x @ x).exp().cumsum(0)).sum(), x)])

        here = work()
        for _ in range(3):
            assert in_child(lambda: work() == here) == 0
        assert work() == here
    finally:
        torch.set_num_threads(before)


def test_fork_while_threads_work():
    stop = threading.Event()
    x = torch.ones(200, 200)

    def work():
        while not stop.is_set():
            x @ x

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(5):
            assert in_child(lambda: (x @ x).sum().item() == 200.0**3) == 0
    finally:
        stop.set()
        for thread in threads:
            thread.join()
