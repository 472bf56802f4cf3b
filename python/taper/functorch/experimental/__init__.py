from ..._functorch.eager_transforms import functionalize  # noqa: F401
