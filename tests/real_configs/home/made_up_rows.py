"""Rows for an entry, made up from its columns: enough for its splits, its ranges and its examples."""

import re

from gold_forms import columns_for, gold_for

TEST_ROWS, TRAIN_ROWS, RANGED_ROWS = 4, 6, 120
PARTS = {
    "text": "<AIS_TEXT_START>",
    "image": "<AIS_IMAGE_START>",
    "video": "<AIS_VIDEO_START>",
    "audio": "<AIS_AUDIO_START>",
}
CUT = "<AIS_CONTENT_TAG>"
END = " and so on"
LABELS = ["the law", "the arts"]


def columns_of(reader):
    """The columns that the reader names, the output last."""
    inputs = reader.get("input_columns") or []
    inputs = inputs.split() if isinstance(inputs, str) else list(inputs)
    output = reader.get("output_column")
    return [*inputs, *([output] if output and output not in inputs else [])]


def rows_for(entry, number=0):
    """The splits of an entry: what stands in every row is told by its templates, its retriever and its inferencer.

    Values begin with the number of the entry, so that a model can tell which row it is asked about.
    """
    reader, infer = entry.get("reader_cfg") or {}, entry.get("infer_cfg") or {}
    makers = dict.fromkeys(columns_of(reader), _text)
    makers.update(_special_columns(entry, reader, infer))
    train, test = reader.get("train_split") or "train", reader.get("test_split") or "test"
    ranged = reader.get("train_range") is not None or reader.get("test_range") is not None
    shown = max(_numbers(infer.get("retriever")), default=-1) + 1
    more = RANGED_ROWS if ranged else 0
    counts = {train: max(TRAIN_ROWS, shown, more)}
    counts[test] = max(counts.get(test, 0) if test == train else 0, TEST_ROWS, more)
    starts = {train: f"{number}tr", test: f"{number}te"}
    return {
        split: [
            {column: make(column, f"{starts[split]}{row}", row) for column, make in makers.items()}
            for row in range(count)
        ]
        for split, count in counts.items()
    }


def _numbers(retriever):
    ids = (retriever or {}).get("fix_id_list") or []
    count = (retriever or {}).get("ice_num") or 0
    return [*ids, *([count - 1] if isinstance(count, int) else [])]


def _special_columns(entry, reader, infer):
    """Columns whose values are no plain texts, and columns that code of the home reads without naming them."""
    output, gold = reader.get("output_column"), gold_for(entry)
    labels = _labels(infer.get("ice_template")) or _labels(infer.get("prompt_template"))
    special = {}
    if output and labels:
        special[output] = _by_row(lambda row: labels[row % len(labels)])
    elif output and gold:
        special[output] = _by_row(gold)
    special |= {column: _by_row(make) for column, make in columns_for(entry).items()}
    return special | _template_columns(infer) | _inferencer_columns(reader, infer)


def _template_columns(infer):
    special = {}
    for template in (infer.get("ice_template"), infer.get("prompt_template")):
        for column in re.findall(r"'expand_column': '(\w+)'", repr(template)):
            special[column] = _messages
    kind = _last(infer.get("prompt_template"))
    if "MultiTurn" in kind:
        special |= {"question": _list, "answer": _list}
    elif "MMPrompt" in kind:
        shown = repr(infer["prompt_template"])
        special["content"] = _parts([part for part in PARTS if f"'{part}': {{" in shown])
    elif "Olympiad" in kind:
        special["answer_type"] = _by_row(lambda row: "Numerical")
    return special


def _inferencer_columns(reader, infer):
    kind, special = _last(infer.get("inferencer")), {}
    if kind == "LLInferencer":  # it scores the end of the prompt, which is in this column too
        special |= dict.fromkeys(columns_of(reader)[:-1], _with_end)
        special["cont"] = _by_row(lambda row: END)
    if kind == "InferencePPLOnlyInferencer":
        special["label"] = _by_row(lambda row: [[0, 4]])
    if kind == "CLPInferencer":
        special["choices"] = _by_row(lambda row: ["A", "B", "C", "D"])
    if "dialogue" in columns_of(reader) and kind == "ChatInferencer":
        special["dialogue"] = _messages
    if _last(infer.get("retriever")) == "XiezhiRetriever":
        special["labels"] = _by_row(lambda row: [LABELS[row % 2]])
    return special


def _by_row(make):
    return lambda column, start, row: make(row)


def _labels(template):
    """The labels of a template that has one text for each; none of a dialogue."""
    held = (template or {}).get("template")
    return list(held) if isinstance(held, dict) and not set(held) <= {"begin", "round", "end"} else []


def _last(config):
    kind = config.get("type", "") if isinstance(config, dict) else ""
    return str(kind).rpartition(".")[2]


def _text(column, start, number):
    if column == "max_out_len":
        return 16
    return f"https://example.org/{start}.png" if column == "image" else f"{start}.{column}"


def _with_end(column, start, number):
    return f"{start}.{column}{END}"


def _list(column, start, number):
    return [f"{start}.{column}.{turn}" for turn in range(2)]


def _messages(column, start, number):
    return [
        {"role": "user", "content": f"{start}.{column}.asked"},
        {"role": "assistant", "content": f"{start}.{column}.said"},
    ]


def _parts(kinds):
    def made(column, start, number):
        said = {kind: f"https://example.org/{start}.{kind}" for kind in kinds} | {"text": f"{start}.{column}"}
        return "".join(f"{PARTS[kind]}{said[kind]}{CUT}" for kind in kinds)

    return made
