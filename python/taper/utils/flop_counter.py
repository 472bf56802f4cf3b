"""FlopCounterMode: how many floating point operations the products of a program are, by module and op."""
import collections
import functools
import math
import warnings

from .._ops import ops
from ._python_dispatch import TorchDispatchMode
from ._pytree import tree_map
from .module_tracker import ModuleTracker

__all__ = ["FlopCounterMode", "register_flop_formula"]

aten = ops.aten
flop_registry = {}


def shape_wrapper(f):
    """`f` on the shapes of its tensors, with that of the result as out_shape."""

    def shape(x):
        return getattr(x, "shape", x)

    @functools.wraps(f)
    def nf(*args, out_val=None, **kwargs):
        args, kwargs, out_shape = tree_map(shape, (args, kwargs, out_val))
        return f(*args, out_shape=out_shape, **kwargs)

    return nf


def register_flop_formula(targets, get_raw=False):
    """Lets a function of shapes count an op."""

    def register(formula):
        counted = formula if get_raw else shape_wrapper(formula)
        for target in targets if isinstance(targets, (list, tuple, set)) else (targets,):
            if not hasattr(target, "overloads"):
                raise ValueError(f"register_flop_formula(targets): expected each target to be OpOverloadPacket (i.e. torch.ops.mylib.foo), got {target} which is of type {type(target)}")
            if target in flop_registry:
                raise RuntimeError(f"duplicate registrations for {target}")
            flop_registry[target] = counted
        return formula

    return register


@register_flop_formula(aten.mm)
def mm_flop(a_shape, b_shape, *args, out_shape=None, **kwargs):
    m, k = a_shape
    return m * b_shape[1] * 2 * k


@register_flop_formula(aten.addmm)
def addmm_flop(self_shape, a_shape, b_shape, out_shape=None, **kwargs):
    return mm_flop(a_shape, b_shape)


@register_flop_formula(aten.bmm)
def bmm_flop(a_shape, b_shape, out_shape=None, **kwargs):
    b, m, k = a_shape
    return b * m * b_shape[2] * 2 * k


@register_flop_formula(aten.baddbmm)
def baddbmm_flop(self_shape, a_shape, b_shape, out_shape=None, **kwargs):
    return bmm_flop(a_shape, b_shape)


def conv_flop_count(x_shape, w_shape, out_shape, transposed=False):
    """Multiplications and additions of a convolution."""
    c_out, c_in, *filter_size = w_shape
    return math.prod((x_shape if transposed else out_shape)[2:]) * math.prod(filter_size) * x_shape[0] * c_out * c_in * 2


@register_flop_formula([aten.convolution, aten._convolution])
def conv_flop(x_shape, w_shape, _bias, _stride, _padding, _dilation, transposed, *args, out_shape=None, **kwargs):
    return conv_flop_count(x_shape, w_shape, out_shape, transposed=transposed)


@register_flop_formula(aten.convolution_backward)
def conv_backward_flop(grad_out_shape, x_shape, w_shape, _bias, _stride, _padding, _dilation, transposed, _output_padding, _groups, output_mask, out_shape):
    def swapped(shape):
        return [shape[1], shape[0], *shape[2:]]

    count = 0
    if output_mask[0]:
        count += conv_flop_count(grad_out_shape, w_shape, out_shape[0], not transposed)
    if output_mask[1]:
        first, second = (grad_out_shape, x_shape) if transposed else (x_shape, grad_out_shape)
        count += conv_flop_count(swapped(first), swapped(second), swapped(out_shape[1]), transposed=False)
    return count


def sdpa_flop_count(query_shape, key_shape, value_shape):
    b, h, s_q, d_q = query_shape
    s_k, d_v = key_shape[-2], value_shape[-1]
    return bmm_flop((b * h, s_q, d_q), (b * h, d_q, s_k)) + bmm_flop((b * h, s_q, s_k), (b * h, s_k, d_v))


