"""The call of a number: one op of the table, with arguments that are hostile throughout, or plausible but for one or two."""
import random
import re

from arguments import VIEWS, Plausible, Tensor, any_int, hostile_tensor, ints, value_of

ARGUMENT = re.compile(r"(?P<kind>\w+)(\((?P<alias>[^)]*)\))?(?P<optional>\?)?(?P<list>\[(?P<count>\d*)\](\([^)]*\))?(?P<whole>\?)?)?\s+(?P<name>\w+)(=(?P<default>.*))?$")
NAMES = "abcdefghijklmnop"


def split_arguments(text):
    parts, depth, word = [], 0, ""
    for letter in text:
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and depth == 0:
            parts.append(word.strip())
            word = ""
        else:
            word += letter
    return [part for part in (*parts, word.strip()) if part]


class Schema:
    """The arguments of an op, parsed from its schema."""

    def __init__(self, entry):
        text = entry["schema"]
        self.key = f"{entry['name']}.{entry['overload']}"
        self.name = f"{entry['space']}::{self.key}"
        self.args, self.keyword = [], set()
        starred = False
        for part in split_arguments(text[text.index("(") + 1:text.rindex(" -> ") - 1]):
            if part == "*":
                starred = True
                continue
            found = ARGUMENT.match(part).groupdict()
            self.args.append(found)
            if starred:
                self.keyword.add(found["name"])


def value_for(rng, arg):
    """Any value of an argument's type."""
    if (arg["optional"] and not arg["list"] or arg["whole"]) and rng.random() < 0.3:
        return "None"
    if not arg["list"]:
        return value_of(rng, arg["kind"])
    count = int(arg["count"] or 0)
    if arg["kind"] in ("int", "SymInt"):
        return any_int(rng) if count == 1 and rng.random() < 0.3 else ints(rng, count)
    count = count or rng.choice((0, 1, 2, 2, 3, 3, 5))
    if rng.random() < 0.1:
        count = rng.choice((0, 1, count + 1))
    if rng.random() < 0.3:
        return [value_of(rng, arg["kind"])] * count
    return ["None" if arg["optional"] and rng.random() < 0.3 else value_of(rng, arg["kind"]) for _ in range(count)]


def plausible(rng, schema):
    """A call whose tensors are of one size and type."""
    source, count = Plausible(rng), rng.choice((1, 2, 2, 3))
    values = []
    for arg in schema.args:
        if arg["default"] is not None and rng.random() < 0.6:
            values.append(None)
        elif arg["list"]:
            values.append([source.value(rng, arg["kind"], arg["name"]) for _ in range(int(arg["count"] or count))])
        else:
            values.append(source.value(rng, arg["kind"], arg["name"]))
    return spoiled(rng, schema, values)


def spoiled(rng, schema, values):
    """Plausible values with one made hostile, or two, or none."""
    for _ in range(rng.choice((0, 1, 1, 1, 1, 2, 2, 3)) if values else 0):
        at = rng.randrange(len(values))
        values[at] = near(rng, schema.args[at], values[at]) if values[at] is not None else value_for(rng, schema.args[at])
    return values


def is_out(arg):
    return arg["alias"] and "!" in arg["alias"] and arg["kind"] == "Tensor"


def plausible_out(values):
    """An empty tensor of the type of the first tensor."""
    first = next((v for value in values for v in (value if isinstance(value, list) else [value]) if isinstance(v, Tensor)), None)
    return Tensor(first.dtype if first else "f32", (0,))


def near(rng, arg, value):
    """A value near to a plausible one."""
    if isinstance(value, Tensor) and rng.random() < 0.8:
        return hostile_tensor(rng, value)
    if isinstance(value, list) and value and rng.random() < 0.7:
        value, at = list(value), rng.randrange(len(value))
        how = rng.random()
        if how < 0.6:
            value[at] = near(rng, {**arg, "list": None}, value[at]) if isinstance(value[at], Tensor) else value_of(rng, arg["kind"])
        elif how < 0.75:
            value.append(value[at])
        elif how < 0.9:
            del value[at]
        else:
            value = value * rng.choice((2, 20))
        return value
    if isinstance(value, int) and not isinstance(value, bool) and rng.random() < 0.4:
        return value + rng.choice((-1, 1, 2))
    return value_for(rng, arg)


def seeded(rng, schema, call):
    """Values of all arguments by a plausible call; those it does not mention are None: the schema's default."""
    positional, keywords = call
    values = [None] * len(schema.args)
    for at, arg in enumerate(schema.args):
        if at < len(positional) and arg["name"] not in schema.keyword:
            values[at] = positional[at]
        elif arg["name"] in keywords:
            values[at] = keywords[arg["name"]]
        elif arg["default"] is None:
            values[at] = plausible_out(values) if is_out(arg) else value_for(rng, arg)
    return spoiled(rng, schema, values)


def tensors_in(values):
    for at, value in enumerate(values):
        if isinstance(value, Tensor):
            yield at, None
        elif isinstance(value, list):
            yield from ((at, k) for k, v in enumerate(value) if isinstance(v, Tensor))


def aliased(rng, schema, values):
    """Makes one tensor, or each that is written with some luck, a view of one before it."""
    places = list(tensors_in(values))
    written = [p for p in places[1:] if is_out(schema.args[p[0]])]
    chosen = [p for p in written if rng.random() < 0.6] or ([rng.choice(places[1:])] if len(places) > 1 else [])
    texts = {}
    for number, place in enumerate(chosen[:6]):
        source = rng.choice(places[:places.index(place)])
        if source in texts and not texts[source].startswith("("):
            continue
        name = texts[source][1] if source in texts else NAMES[number]
        at, k = source
        texts.setdefault(source, f"({name} := {values[at] if k is None else values[at][k]!r})")
        texts[place] = rng.choice(VIEWS).format(name)
    return texts


def written(value, texts, at):
    if isinstance(value, list):
        return "[" + ", ".join(texts.get((at, k)) or written(v, {}, None) for k, v in enumerate(value)) + "]"
    return texts.get((at, None)) or (value if isinstance(value, str) else repr(value))


def text_of(rng, schema, values):
    texts = aliased(rng, schema, values) if rng.random() < (0.4 if schema.args and is_out(schema.args[-1]) else 0.1) else {}
    words, skipped = [], False
    for at, (arg, value) in enumerate(zip(schema.args, values)):
        keyword = skipped or arg["name"] in schema.keyword
        if value is None:
            skipped = True
        elif keyword and arg["name"] in ("from", "lambda"):
            words.append(f"**{{{arg['name']!r}: {written(value, texts, at)}}}")
        else:
            words.append(f"{arg['name']}={written(value, texts, at)}" if keyword else written(value, texts, at))
    return f"op({schema.name!r})({', '.join(words)})"


class Calls:
    def __init__(self, table, seeds, seed):
        self.schemas = [Schema(entry) for entry in table]
        self.seeds, self.seed = seeds, seed

    def __getitem__(self, number):
        rng = random.Random(f"{self.seed}:{number}")
        schema = self.schemas[number % len(self.schemas)]
        known = self.seeds.get(schema.key)
        how = rng.random()
        if known and how < 0.8:
            values = seeded(rng, schema, rng.choice(known))
        elif how < (0.85 if known else 0.7):
            values = plausible(rng, schema)
        else:
            values = [None if arg["default"] is not None and rng.random() < 0.5 else value_for(rng, arg) for arg in schema.args]
        way = rng.choice(("plain", "plain", "plain", "plain", "grad", "grad", "grad", "fake"))
        return way, text_of(rng, schema, values)
