"""What the inputs and outputs of an exported graph are."""
import dataclasses
from enum import auto, Enum
from typing import Any, Mapping, Optional, Union

__all__ = ["ConstantArgument", "CustomObjArgument", "ExportBackwardSignature", "ExportGraphSignature", "InputKind", "InputSpec",
           "OutputKind", "OutputSpec", "SymIntArgument", "SymFloatArgument", "SymBoolArgument", "TensorArgument", "TokenArgument"]


@dataclasses.dataclass
class TensorArgument:
    name: str


@dataclasses.dataclass
class TokenArgument:
    name: str


@dataclasses.dataclass
class SymIntArgument:
    name: str


@dataclasses.dataclass
class SymFloatArgument:
    name: str


@dataclasses.dataclass
class SymBoolArgument:
    name: str


@dataclasses.dataclass
class CustomObjArgument:
    name: str
    class_fqn: str
    fake_val: Optional[Any] = None


@dataclasses.dataclass
class ConstantArgument:
    name: str
    value: Union[int, float, bool, str, None]


class InputKind(Enum):
    USER_INPUT = auto()
    PARAMETER = auto()
    BUFFER = auto()
    CONSTANT_TENSOR = auto()
    CUSTOM_OBJ = auto()
    TOKEN = auto()


class OutputKind(Enum):
    USER_OUTPUT = auto()
    LOSS_OUTPUT = auto()
    BUFFER_MUTATION = auto()
    GRADIENT_TO_PARAMETER = auto()
    GRADIENT_TO_USER_INPUT = auto()
    USER_INPUT_MUTATION = auto()
    TOKEN = auto()


def _row(spec, persistent=None):
    target = "" if spec.target is None else f" target='{spec.target}'"
    kept = "" if persistent is None else f" persistent={persistent}"
    name = spec.arg.name if not isinstance(spec, OutputSpec) or not isinstance(spec.arg, ConstantArgument) else ""
    return f"{name}: {spec.kind.name}{target}{kept}"


@dataclasses.dataclass
class InputSpec:
    kind: InputKind
    arg: Any
    target: Optional[str]
    persistent: Optional[bool] = None

    def __post_init__(self):
        if self.kind == InputKind.BUFFER and self.persistent is None:
            raise AssertionError("Failed to specify persistent flag on BUFFER.")

    def __str__(self):
        return _row(self, self.persistent)


@dataclasses.dataclass
class OutputSpec:
    kind: OutputKind
    arg: Any
    target: Optional[str]

    def __str__(self):
        return _row(self)


@dataclasses.dataclass
class ExportBackwardSignature:
    gradients_to_parameters: dict
    gradients_to_user_inputs: dict
    loss_output: str


def _names(specs, *kinds):
    return tuple(spec.arg.value if isinstance(spec.arg, ConstantArgument) else spec.arg.name for spec in specs if spec.kind in kinds)


def _targets(specs, kind):
    return {spec.arg.name: spec.target for spec in specs if spec.kind == kind}


@dataclasses.dataclass
class ExportGraphSignature:
    """A row for each placeholder and each output, in their order, and questions about them."""
    input_specs: list
    output_specs: list

    @property
    def parameters(self):
        return tuple(s.target for s in self.input_specs if s.kind == InputKind.PARAMETER)

    @property
    def buffers(self):
        return tuple(s.target for s in self.input_specs if s.kind == InputKind.BUFFER)

    @property
    def non_persistent_buffers(self):
        return tuple(s.target for s in self.input_specs if s.kind == InputKind.BUFFER and s.persistent is False)

    @property
    def lifted_tensor_constants(self):
        return tuple(s.target for s in self.input_specs if s.kind == InputKind.CONSTANT_TENSOR)

    @property
    def lifted_custom_objs(self):
        return tuple(s.target for s in self.input_specs if s.kind == InputKind.CUSTOM_OBJ)

    @property
    def user_inputs(self):
        return _names(self.input_specs, InputKind.USER_INPUT)

    @property
    def user_outputs(self):
        return _names(self.output_specs, OutputKind.USER_OUTPUT, OutputKind.LOSS_OUTPUT)

    @property
    def inputs_to_parameters(self) -> Mapping[str, str]:
        return _targets(self.input_specs, InputKind.PARAMETER)

    @property
    def inputs_to_buffers(self) -> Mapping[str, str]:
        return _targets(self.input_specs, InputKind.BUFFER)

    @property
    def inputs_to_lifted_tensor_constants(self) -> Mapping[str, str]:
        return _targets(self.input_specs, InputKind.CONSTANT_TENSOR)

    @property
    def inputs_to_lifted_custom_objs(self) -> Mapping[str, str]:
        return _targets(self.input_specs, InputKind.CUSTOM_OBJ)

    @property
    def buffers_to_mutate(self) -> Mapping[str, str]:
        return _targets(self.output_specs, OutputKind.BUFFER_MUTATION)

    @property
    def user_inputs_to_mutate(self) -> Mapping[str, str]:
        return _targets(self.output_specs, OutputKind.USER_INPUT_MUTATION)

    @property
    def backward_signature(self):
        parameters = _targets(self.output_specs, OutputKind.GRADIENT_TO_PARAMETER)
        inputs = _targets(self.output_specs, OutputKind.GRADIENT_TO_USER_INPUT)
        losses = _names(self.output_specs, OutputKind.LOSS_OUTPUT)
        return ExportBackwardSignature(parameters, inputs, losses[0]) if losses else None

    @property
    def assertion_dep_token(self):
        return None

    def replace_all_uses(self, old, new):
        """Renames a node wherever a row mentions it."""
        for spec in (*self.input_specs, *self.output_specs):
            if not isinstance(spec.arg, ConstantArgument) and spec.arg.name == old:
                spec.arg.name = new
            if isinstance(spec, OutputSpec) and spec.kind == OutputKind.USER_INPUT_MUTATION and spec.target == old:
                spec.target = new

    def get_replace_hook(self):
        return lambda old, new, user: self.replace_all_uses(old.name, new)

    def _capsule(self):
        """The rows as C reads them."""
        from .. import _C
        return _C._export_signature([(s.kind.value, s.arg.name, s.target, bool(s.persistent)) for s in self.input_specs],
                                    [(s.kind.value, s.target) for s in self.output_specs])

    def __str__(self):
        lines = ["\n# inputs", *map(str, self.input_specs), "\n# outputs", *map(str, self.output_specs)]
        return "\n".join(lines) + "\n"
