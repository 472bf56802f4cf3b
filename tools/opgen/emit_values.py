"""What an expression becomes in C: a kind, a piece of text, and the words both share."""
from dataclasses import dataclass

DTYPES = ("u8", "i8", "i16", "i32", "i64", "f16", "f32", "f64", "c64", "c128", "b8", "bf16")
FORMATS = {"contiguous_format": "TP_FORMAT_CONTIGUOUS", "preserve_format": "TP_FORMAT_PRESERVE",
           "channels_last": "TP_FORMAT_CHANNELS_LAST", "channels_last_3d": "TP_FORMAT_CHANNELS_LAST_3D"}
CLASSES = {"runtime": "TP_ERR_RUNTIME", "value": "TP_ERR_VALUE", "index": "TP_ERR_INDEX", "type": "TP_ERR_TYPE",
           "unimplemented": "TP_ERR_UNIMPLEMENTED", "linalg": "TP_ERR_LINALG", "zero_division": "TP_ERR_ZERO_DIVISION"}
COMPARE = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne"}
C_WORDS = set("""auto break case char const continue default do double else enum extern float for goto if inline int long register
    restrict return short signed sizeof static struct switch typedef union unsigned void volatile while bool true false
    op arg out result bad s b k index exp log pow floor ceil round min max sin cos tan sqrt div abs remainder fmod end""".split())


def c_name(name):
    return name + "_" if name in C_WORDS else name


@dataclass
class Val:
    """kind: int sym bool float scalar dtype str ints syms tensor tensors value none list format options layout device.
    `present`: C text that says whether an optional value is there; None: always. `box`: C text of the same thing as a
    tp_value, when there is one already. `literal`: it stood so in the text."""
    kind: str
    text: str = ""
    present: str = None
    box: str = None
    literal: bool = False
    items: list = None          # of kind list
    declared: str = None        # the schema type of an argument
    node: object = None


CTYPE = {"int": "int64_t", "sym": "tp_sym", "bool": "bool", "float": "double", "scalar": "tp_value", "dtype": "tp_dtype",
         "str": "const char *", "ints": "tp_ints", "syms": "tp_syms", "tensor": "tp_tensor *", "value": "tp_value",
         "tensors": "tp_value", "format": "tp_format", "values": "tp_value", "options": "tp_value", "device": "tp_device",
         "onnx": "int"}


def declare(kind, name):
    ctype = CTYPE[kind]
    return ctype + ("" if ctype.endswith("*") else " ") + name


def simple(text):
    return text.isidentifier() or text.endswith(")") and text[:text.find("(")].isidentifier()


def bare(text):
    """Without outer parentheses that enclose all of it."""
    if not text.startswith("(") or not text.endswith(")"):
        return text
    depth = 0
    for i, c in enumerate(text):
        depth += c == "("
        depth -= c == ")"
        if depth == 0 and i + 1 < len(text):
            return text
    return text[1:-1]
