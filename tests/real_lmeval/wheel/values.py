"""Made-up values for the columns of a task, by kind; the same column and row always get the same value."""

import json
import random
import re

WORDS = (
    "apple", "harbour", "silver", "window", "mountain", "engine", "pencil", "yellow", "ocean", "ladder", "marble", "forest",
    "copper", "evening", "bridge", "planet", "violin", "basket", "winter", "candle", "meadow", "ticket", "garden", "thunder",
    "pepper", "island", "rocket", "castle", "velvet", "mirror",
)  # fmt: skip
SPICE = ("naïve", "Zürich", "50%", "“so”", "it's", "x²", "1984", "3.5", "東京", "über", "(or)", "A&B")
LETTERS = "ABCDEFGHIJ"
ODD = (
    "7", " 12 ", "", "[1, 2]", "['a', 'b']", "[a, b]", "{{x}}", "{% if %}", "a\n\nb", "\\n", "  before", "after\t", "None", "True", "3.0",
    "½", "e\u0301", "👍🏽 so", "<|end|>", "{'a': 1}", "it's \"so\"", "A", "0", "$5 & <b>", "a\u2028b", "#### 4", "\\boxed{3}", "1,234.50",
)  # fmt: skip
odd = {"share": 0.0}
"""The share of texts that look like numbers, lists, templates or nothing (``record.py --odd``)."""

# A column's first kinds by its name; every other kind is tried after them.
BY_NAME = (
    (r"answer_?key|correct_?(option|letter|choice)|answer_?letter|correct_response_letter|ground_?truth|gold_letter", ["letter", "text"]),
    (r"(label|gold|target|correct|answer|best|right|correct_answer)_?(idx|index|id|num|number|pos|position)|label|labels|gold|idx", ["index", "digit0", "letter"]),
    (r"correct_answer_num|answer_num", ["digit1", "index"]),
    (r"answer|correct|correct_answer|target|output|gold_answer|ans", ["letter", "index", "text", "number"]),
    (r".*(choices|options|candidates|endings|answers|alternatives|classes|targets|aliases|outputs|references|texts|list|sentences|completions|labels|distractors|spans|words|tokens|rows|items)", ["list", "text"]),
    (r".*_?id|index|key|year|level|count|length|.*_length|num_.*", ["number_int", "text"]),
    (r"solution|solutions|rationale_with_answer", ["solution", "text"]),
)  # fmt: skip
KINDS = (
    "text", "index", "letter", "list", "digit0", "digit1", "number", "number_int", "bool", "yesno", "truefalse", "solution", "float",
    "label_text", "letter_dict", "letters", "indices", "json_list", "repr_list", "texts_dict", "lower_letter", "long", "code", "url",
    "list_of_lists", "list_of_dicts", "empty_list", "none", "bool_list", "index1", "json_dict", "date", "paired_dicts", "one_text_list", "json_problems",
)  # fmt: skip


def draw(*seed):
    """A generator of its own for each place."""
    return random.Random(repr(seed))


def text(*seed, least=3, most=9):
    """Some words, now and then with a strange one, a capital or a mark at the end."""
    rnd = draw("text", *seed)
    if odd["share"] and draw("odd", *seed).random() < odd["share"]:
        return rnd.choice(ODD)
    words = [rnd.choice(WORDS) for _ in range(rnd.randint(least, most))]
    if rnd.random() < 0.35:
        words[rnd.randrange(len(words))] = rnd.choice(SPICE)
    said = " ".join(words)
    shape = rnd.random()
    if shape < 0.45:
        return said[0].upper() + said[1:] + rnd.choice(".?!")
    return f"{said} " if shape > 0.97 else said


def value(kind, column, row, size, known):
    """A value of a kind; ``known`` has the row's other values (for kinds that repeat one of them)."""
    if isinstance(kind, tuple):
        return _special(kind, column, row, known)
    many = size or 4
    at = draw("at", column, row).randrange(many)
    low = draw("at", column, row).randrange(size or 2)
    return MAKERS[kind](column, row, at, low, many)


