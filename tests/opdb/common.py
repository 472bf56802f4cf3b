"""What both sides of the comparison must do alike; `torch` is PyTorch in one process and Taper in the other."""
import zlib

SEED = 20
# What has no value to compare: memory as it was found.
UNSET = {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided", "resize_", "resize_as_"}
# Factors that are unique up to signs (or up to a basis): only their absolute values are compared, and no gradients.
UP_TO_SIGN = {"svd", "linalg.svd", "linalg.eig", "linalg.eigh", "pca_lowrank", "svd_lowrank", "lobpcg", "symeig"}


def public(torch, name):
    """What a program writes to call the op: a function below torch, a method or property of tensors, an op, a method that writes."""
    name = name.removeprefix("torch.")

    def below(place, path):
        for word in path.split("."):
            place = getattr(place, word, None)
        return place

    for place in (torch, torch.Tensor, torch.ops.aten):
        found = below(place, name)
        if callable(found):
            return found
        if found is not None and place is torch.Tensor:
            return lambda x: getattr(x, name)
    return below(torch.Tensor, name + "_")


def writes(torch, name):
    """The method that writes, on a copy: normal in place, zero_ of a leaf."""
    method = getattr(torch.Tensor, name.rstrip("_") + "_", None)
    return method and (lambda value, *args, **kwargs: method(value.clone(), *args, **kwargs))


def pool_backward(torch):
    """Samples of the pooling, for the op that is its gradient."""
    def call(x, kernel_size, stride, padding, dilation, ceil_mode, return_indices):
        pooled, indices = torch.ops.aten.max_pool2d_with_indices(x, kernel_size, stride, padding, dilation, ceil_mode)
        seed = seeds_of(torch, [pooled])[0]
        return torch.ops.aten.max_pool2d_with_indices_backward(seed, x, kernel_size, stride, padding, dilation, ceil_mode, indices)
    return call


def ways(torch, name):
    """The ways in which samples are given to a public name, tried in order; None where there is no such way. op_db's entries call
    some names through lambdas of their own: the first two arguments change places, or are factors of the matrix that is meant."""
    call = public(torch, name)
    if name == "max_pool2d_with_indices_backward":
        call = pool_backward(torch)
    return [call, call and (lambda a, b, *args, **kwargs: call(b, a, *args, **kwargs)), writes(torch, name),
            call and (lambda a, b, *args, **kwargs: call(a @ b.mT, *args, **kwargs))]


def chosen(name, number, share):
    """Whether sample `number` belongs to the seeded share of all; the first of an op always does."""
    return number == 0 or zlib.crc32(f"{name}/{number}".encode()) % 1000 < 1000 * share


def tensors(torch, value):
    """Every tensor in nested lists, tuples and dicts, in order."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return [t for v in value for t in tensors(torch, v)]
    return []


def seeds_of(torch, outputs):
    """A fixed incoming gradient for each output: -0.75 … 0.75 in turn."""
    ramps = ((torch.arange(out.numel(), dtype=torch.float64) % 7 - 3) / 4 for out in outputs)
    return [ramp.to(out.dtype).reshape(out.shape) for ramp, out in zip(ramps, outputs)]


def run(torch, call, sample, gradients=True):
    """The result of a call, and the gradients of all inputs that want one (None where there are none)."""
    value, args, kwargs = sample
    torch.manual_seed(SEED)
    result = call(value, *args, **kwargs)
    wanting = [t for t in tensors(torch, sample) if t.requires_grad and t.is_leaf]
    outputs = [t for t in tensors(torch, result) if t.requires_grad]
    if not gradients or not wanting or not outputs or any(t is out for t in wanting for out in outputs):
        return result, None
    return result, torch.autograd.grad(outputs, wanting, seeds_of(torch, outputs), allow_unused=True)