def sdpa_flop(query_shape, key_shape, value_shape, *args, out_shape=None, **kwargs):
    return sdpa_flop_count(query_shape, key_shape, value_shape)


for _name in ("_scaled_dot_product_efficient_attention", "_scaled_dot_product_flash_attention", "_scaled_dot_product_cudnn_attention"):
    if hasattr(aten, _name):
        register_flop_formula(getattr(aten, _name))(sdpa_flop)


suffixes = ["", "K", "M", "B", "T"]


def get_suffix_str(number):
    """The suffix that keeps a number short."""
    return suffixes[max(0, min(len(suffixes) - 1, (len(str(number)) - 2) // 3))]


def convert_num_with_suffix(number, suffix):
    index = suffixes.index(suffix)
    return f"{number / 1000 ** index:.3f}" + suffix


def convert_to_percent_str(num, denom):
    return "0%" if denom == 0 else f"{num / denom:.2%}"


class FlopCounterMode:
    """Counts what products and convolutions cost while it is entered."""

    def __init__(self, mods=None, depth=2, display=True, custom_mapping=None):
        self.flop_counts = collections.defaultdict(lambda: collections.defaultdict(int))
        self.depth, self.display, self.mode = depth, display, None
        if mods is not None:
            warnings.warn("mods argument is not needed anymore, you can stop passing it", stacklevel=2)
        mapping = {k: v if getattr(v, "_get_raw", False) else shape_wrapper(v) for k, v in (custom_mapping or {}).items()}
        self.flop_registry = {**flop_registry, **mapping}
        self.mod_tracker = ModuleTracker()

    def get_total_flops(self):
        return sum(self.flop_counts["Global"].values())

    def get_flop_counts(self):
        """{name of a module: {op: count}}"""
        return {k: dict(v) for k, v in self.flop_counts.items()}

    def get_table(self, depth=None):
        import tabulate

        depth = self.depth if depth is None else depth
        tabulate.PRESERVE_WHITESPACE = True
        total, suffix = self.get_total_flops(), get_suffix_str(self.get_total_flops())
        rows, under_global = [], False

        def lines(name, level):
            count = sum(self.flop_counts[name].values())
            indent = " " * level
            out = [[indent + name, convert_num_with_suffix(count, suffix), convert_to_percent_str(count, total)]]
            return out + [[indent + " - " + str(k), convert_num_with_suffix(v, suffix), convert_to_percent_str(v, total)] for k, v in self.flop_counts[name].items()]

        for name in sorted(self.flop_counts):
            if name == "Global" or name.count(".") + 1 > depth:
                continue
            under_global = True
            rows += lines(name, name.count(".") + 1)
        if under_global:
            rows = lines("Global", 0)[:1] + rows if "Global" in self.flop_counts else rows
        else:
            rows = lines("Global", 0)
        if not rows:
            rows = [["Global", "0", "0%"]]
        return tabulate.tabulate(rows, headers=["Module", "FLOP", "% Total"], colalign=("left", "right", "right"))

    def __enter__(self):
        self.flop_counts.clear()
        self.mod_tracker.__enter__()
        self.mode = _Counts(self)
        self.mode.__enter__()
        return self

    def __exit__(self, *error):
        self.mode.__exit__(*error)
        self.mode = None
        self.mod_tracker.__exit__(*error)
        if self.display:
            print(self.get_table(self.depth))

    def _count_flops(self, packet, out, args, kwargs):
        if packet in self.flop_registry:
            count = self.flop_registry[packet](*args, **kwargs, out_val=out)
            for parent in self.mod_tracker.parents:
                self.flop_counts[parent][packet] += count
        return out


class _Counts(TorchDispatchMode):
    supports_higher_order_operators = True

    def __init__(self, counter):
        super().__init__()
        self.counter = counter

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        return self.counter._count_flops(func.overloadpacket, func(*args, **kwargs), args, kwargs)