def _special(kind, column, row, known):
    name, held = kind
    rnd = draw("special", column, row)
    if name == "oneof" and len(held) > 8 and all(isinstance(one, str) and len(one) == 1 for one in held):
        held = held[:4]  # the alphabet: there are four options
    if name == "oneof":
        return held[(row + rnd.randrange(2)) % len(held)]
    if name == "const":
        return held
    if name == "boxed":
        return [held]
    if name == "same":  # one of the texts of another column
        found = _at(known, held)
        found = found if isinstance(found, (list, tuple)) else [found]
        flat = [one for one in found if isinstance(one, (str, int, float))]
        return rnd.choice(flat) if flat else text(column, row)
    if name == "sames":
        return [_special(("same", held), (column, 0), row, known)]
    raise KeyError(name)


def _at(value, path):
    for step in path:
        if value is None:
            return None
        if step == "*":
            continue
        value = (
            value.get(step)
            if isinstance(value, dict)
            else value[step]
            if isinstance(step, int) and isinstance(value, list) and step < len(value)
            else value
        )
    return value


def texts(column, row, count):
    """A list of different texts."""
    return [text(column, row, number, least=1, most=5) for number in range(count)]


def _problems(column, row, at, low, many):
    held = [
        {
            "question": text(column, row, number) + ("  _  ." if number == 0 else "?"),
            "answer": LETTERS[(at + number) % 4],
            "options": texts((column, number), row, 4),
        }
        for number in range(2)
    ]
    return str(held)


MAKERS = {
    "text": lambda column, row, at, low, many: text(column, row),
    "long": lambda column, row, at, low, many: "\n\n".join(text(column, row, part, most=20) for part in range(4)),
    "index": lambda column, row, at, low, many: low,
    "index1": lambda column, row, at, low, many: low + 1,
    "letter": lambda column, row, at, low, many: LETTERS[at % 10],
    "lower_letter": lambda column, row, at, low, many: LETTERS[at % 10].lower(),
    "digit0": lambda column, row, at, low, many: str(low),
    "digit1": lambda column, row, at, low, many: str(low + 1),
    "number": lambda column, row, at, low, many: str(7 + 3 * row),
    "number_int": lambda column, row, at, low, many: 7 + 3 * row,
    "float": lambda column, row, at, low, many: 0.5 + row,
    "bool": lambda column, row, at, low, many: at % 2 == 0,
    "yesno": lambda column, row, at, low, many: ("yes", "no")[at % 2],
    "truefalse": lambda column, row, at, low, many: ("True", "False")[at % 2],
    "list": lambda column, row, at, low, many: texts(column, row, many),
    "one_text_list": lambda column, row, at, low, many: texts(column, row, 1),
    "letters": lambda column, row, at, low, many: list(LETTERS[:many]),
    "indices": lambda column, row, at, low, many: [int(number == at) for number in range(many)],
    "bool_list": lambda column, row, at, low, many: [number == at for number in range(many)],
    "label_text": lambda column, row, at, low, many: {"label": list(LETTERS[:many]), "text": texts(column, row, many)},
    "letter_dict": lambda column, row, at, low, many: dict(zip(LETTERS[:many], texts(column, row, many), strict=False)),
    "texts_dict": lambda column, row, at, low, many: {"text": texts(column, row, 2), "answer_start": [row, row + 2]},
    "json_list": lambda column, row, at, low, many: json.dumps(texts(column, row, many), ensure_ascii=False),
    "json_dict": lambda column, row, at, low, many: json.dumps({"text": text(column, row), "label": list(LETTERS[:many])}),
    "repr_list": lambda column, row, at, low, many: repr(texts(column, row, many)),
    "list_of_lists": lambda column, row, at, low, many: [texts((column, part), row, 2) for part in range(3)],
    "list_of_dicts": lambda column, row, at, low, many: [
        {"role": ("user", "assistant")[part % 2], "content": text(column, row, part), "text": text(column, row, part, 1), "value": text(column, part)} for part in range(3)
    ],
    "paired_dicts": lambda column, row, at, low, many: [{"key": LETTERS[part], "text": text(column, row, part), "label": LETTERS[part]} for part in range(many)],
    "empty_list": lambda column, row, at, low, many: [],
    "none": lambda column, row, at, low, many: None,
    "solution": lambda column, row, at, low, many: f"{text(column, row)} So $x = {row}$ and the answer is $\\boxed{{{2 * row + 3}}}$.\n#### {2 * row + 3}",
    "code": lambda column, row, at, low, many: f"def f(x):\n    return x + {row}\n",
    "url": lambda column, row, at, low, many: f"https://example.org/{row}",
    "date": lambda column, row, at, low, many: f"19{70 + row}-03-{row + 10:02d}",
    "json_problems": _problems,
}  # fmt: skip


