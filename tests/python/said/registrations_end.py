"""What a Library registered ends with it, however it was registered; what is registered twice; ops of libraries that are gone."""
import gc
import warnings

import torch
from torch.library import Library

warnings.simplefilter("ignore")


def attempt(text, run):
    try:
        result = run()
        print(text, result.tolist() if isinstance(result, torch.Tensor) else type(result).__name__ if result is not None else None)
    except Exception as error:
        print(text, type(error).__name__)


x = torch.ones(2)
define = Library("ends", "DEF")
for name in ("impl", "kernel", "fake", "vmap", "gradient", "dispatch"):
    define.define(name + "(Tensor x) -> Tensor")

print("# impl of a library of its own")
other = Library("ends", "IMPL", "CPU")
other.impl("impl", lambda x: x + 1)
attempt("there", lambda: torch.ops.ends.impl(x))
del other
gc.collect()
attempt("gone", lambda: torch.ops.ends.impl(x))
other = Library("ends", "IMPL")
other.impl("impl", lambda x: x + 2, "CPU")
attempt("another", lambda: torch.ops.ends.impl(x))
attempt("twice", lambda: other.impl("impl", lambda x: x + 3, "CPU"))
attempt("after twice", lambda: torch.ops.ends.impl(x))
attempt("no such key", lambda: other.impl("impl", lambda x: x, "Nothing"))
attempt("no function", lambda: other.impl("impl", 5, "CPU"))
attempt("other space", lambda: other.impl("aten::impl", lambda x: x, "CPU"))

print("# torch.library.impl with lib=")
lib = Library("ends", "FRAGMENT")
torch.library.impl("ends::kernel", "cpu", lambda x: x * 2, lib=lib)
attempt("there", lambda: torch.ops.ends.kernel(x))
del lib
gc.collect()
attempt("gone", lambda: torch.ops.ends.kernel(x))
torch.library.impl("ends::kernel", "cpu", lambda x: x * 3)
gc.collect()
attempt("without lib", lambda: torch.ops.ends.kernel(x))

print("# register_fake with lib=")
lib = Library("ends", "FRAGMENT")
torch.library.register_fake("ends::fake", lambda x: torch.empty_like(x), lib=lib)
attempt("there", lambda: torch.ops.ends.fake(x.to("meta")).shape)
attempt("twice", lambda: torch.library.register_fake("ends::fake", lambda x: torch.empty(5), lib=lib))
attempt("override", lambda: torch.library.register_fake("ends::fake", lambda x: x.new_empty(5), lib=lib, allow_override=True))
attempt("overridden", lambda: torch.ops.ends.fake(x.to("meta")).shape)
del lib
gc.collect()
attempt("gone", lambda: torch.ops.ends.fake(x.to("meta")))

print("# register_vmap with lib=")
torch.library.impl("ends::vmap", "cpu", lambda x: x * 2, lib=define)
lib = Library("ends", "FRAGMENT")
torch.library.register_vmap("ends::vmap", lambda info, dims, x: (x * 2, dims[0]), lib=lib)
attempt("there", lambda: torch.vmap(torch.ops.ends.vmap)(x))
del lib
gc.collect()

print("# register_autograd with lib=")
torch.library.impl("ends::gradient", "cpu", lambda x: x * 2, lib=define)
lib = Library("ends", "FRAGMENT")
torch.library.register_autograd("ends::gradient", lambda ctx, g: g * 7, lib=lib)
y = torch.ones(2, requires_grad=True)
attempt("there", lambda: torch.autograd.grad(torch.ops.ends.gradient(y).sum(), y)[0])
del lib
gc.collect()
attempt("gone", lambda: torch.ops.ends.gradient(y).detach())

print("# what the defining library leaves")
packet, overload = torch.ops.ends.impl, torch.ops.ends.impl.default
del define, other
gc.collect()
attempt("namespace", lambda: torch.ops.ends.impl)
print(isinstance(packet.__name__, str), isinstance(overload.__name__, str))
again = Library("ends", "DEF")
again.define("impl(Tensor x, int n) -> Tensor")
again.impl("impl", lambda x, n: x * n, "CPU")
attempt("again", lambda: torch.ops.ends.impl(x, 3))
attempt("two", lambda: Library("ends", "DEF"))

print("# custom ops, dropped and defined again")


@torch.library.custom_op("ends2::op", mutates_args=())
def op(x: torch.Tensor) -> torch.Tensor:
    return x * 2


op.register_kernel("cpu")(lambda x: x * 5)
op.register_fake(lambda x: torch.empty_like(x))
op.register_autograd(lambda ctx, g: g * 5)
op.register_vmap(lambda info, dims, x: (x * 5, dims[0]))
del op
gc.collect()
attempt("call", lambda: torch.ops.ends2.op(x))
attempt("gradient", lambda: torch.autograd.grad(torch.ops.ends2.op(y).sum(), y)[0])
attempt("vmap", lambda: torch.vmap(torch.ops.ends2.op)(x))
attempt("fake", lambda: torch.ops.ends2.op(x.to("meta")).shape)


@torch.library.custom_op("ends2::op", mutates_args=())
def op2(x: torch.Tensor) -> torch.Tensor:
    return x * 9


attempt("defined again", lambda: torch.ops.ends2.op(x))
attempt("by object", lambda: op2(x))
