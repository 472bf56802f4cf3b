"""The names under which functorch was a package of its own; loaded as torch, `import functorch` gives this."""
from .._functorch.apis import vmap  # noqa: F401
from .._functorch.eager_transforms import functionalize, grad, grad_and_value, hessian, jacfwd, jacrev, jvp, vjp  # noqa: F401
from .._functorch.functional_call import functional_call, stack_module_state  # noqa: F401
from ..fx.experimental.proxy_tensor import make_fx  # noqa: F401
