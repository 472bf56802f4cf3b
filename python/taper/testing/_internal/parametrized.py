"""One written test, many tests: @parametrize, and the names that the instances get.

A decorator of this kind hangs an object on the function; instantiating a class replaces the function by what the
object yields: (test, name, arguments, decorators) for each instance.
"""
import functools

from ..._root import torch

MARK = "parametrize_fn"


class subtest:
    """One choice of arguments with a name, and decorators for the instance that gets it."""

    def __init__(self, arg_values, name=None, decorators=None):
        self.arg_values, self.name, self.decorators = arg_values, name, list(decorators or [])


def value_name(index, name, value):
    """How an argument shows in a test's name: what is short and unique is spelled out, the rest numbered."""
    if isinstance(value, (torch.dtype, torch.device)):
        return str(value).split(".")[-1]
    if isinstance(value, (int, float, str)):
        return f"{name}_{str(value).replace('.', '_')}"
    return f"{name}{index}"


class TestParametrizer:
    """A decorator that makes several tests out of one."""
    __test__ = False

    def __call__(self, function):
        inner = getattr(function, MARK, None)
        setattr(function, MARK, self if inner is None else Product(inner, self))
        return function

    def instances(self, test, generic_class, device_class):
        """(test, name suffix, keyword arguments, decorator function of those arguments) for each instance."""
        raise NotImplementedError(type(self).__name__)


class Product(TestParametrizer):
    """Two decorators on one test: every instance of one with every instance of the other."""

    def __init__(self, inner, outer):
        self.inner, self.outer = inner, outer

    def instances(self, test, generic_class, device_class):
        outer = list(self.outer.instances(test, generic_class, device_class))
        for test, inner_name, inner_args, inner_decorators in self.inner.instances(test, generic_class, device_class):
            for _, outer_name, outer_args, outer_decorators in outer:
                twice = inner_args.keys() & outer_args.keys()
                if twice:
                    raise RuntimeError("Parametrization over the same parameter by multiple parametrization decorators "
                                       f'is not supported. For test "{test.__name__}", the following parameters are '
                                       f"handled multiple times: {set(twice)}")
                yield (test, join(outer_name, inner_name), {**outer_args, **inner_args},
                       lambda kwargs, a=inner_decorators, b=outer_decorators: list(a(kwargs)) + list(b(kwargs)))


class parametrize(TestParametrizer):
    """@parametrize("x,y", [(1, 2), (3, 4)]), with subtest(...) for choices that need a name or decorators."""

    def __init__(self, arg_str, arg_values, name_fn=None):
        self.names = [name.strip() for name in arg_str.split(",") if name.strip()]
        self.values, self.name_fn = arg_values, name_fn

    def instances(self, test, generic_class, device_class):
        empty = True
        for index, choice in enumerate(self.values):
            empty = False
            decorators = choice.decorators if isinstance(choice, subtest) else []
            name = choice.name if isinstance(choice, subtest) else None
            values = choice.arg_values if isinstance(choice, subtest) else choice
            values = [values] if len(self.names) == 1 else list(values)
            if len(values) != len(self.names):
                raise RuntimeError(f"Expected # values == # arg names, but got: {len(values)} values and "
                                   f'{len(self.names)} names for test "{test.__name__}"')
            if name is None:
                name = self.name_fn(*values) if self.name_fn else "_".join(
                    value_name(index, n, v) for n, v in zip(self.names, values))
            yield test, name, dict(zip(self.names, values)), lambda _kwargs, extra=decorators: extra
        if empty:
            raise ValueError(f"{test}: An empty arg_values was passed to @parametrize. "
                             "Note that this may result from reuse of a generator.")


def join(*parts):
    return "_".join(part for part in parts if part)


def bind(test, name, kwargs, decorators):
    """The method `name` that runs `test` with `kwargs`."""
    @functools.wraps(test)
    def instance(self, *args, **more):
        return test(self, *args, **{**kwargs, **more})
    instance.__name__ = name
    instance.__dict__.pop(MARK, None)
    for decorator in decorators:
        instance = decorator(instance)
    return instance


def add_test(cls, name, test):
    assert name not in cls.__dict__, f"Redefinition of test {name}"
    setattr(cls, name, test)


def instantiate_parametrized_tests(generic_class):
    """Replace the parametrised tests of a class by their instances; also usable as a decorator."""
    for name, test in list(generic_class.__dict__.items()):
        if hasattr(test, MARK):
            delattr(generic_class, name)
            for inner, suffix, kwargs, decorators in getattr(test, MARK).instances(test, generic_class, None):
                full = join(name, suffix)
                add_test(generic_class, full, bind(inner, full, kwargs, decorators(kwargs)))
    return generic_class
