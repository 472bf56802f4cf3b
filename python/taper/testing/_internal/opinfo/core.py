"""Entries of a table of ops: samples, and decorators that apply to some of the tests made from them."""
import re

from ...._root import torch


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


class SampleInput:
    """One call of an op: its first argument, the other positional ones and those by name."""

    def __init__(self, input, *var_args, args=None, kwargs=None, output_process_fn_grad=None, broadcasts_input=False, name="", **var_kwargs):
        self.input, self.args, self.kwargs = input, tuple(args if args is not None else var_args), kwargs if kwargs is not None else var_kwargs
        self.output_process_fn_grad = output_process_fn_grad or (lambda x: x)
        self.broadcasts_input, self.name = broadcasts_input, name

    def transform(self, f):
        """The sample with `f` applied to every tensor and dtype in it."""
        def each(value):
            if isinstance(value, (torch.Tensor, torch.dtype)):
                return f(value)
            if isinstance(value, (list, tuple)):
                return type(value)(map(each, value))
            return {k: each(v) for k, v in value.items()} if isinstance(value, dict) else value
        return SampleInput(each(self.input), args=each(self.args), kwargs=each(self.kwargs), name=self.name,
                           output_process_fn_grad=self.output_process_fn_grad, broadcasts_input=self.broadcasts_input)

    def noncontiguous(self):
        def spread(value):
            if not isinstance(value, torch.Tensor) or value.dim() == 0 or value.numel() < 2:
                return value
            return torch.stack([value.detach(), value.detach()], -1)[..., 0].requires_grad_(value.requires_grad)
        return self.transform(spread)

    def numpy(self):
        return self.transform(lambda value: value.detach().numpy() if isinstance(value, torch.Tensor) else value)

    def __repr__(self):
        return f"SampleInput(input={self.input!r}, args={self.args!r}, kwargs={self.kwargs!r}, broadcasts_input={self.broadcasts_input}, name={self.name!r})"


class ErrorInput:
    """A sample that fails with this class and these words."""

    def __init__(self, sample_input, *, error_type=RuntimeError, error_regex):
        self.sample_input, self.error_type, self.error_regex = sample_input, error_type, error_regex


class OpInfo:
    """An entry of op_db. `overloads` has the ops it stands for, each with the question which of its samples belong here."""
    ref = None
    aliases = skips = ()
    supports_sparse = False
    check_batched_grad = check_batched_gradgrad = True
    gradcheck_nondet_tol = 0.0

    def __init__(self, name, *, op, aten_name, variant_test_name="", decorators=()):
        self.name, self.op, self.aten_name, self.variant_test_name = name, op, aten_name, variant_test_name
        self.decorators, self.overloads = tuple(decorators), []
        self._tried = {}
        method = aten_name if aten_name.isidentifier() else ""
        self.method_variant, self.inplace_variant = getattr(torch.Tensor, method, None), getattr(torch.Tensor, method + "_", None)

    def __call__(self, *args, **kwargs):
        return self.op(*args, **kwargs)

    @property
    def full_name(self):
        return f"{self.name}.{self.variant_test_name}" if self.variant_test_name else self.name

    @property
    def formatted_name(self):
        return self.full_name.replace(".", "_")

    @property
    def supports_out(self):
        return any(op["out"] is not None for op, _ in self.overloads)

    @property
    def dtypes(self):
        if "dtypes" not in self._tried:
            self._tried["dtypes"] = {d for op, _ in self.overloads for d in torch._C._op_dtypes(op["name"], op["overload"])}
        return self._tried["dtypes"]

    @property
    def supports_autograd(self):
        """Does a sample that wants gradients get one?"""
        if "autograd" not in self._tried:
            self._tried["autograd"] = any(map(self._records, self.dtypes & {torch.float32}))
        return self._tried["autograd"]

    supports_gradgrad = supports_inplace_autograd = supports_autograd

    def _records(self, dtype):
        for sample in self.sample_inputs("cpu", dtype, requires_grad=True):
            leaves, outputs = [], []
            sample.transform(leaves.append)
            try:
                SampleInput(self.op(sample.input, *sample.args, **sample.kwargs)).transform(outputs.append)
                wanted, outputs = ([t for t in found if isinstance(t, torch.Tensor) and t.requires_grad] for found in (leaves, outputs))
                return bool(wanted and outputs) and bool(torch.autograd.grad([t.sum() for t in outputs], wanted, allow_unused=True))
            except RuntimeError:        # it refuses a gradient
                return False
        return False

    @property
    def supports_forward_ad(self):
        """Does a sample whose tensors have tangents give one?"""
        if "forward" not in self._tried:
            self._tried["forward"] = self.supports_autograd and self._pushes()
        return self._tried["forward"]

    supports_fwgrad_bwgrad = supports_forward_ad

    def _pushes(self):
        from ....autograd import forward_ad

        def dual(value):
            wants = isinstance(value, torch.Tensor) and value.is_floating_point()
            return forward_ad.make_dual(value, torch.ones_like(value)) if wants else value
        sample, outputs = next(self.sample_inputs("cpu", torch.float32)), []
        with forward_ad.dual_level():
            sample = sample.transform(dual)
            try:
                SampleInput(self.op(sample.input, *sample.args, **sample.kwargs)).transform(outputs.append)
            except (NotImplementedError, RuntimeError):
                return False
            return any(isinstance(t, torch.Tensor) and forward_ad.unpack_dual(t).tangent is not None for t in outputs)

    def supported_dtypes(self, device_type):
        return self.dtypes

    def supported_backward_dtypes(self, device_type):
        return {d for d in self.dtypes if d.is_floating_point or d.is_complex} if self.supports_autograd else set()

    backward_dtypes = property(lambda self: self.supported_backward_dtypes("cpu"))

    def supports_dtype(self, dtype, device_type):
        return dtype in self.dtypes

    def get_op(self):
        return self.op

    def get_method(self):
        return self.method_variant

    def get_inplace(self):
        return self.inplace_variant

    def _samples(self, device, dtype, requires_grad, fails):
        for op, belongs in self.overloads:
            places = op["positional"]
            for given in torch._C._op_samples(op["name"], op["overload"], dtype, fails):
                arguments, error = given if fails else (given, None)
                if belongs(arguments):
                    sample = SampleInput(arguments[0], args=arguments[1:places], kwargs=dict(zip(op["args"][places:], arguments[places:])))
                    yield sample.transform(lambda v: _prepared(v, device, requires_grad)), error

    def sample_inputs(self, device, dtype, requires_grad=False, **kwargs):
        for sample, _ in self._samples(device, dtype, requires_grad, False):
            yield sample

    reference_inputs = sample_inputs

    def error_inputs(self, device, **kwargs):
        """Samples that the op refuses; tests/ops holds their words to PyTorch's."""
        for sample, error in self._samples(device, None, False, True):
            yield ErrorInput(sample, error_type=type(error), error_regex=re.escape(str(error).splitlines()[0]))

    error_inputs_func = error_inputs


def _prepared(value, device, requires_grad):
    if not isinstance(value, torch.Tensor):
        return value
    value = value.to(device)
    return value.requires_grad_(requires_grad and (value.is_floating_point() or value.is_complex()))
