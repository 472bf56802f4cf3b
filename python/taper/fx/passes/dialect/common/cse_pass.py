"""Equal calls made once (src/pass/cse.c)."""
import copy
import sys

from ..... import _C
from ...infra.pass_base import PassBase, PassResult

__all__ = ["CSEPass", "get_CSE_banned_ops"]

_RANDOM = ("dropout", "_fused_dropout", "_standard_gamma", "bernoulli", "multinomial", "native_dropout", "normal", "poisson", "binomial",
           "rrelu", "rand_like", "rand", "randint", "randn", "randperm")
_BY_DATA = ("sym_size", "sym_stride", "sym_storage_offset", "empty", "empty_like", "new_empty")


def get_CSE_banned_ops():
    """Ops whose equal calls are different values: random ones, those that write, and memory that is not filled."""
    aten = sys.modules[__name__.partition(".")[0]].ops.aten
    return {getattr(aten, name) for name in _RANDOM + _BY_DATA if hasattr(aten, name)}


class CSEPass(PassBase):
    """Merges equal calls, but for those of `banned_ops` (packets or overloads)."""

    def __init__(self, banned_ops=None):
        self.banned_ops = set() if banned_ops is None else banned_ops
        super().__init__()

    def call(self, graph_module):
        made = copy.copy(graph_module)
        made.graph = copy.deepcopy(graph_module.graph)
        stay = [node for node in made.graph.nodes
                if node.target in self.banned_ops or getattr(node.target, "overloadpacket", None) in self.banned_ops]
        changed = _C._fx_merge_equal(made.graph, stay)
        made.recompile()
        return PassResult(made, changed)
