"""Rows for an entry, made up from its columns: enough for its splits, its ranges and its examples."""

import re

TEST_ROWS, TRAIN_ROWS, RANGED_ROWS = 4, 6, 120
PARTS = {
    "text": "<AIS_TEXT_START>",
    "image": "<AIS_IMAGE_START>",
    "video": "<AIS_VIDEO_START>",
    "audio": "<AIS_AUDIO_START>",
}
CUT = "<AIS_CONTENT_TAG>"
LABELS = ["the law", "the arts"]


def columns_of(reader):
    """The columns that the reader names, the output last."""
    inputs = reader.get("input_columns") or []
    inputs = inputs.split() if isinstance(inputs, str) else list(inputs)
    output = reader.get("output_column")
    return [*inputs, *([output] if output and output not in inputs else [])]


def rows_for(entry):
    """The splits of an entry: what stands in every row is told by its templates, its retriever and its inferencer."""
    reader, infer = entry.get("reader_cfg") or {}, entry.get("infer_cfg") or {}
    makers = {column: _text for column in columns_of(reader)}
    makers.update(_special_columns(entry, reader, infer))
    train, test = reader.get("train_split") or "train", reader.get("test_split") or "test"
    ranged = reader.get("train_range") is not None or reader.get("test_range") is not None
    shown = max(_numbers(infer.get("retriever")), default=-1) + 1
    more = RANGED_ROWS if ranged else 0
    counts = {train: max(TRAIN_ROWS, shown, more)}
    counts[test] = max(counts.get(test, 0) if test == train else 0, TEST_ROWS, more)
    starts = {train: "tr", test: "te"} if train != test else {train: "te"}
    return {
        split: [
            {column: make(column, f"{starts[split]}{number}", number) for column, make in makers.items()}
            for number in range(count)
        ]
        for split, count in counts.items()
    }


def _numbers(retriever):
    ids = (retriever or {}).get("fix_id_list") or []
    count = (retriever or {}).get("ice_num") or 0
    return [*ids, *([count - 1] if isinstance(count, int) else [])]


def _special_columns(entry, reader, infer):
    """Columns whose values are no plain texts, and columns that code of the home reads without naming them."""
    inferencer = _last(infer.get("inferencer"))
    special = {}
    labels = _labels(infer.get("ice_template")) or _labels(infer.get("prompt_template"))
    if labels and reader.get("output_column"):
        special[reader["output_column"]] = _one_of(labels)
    for template in (infer.get("ice_template"), infer.get("prompt_template")):
        for column in re.findall(r"'expand_column': '(\w+)'", repr(template)):
            special[column] = _messages
    if "MultiTurn" in _last(infer.get("prompt_template")):
        special |= {"question": _list, "answer": _list}
    elif "MMPrompt" in _last(infer.get("prompt_template")):
        shown = repr(infer["prompt_template"])
        special["content"] = _parts([kind for kind in PARTS if f"'{kind}': {{" in shown])
    if inferencer == "LLInferencer":
        special["cont"] = _text
    if inferencer == "InferencePPLOnlyInferencer":
        special["label"] = _text
    if inferencer == "CLPInferencer":
        special["choices"] = lambda column, start, number: ["A", "B", "C", "D"]
    if "dialogue" in columns_of(reader) and inferencer == "ChatInferencer":
        special["dialogue"] = _messages
    if _last(infer.get("retriever")) == "XiezhiRetriever":
        special["labels"] = lambda column, start, number: [LABELS[number % 2]]
    return special


def _labels(template):
    """The labels of a template that has one text for each; none of a dialogue."""
    held = (template or {}).get("template")
    return list(held) if isinstance(held, dict) and not set(held) <= {"begin", "round", "end"} else []


def _last(config):
    kind = config.get("type", "") if isinstance(config, dict) else ""
    return str(kind).rpartition(".")[2]


def _text(column, start, number):
    return f"{start}.{column}"


def _list(column, start, number):
    return [f"{start}.{column}.{turn}" for turn in range(2)]


def _messages(column, start, number):
    return [
        {"role": "user", "content": f"{start}.{column}.asked"},
        {"role": "assistant", "content": f"{start}.{column}.said"},
    ]


def _parts(kinds):
    def made(column, start, number):
        return "".join(f"{PARTS[kind]}{start}.{column}.{kind}{CUT}" for kind in kinds)

    return made


def _one_of(labels):
    def made(column, start, number):
        return labels[number % len(labels)]

    return made
