"""Marks for entries of op_db and module_db: which tests made from them fail, are skipped or are decorated.

A mark is a tuple (op, variant, decorator, device type, dtypes), so that marks can be put in sets.
"""
import unittest


def decorate(op_name, variant_name="", *, decorator, device_type=None, dtypes=None):
    return op_name, variant_name, decorator, device_type, None if dtypes is None else tuple(dtypes)


def xfail(op_name, variant_name="", *, device_type=None, dtypes=None):
    return decorate(op_name, variant_name, decorator=unittest.expectedFailure, device_type=device_type, dtypes=dtypes)


SKIP = unittest.skip("Skipped!")            # one object, so that equal marks are equal


def skip(op_name, variant_name="", *, device_type=None, dtypes=None):
    return decorate(op_name, variant_name, decorator=SKIP, device_type=device_type, dtypes=dtypes)


def add_decorator(info, decorator, test_case_name, base_test_name, device_type, dtypes):
    from torch.testing._internal.opinfo.core import DecorateInfo
    mark = DecorateInfo(decorator, test_case_name, base_test_name, device_type=device_type, dtypes=dtypes)
    info.decorators = (*info.decorators, mark)


def skipOps(test_case_name, base_test_name, to_skip):
    """Hang the marks on op_db; each must name an op that is there."""
    from torch.testing._internal.common_methods_invocations import op_db
    for op_name, variant_name, decorator, device_type, dtypes in to_skip:
        found = [op for op in op_db if op.name == op_name and op.variant_test_name == variant_name]
        assert found, f"Couldn't find OpInfo for {(op_name, variant_name)}"
        for op in found:
            add_decorator(op, decorator, test_case_name, base_test_name, device_type, dtypes)
    return lambda function: function


def decorateForModules(decorator, module_classes, device_type=None, dtypes=None):
    """Decorate a test for some module classes."""
    def hang(function):
        from torch.testing._internal.common_modules import module_db
        test_case_name, base_test_name = function.__qualname__.split(".")[-2:]
        for module_class in module_classes:
            found = [info for info in module_db if info.module_cls is module_class]
            assert found, f"Couldn't find ModuleInfo for {module_class}"
            for info in found:
                add_decorator(info, decorator, test_case_name, base_test_name, device_type, dtypes)
        return function
    return hang