def kinds_for(path, shape):
    """Every kind that a leaf may have, the likeliest first: by how it is used, by its name, then all."""
    name = str(next((step for step in reversed(path) if step != "*"), "")).lower().strip()
    found = []
    for hint in sorted(shape.hints, key=lambda hint: hint[0] != "const"):
        found += _from_hint(hint, shape)
    named = next((kinds for pattern, kinds in BY_NAME if re.fullmatch(pattern, name)), ["text"])
    if shape.items is not None:
        members = [("sames", hint[1]) for hint in shape.items.hints if hint[0] == "same"]
        found = [*members, "list", *found, "indices", "letters", "one_text_list"]
    found += named
    return list(dict.fromkeys([*found, *KINDS]))


def _from_hint(hint, shape):
    kind = hint[0]
    if kind == "oneof":
        return [("oneof", hint[1])] if hint[1] else []
    if kind == "const":
        return [hint]
    if kind == "same":
        return [("same", hint[1])] + (["letter", "index"] if hint[1][-1] in ("label", "labels", "key", "keys") else [])
    if kind == "equal":
        equal = tuple(held[1] for held in shape.hints if held[0] == "equal" and held[1] is not None)
        if all(isinstance(one, bool) for one in equal):
            return ["bool"]
        return [("oneof", equal), *[("const", one) for one in equal]] if equal else []
    return {
        "index": ["index"], "digits": ["digit0", "digit1", "number"], "letter": ["letter"], "json": ["json_list", "json_dict"],
        "repr": ["repr_list", "json_problems"], "text": [], "named": [], "dict": ["letter_dict", "label_text"], "number": ["index1"],
    }[kind]  # fmt: skip


def size_for(shape, default=0):
    """How many choices an index may name: known from the list that it indexes."""
    return max([hint[1] for hint in shape.hints if hint[0] == "index"] + [default])


def made(shape, kinds, row, path=(), known=None, sizes=None):
    """A value for a shape; ``kinds`` says the kind of each leaf, ``sizes`` how many choices there are."""
    known = {} if known is None else known
    if shape.keys and not (path and kinds.get(path)):
        out = {}
        if not path:
            known = out
        later = []
        for name, held in shape.keys.items():
            if isinstance(kinds.get((*path, name)), tuple) and kinds[(*path, name)][0] in ("same", "sames"):
                later.append(name)
                out[name] = None
            else:
                out[name] = made(held, kinds, row, (*path, name), known, sizes)
        for name in later:
            out[name] = made(shape.keys[name], kinds, row, (*path, name), known, sizes)
        return out
    if shape.items is not None and (shape.items.keys or shape.items.items is not None) and not kinds.get(path):
        count = max(shape.size, 3)
        return [made(shape.items, kinds, row * 7 + part, (*path, "*"), known, sizes) for part in range(count)]
    kind = kinds.get(path) or "text"
    size = (sizes or {}).get(path) or size_for(shape) or (max(shape.size, 4) if shape.items is not None else 0)
    return value(kind, path, row, size, known)
