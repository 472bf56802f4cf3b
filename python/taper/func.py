"""torch.func: functions of functions."""
from ._functorch.apis import vmap
from ._functorch.eager_transforms import functionalize, grad, grad_and_value, hessian, jacfwd, jacrev, jvp, linearize, vjp
from ._functorch.functional_call import functional_call, stack_module_state

__all__ = ["functional_call", "functionalize", "grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "linearize",
           "stack_module_state", "vjp", "vmap"]
