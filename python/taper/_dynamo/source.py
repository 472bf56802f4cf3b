"""Sources: where values of a program come from, as Python that finds them again. Guards are written over them."""
import dataclasses
import enum

from .._guards import ChainedSource, Source


@dataclasses.dataclass(frozen=True)
class LocalSource(Source):
    local_name: str
    is_input: bool = False
    dynamism: object = None
    is_derefed_cell_contents: bool = False

    @property
    def name(self):
        return f"L[{self.local_name!r}]"


@dataclasses.dataclass(frozen=True)
class GlobalSource(Source):
    global_name: str

    @property
    def name(self):
        return f"G[{self.global_name!r}]"


@dataclasses.dataclass(frozen=True)
class ConstantSource(Source):
    source_name: str

    @property
    def name(self):
        return self.source_name


@dataclasses.dataclass(frozen=True)
class AttrSource(ChainedSource):
    member: str

    @property
    def name(self):
        return f"{self.base.name}.{self.member}"


@dataclasses.dataclass(frozen=True)
class GetItemSource(ChainedSource):
    index: object

    @property
    def name(self):
        return f"{self.base.name}[{self.index!r}]"


class TensorProperty(enum.Enum):
    SIZE = 0
    STRIDE = 1
    STORAGE_OFFSET = 2

    def method_name(self):
        return self.name.lower()


@dataclasses.dataclass(frozen=True)
class TensorPropertySource(ChainedSource):
    prop: TensorProperty
    idx: int = None

    @property
    def name(self):
        called = f"{self.base.name}.{self.prop.method_name()}()"
        return called if self.prop is TensorProperty.STORAGE_OFFSET else f"{called}[{self.idx}]"
