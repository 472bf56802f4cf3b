"""grad, vmap, vjp and functionalize: levels in C, with the signatures of PyTorch around them."""
import functools

from .. import _C, _facades


def grad_and_value(func, argnums=0, has_aux=False):
    """(gradient, value) of a function that gives a scalar; with has_aux (gradient, (value, aux))."""

    @functools.wraps(func)
    def wrapper(*args, **kwargs):
        gradient, value, *aux = _C._func_grad(func, argnums, has_aux, args, kwargs)
        return (gradient, (value, aux[0])) if has_aux else (gradient, value)

    return wrapper


def grad(func, argnums=0, has_aux=False):
    """The gradient of a function that gives a scalar; with has_aux (gradient, aux)."""

    @functools.wraps(func)
    def wrapper(*args, **kwargs):
        gradient, _, *aux = _C._func_grad(func, argnums, has_aux, args, kwargs)
        return (gradient, aux[0]) if has_aux else gradient

    return wrapper


def vjp(func, *primals, has_aux=False):
    """The value at `primals` and a function from cotangents to the gradients of the primals."""
    return _vjp_with_argnums(func, *primals, has_aux=has_aux)


def _vjp_with_argnums(func, *primals, has_aux=False):
    output, level, *aux = _C._func_vjp(func, primals, has_aux)

    def wrapper(cotangents, retain_graph=True, create_graph=None):
        create = _C.is_grad_enabled() if create_graph is None else create_graph
        return _C._func_pullback(level, cotangents, retain_graph, create)

    return (output, wrapper, aux[0]) if has_aux else (output, wrapper)


def jacrev(func, argnums=0, has_aux=False, *, chunk_size=None, _preallocate_and_copy=False):
    """The Jacobian, a pullback over the unit vectors of the output, `chunk_size` at a time; with has_aux (jacobian, aux)."""
    if not (chunk_size is None or chunk_size > 0):
        raise ValueError("jacrev: `chunk_size` should be greater than 0.")

    @functools.wraps(func)
    def wrapper(*args, **kwargs):
        jacobian, *aux = _C._func_jacrev(func, argnums, has_aux, args, kwargs, chunk_size or 0)
        return (jacobian, aux[0]) if has_aux else jacobian

    return wrapper


def functionalize(func, *, remove="mutations"):
    """The same function without in-place operations, and without views if so wanted; inputs it writes are written once, at the end."""
    if remove not in ("mutations", "mutations_and_views"):
        raise RuntimeError(
            f"functionalize(f, remove='mutations'): received invalid argument for remove={remove}. Valid options are:\n"
            "     remove='mutations': all inplace and out= operators will be removed from the program, and replaced with their "
            "out-of-place equivalents.\n"
            "     remove='mutations_and_views': In addition to the above, all aliasing operators {view} will be replaced with their "
            "non-aliasing counterparts, {view}_copy.\n")

    @functools.wraps(func)
    def wrapper(*args, **kwargs):
        return _C._func_functionalize(func, args, kwargs, remove != "mutations")

    return wrapper


def jvp(func, primals, tangents, *, strict=False, has_aux=False):
    """The value at `primals` and its change along `tangents`; with has_aux also aux."""
    return _C._func_jvp(func, primals, tangents, strict, has_aux)


def jacfwd(func, argnums=0, has_aux=False, *, randomness="error"):
    """The Jacobian, column by column in forward mode; with has_aux (jacobian, aux)."""

    @functools.wraps(func)
    def wrapper(*args):
        jacobian, *aux = _C._func_jacfwd(func, argnums, has_aux, randomness, args)
        return (jacobian, aux[0]) if has_aux else jacobian

    return wrapper


def hessian(func, argnums=0):
    """The Hessian, forward over reverse."""
    return jacfwd(jacrev(func, argnums), argnums)


def linearize(func, *primals):
    """The value at `primals` and the linear function from tangents to the change of the value: recorded, what is constant computed once."""
    from ..fx.experimental.const_fold import split_const_subgraphs
    from ..fx.experimental.proxy_tensor import make_fx
    from ..utils import _pytree as pytree

    output = func(*primals)
    leaves, spec = pytree.tree_flatten(primals)
    zeros = [_C._VariableFunctions.zeros_like(x) for x in leaves]
    graph = make_fx(lambda *flat: jvp(func, primals, pytree.tree_unflatten(flat, spec))[1])(*zeros)
    graph.graph.eliminate_dead_code()
    graph.recompile()
    graph = split_const_subgraphs(graph)

    def jvp_fn(*tangents):
        flat, given = pytree.tree_flatten(tangents)
        if given != spec:
            raise RuntimeError(f"Expected the tangents {given} to have the same argspec as the primals {spec}")
        for i, (x, t) in enumerate(zip(leaves, flat)):
            for word in ("shape", "device", "dtype"):
                have, want = getattr(t, word), getattr(x, word)
                if have != want:
                    raise RuntimeError(
                        f"tangent:{i} with {word} {have} in flattened pytree doesn't match the {word} {want} of the corresponding primal.")
        return graph(*flat)

    return output, jvp_fn


def vmap(func, in_dims=0, out_dims=0, randomness="error", *, chunk_size=None):
    """The function over batches: each call inside sees one member, what runs are calls over all of them."""
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}")
    if not (chunk_size is None or chunk_size > 0):
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")

    @functools.wraps(func)
    def wrapped(*args, **kwargs):
        return _C._func_vmap(func, in_dims, out_dims, randomness, chunk_size, args, kwargs)

    return wrapped


_facades.settle(__name__)
