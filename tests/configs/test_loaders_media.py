"""AISBench's datasets with images: their files, and the prompts that come of them."""

import base64
import json

import pytest

import kshot
from kshot.configs import splits_of, task_of
from kshot.configs.dataset_entry import DatasetEntry
from kshot.configs.loaders.custom import content_text
from kshot.core.errors import DataError
from tests.media_files import BLUE, RED, WAV

FORMS = {
    kind: {"type": f"{kind}_url", f"{kind}_url": {"url": f"file://{{{kind}}}"}} for kind in ("image", "video", "audio")
}


def made(loader, path, url=None, **options):
    forms = FORMS | ({"image": {"type": "image_url", "image_url": {"url": url}}} if url else {})
    body = {
        "abbr": "made-up",
        "type": loader,
        "path": str(path),
        "reader_cfg": {"input_columns": ["question", "image"], "output_column": "answer"},
        "infer_cfg": {
            "prompt_template": {
                "type": "MMPromptTemplate",
                "template": {
                    "round": [{"role": "HUMAN", "prompt_mm": {"text": {"type": "text", "text": "{question}"}, **forms}}]
                },
            },
            "retriever": {"type": "ZeroRetriever"},
            "inferencer": {"type": "GenInferencer"},
        },
        "eval_cfg": {"evaluator": {"type": "AccEvaluator"}},
        **options,
    }
    return DatasetEntry(body, strict=False, framework="ais_bench")


def write_lines(path, rows):
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


def prompts(entry):
    """Return the parts of each prompt: texts, and the bytes of media."""
    task = task_of(entry, splits_of(entry))
    shown = [task.template(sample, ()) for sample in task.samples]
    return [
        [part.text if hasattr(part, "text") else part.data for part in prompt.messages[-1].content] for prompt in shown
    ]


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, data in {"red.png": RED, "blue.png": BLUE, "a.wav": WAV}.items():
        (tmp_path / name).write_bytes(data)
    return tmp_path


@pytest.mark.parametrize("mm_type", ["path", "base64"])
def test_rows_of_ones_own(files, mm_type):
    rows = [
        {"type": "image", "path": ["red.png", "blue.png"], "question": "Which?", "answer": "both"},
        {"type": "audio", "path": ["a.wav"], "question": "Heard?", "answer": "no"},
    ]
    entry = made("MMCustomDataset", write_lines(files / "rows.jsonl", rows), mm_type=mm_type)
    assert prompts(entry) == [[RED, BLUE, "Which?"], [WAV, "Heard?"]]
    first = splits_of(entry)[0]
    assert first["answer"] == "both"
    if mm_type == "path":
        assert first["content"] == (
            "<AIS_IMAGE_START>red.png<AIS_CONTENT_TAG><AIS_IMAGE_START>blue.png<AIS_CONTENT_TAG><AIS_TEXT_START>Which?"
        )


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"type": "smell", "path": [], "question": "?"}, "its type is 'smell', not image, video or audio"),
        ({"type": "image", "path": "red.png", "question": "?"}, "its path is 'red.png', not a list of paths"),
        ({"type": "image", "path": []}, "this row has no 'question'"),
        ({"type": "video", "path": ["v.mp4"], "question": "?"}, "pictures of a video"),
    ],
)
def test_a_wrong_row_is_named(files, row, message):
    entry = made("MMCustomDataset", write_lines(files / "rows.jsonl", [row]), mm_type="base64")
    with pytest.raises(DataError, match=rf"rows\.jsonl:1: .*{message}|{message}"):
        splits_of(entry)


@pytest.mark.parametrize(
    ("image_type", "url"),
    [("image_path", "file://{image}"), ("image_base64", "data:image/jpeg;base64,{image}")],
)
def test_textvqa(files, image_type, url):
    row = {"question_id": 7, "image": "red.png", "question": "Which colour?"}
    path = write_lines(files / "textvqa_val.jsonl", [row])
    notes = {"annotations": [{"question_id": 7, "answers": [{"answer": "red"}]}]}
    (files / "textvqa_val_annotations.json").write_text(json.dumps(notes))
    entry = made("TEXTVQADataset", path, url, image_type=image_type)
    assert prompts(entry) == [[RED, "Which colour?"]]
    assert splits_of(entry)[0]["answer"] == [{"answer": "red"}]


def test_textvqa_without_its_answers(files):
    path = write_lines(files / "val.jsonl", [{"question_id": 7, "image": "red.png", "question": "?"}])
    entry = made("TEXTVQADataset", path, image_type="image_path")
    with pytest.raises(DataError, match=r"val_annotations\.json: .*it has the answers"):
        splits_of(entry)
    (files / "val_annotations.json").write_text('{"annotations": []}')
    with pytest.raises(DataError, match="no answers to the question 7"):
        splits_of(entry)


def test_hle_shows_its_images(files):
    pytest.importorskip("pyarrow")
    from pyarrow import Table, parquet

    encoded = f"data:image/png;base64,{base64.b64encode(RED).decode()}"
    rows = [
        {"question": "Seen?", "image": encoded, "answer": "A"},
        {"question": "Read?", "image": "", "answer": "B"},
    ]
    parquet.write_table(Table.from_pylist(rows), files / "test.parquet")
    entry = made("HLEDataset", files / "test.parquet", "{image}")
    assert prompts(entry) == [["Seen?", RED], ["Read?"]]

    def model(prompt: kshot.Prompt) -> str:
        return "A" if prompt.media else "B"

    assert kshot.evaluate(model, task_of(entry, splits_of(entry))).results[0]["value"] == 100.0


def test_parts_as_aisbench_writes_them():
    assert content_text([("video", "v.mp4"), ("text", "?")]) == (
        "<AIS_VIDEO_START>v.mp4<AIS_CONTENT_TAG><AIS_TEXT_START>?<AIS_CONTENT_TAG>"
    )
