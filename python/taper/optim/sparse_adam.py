"""SparseAdam."""
from .optimizer import Optimizer, _check_lr

__all__ = ["SparseAdam"]


class SparseAdam(Optimizer):
    """Adam on the rows that have a gradient. Taper has no sparse tensors, so there is no gradient it could take."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, maximize=False):
        _check_lr(lr)
        if not 0.0 < lr:
            raise ValueError(f"Invalid learning rate: {lr}")
        if not 0.0 < eps:
            raise ValueError(f"Invalid epsilon value: {eps}")
        for i, beta in enumerate(betas):
            if not 0.0 <= beta < 1.0:
                raise ValueError(f"Invalid beta parameter at index {i}: {beta}")
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "maximize": maximize})

    def step(self, closure=None):
        loss = self._closed(closure)
        for group in self.param_groups:
            if self._with_grads(group)[0]:
                raise RuntimeError("SparseAdam does not support dense gradients, please consider Adam instead")
        return loss
