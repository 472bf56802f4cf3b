"""Tag: what an op is like, as PyTorch names it."""
import enum

CORE, RNG, SYNC = 1 << 0, 1 << 2, 1 << 3
POINTWISE, VIEW, REDUCTION = 0, 8, 1


class Tag(enum.Enum):
    core = 0
    data_dependent_output = 1
    dynamic_output_shape = 2
    generated = 3
    inplace_view = 4
    needs_fixed_stride_order = 5
    nondeterministic_bitwise = 6
    nondeterministic_seeded = 7
    pointwise = 8
    pt2_compliant_tag = 9
    view_copy = 10
    flexible_layout = 11
    reduction = 12
    needs_exact_strides = 13
    needs_contiguous_strides = 14
    maybe_aliasing_or_mutating = 15
    cudagraph_unsafe = 16


def tags_of(overload):
    """The tags that follow from an op's flags and kind."""
    flags, tags = overload._flags, []
    if flags & CORE:
        tags.append(Tag.core)
    if overload._kind == POINTWISE:
        tags.append(Tag.pointwise)
    if overload._kind == REDUCTION:
        tags.append(Tag.reduction)
    if overload._kind == VIEW and overload._schema.is_mutable:
        tags.append(Tag.inplace_view)
    if flags & RNG:
        tags.append(Tag.nondeterministic_seeded)
    if flags & SYNC:
        scalar = overload._schema.returns and overload._schema.returns[0].type.name != "Tensor"
        tags.append(Tag.data_dependent_output if scalar else Tag.dynamic_output_shape)
    return tags
