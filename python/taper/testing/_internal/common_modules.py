"""@modules: one test for each module, dtype and mode. The table of modules, module_db, is not there yet."""
import enum

from .opinfo.core import active_decorators
from .parametrized import TestParametrizer


def __getattr__(name):
    if name == "module_db":
        raise ImportError("module_db is made together with op_db from the op table, which does not provide it yet")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class TrainEvalMode(enum.Enum):
    train_only = 1
    eval_only = 2
    train_and_eval = 3


class modules(TestParametrizer):
    def __init__(self, module_info_iterable, allowed_dtypes=None, train_eval_mode=TrainEvalMode.train_and_eval,
                 skip_if_dynamo=True):
        self.infos = list(module_info_iterable)
        self.allowed = None if allowed_dtypes is None else set(allowed_dtypes)
        self.mode = train_eval_mode

    def training_flags(self, info):
        """Modules that behave alike in both modes are run once."""
        if self.mode is TrainEvalMode.train_and_eval and not info.train_and_eval_differ:
            return [(True, "")]
        both = [(True, "train_mode"), (False, "eval_mode")]
        return {TrainEvalMode.train_only: both[:1], TrainEvalMode.eval_only: both[1:]}.get(self.mode, both)

    def instances(self, test, generic_class, device_class):
        if device_class is None:
            raise RuntimeError("The @modules decorator is only intended to be used in a device-specific context; use "
                               "it with instantiate_device_type_tests() instead of instantiate_parametrized_tests()")
        device = device_class.device_type
        for info in self.infos:
            dtypes = set(info.supported_dtypes(device))
            for training, mode in self.training_flags(info):
                for dtype in sorted(dtypes if self.allowed is None else dtypes & self.allowed, key=str):
                    kwargs = {"module_info": info, "dtype": dtype, "training": training}
                    name = "_".join(part for part in (info.formatted_name, mode) if part)
                    yield test, name, kwargs, lambda kwargs, info=info, dtype=dtype: active_decorators(
                        info.decorators, generic_class.__name__, test.__name__, device, dtype, kwargs)
