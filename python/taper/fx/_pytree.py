"""Names that generated code uses: arguments taken apart along a spec."""
from ..utils._pytree import SUPPORTED_NODES as _NODES  # noqa: F401

SUPPORTED_NODES = {}
SUPPORTED_NODES_EXACT_MATCH = {}


def register_pytree_flatten_spec(cls, flatten_fn_spec, flatten_fn_exact_match_spec=None):
    SUPPORTED_NODES[cls] = flatten_fn_spec
    SUPPORTED_NODES_EXACT_MATCH[cls] = flatten_fn_exact_match_spec


def tree_flatten_spec(pytree, spec):
    """The leaves of `pytree` as the spec has them; keys of dicts that the spec does not have are left out."""
    if spec.is_leaf():
        return [pytree]
    if spec.type in SUPPORTED_NODES:
        children = SUPPORTED_NODES[spec.type](pytree, spec)
    elif spec.type is dict:
        children = [pytree[key] for key in spec.context]
    elif spec.type in (list, tuple):
        children = [pytree[i] for i in range(spec.num_children)]
    else:
        return spec.flatten_up_to(pytree)
    return [leaf for child, child_spec in zip(children, spec.children()) for leaf in tree_flatten_spec(child, child_spec)]
