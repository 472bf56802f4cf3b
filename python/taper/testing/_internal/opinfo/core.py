"""Decorators that hang on an entry of a table of ops or modules, and apply to some of the tests made from it."""


class DecorateInfo:
    """`decorators` apply to the tests of this class, name, device and dtypes; what is None does not restrict them."""

    def __init__(self, decorators, cls_name=None, test_name=None, *, device_type=None, dtypes=None, active_if=True):
        self.decorators = list(decorators) if isinstance(decorators, (list, tuple)) else [decorators]
        self.cls_name, self.test_name, self.device_type = cls_name, test_name, device_type
        self.dtypes, self.active_if = dtypes, active_if

    def is_active(self, cls_name, test_name, device_type, dtype, param_kwargs):
        return bool(self.active_if) and (
            (self.cls_name is None or self.cls_name == cls_name)
            and (self.test_name is None or self.test_name == test_name)
            and (self.device_type is None or self.device_type == device_type)
            and (self.dtypes is None or dtype in self.dtypes))


def active_decorators(decorators, cls_name, test_name, device_type, dtype, param_kwargs):
    """What applies to one test, of a list that mixes DecorateInfo with plain decorators."""
    for decorator in decorators:
        if not isinstance(decorator, DecorateInfo):
            yield decorator
        elif decorator.is_active(cls_name, test_name, device_type, dtype, param_kwargs):
            yield from decorator.decorators
