"""The media of a config's prompts: every form in which rows name them, and what is never read or sent."""

import base64
import json
import os
import re
from pathlib import Path

import pytest

import kshot
from kshot.configs import entry, task_of
from kshot.configs.loader import load
from kshot.configs.media import MAX_MEDIA_BYTES, MAX_PROMPT_BYTES, PromptMedia, given_places
from kshot.core.content import MediaPart, TextPart
from kshot.core.errors import DataError
from tests.commands import kshot as command
from tests.fake_server import FakeServer, chat
from tests.media_files import BLUE, RED, WAV

ENCODED = base64.b64encode(RED).decode()
TEMPLATE = """
from ais_bench.benchmark.openicl.icl_prompt_template.icl_prompt_template_mm import MMPromptTemplate
from ais_bench.benchmark.openicl.icl_retriever import ZeroRetriever
from ais_bench.benchmark.openicl.icl_inferencer import GenInferencer
from ais_bench.benchmark.openicl.icl_evaluator import AccEvaluator

colours_datasets = [
    dict(
        abbr="colours",
        reader_cfg=dict(input_columns=["question", "image"], output_column="answer"),
        infer_cfg=dict(
            prompt_template=dict(
                type=MMPromptTemplate,
                template=dict(
                    round=[
                        dict(
                            role="HUMAN",
                            prompt_mm={
                                "text": {"type": "text", "text": "{question}"},
                                "image": {"type": "image_url", "image_url": {"url": "file://{image}"}},
                            },
                        )
                    ]
                ),
            ),
            retriever=dict(type=ZeroRetriever),
            inferencer=dict(type=GenInferencer),
        ),
        eval_cfg=dict(evaluator=dict(type=AccEvaluator)),
    )
]
"""


def row(image, answer="red"):
    return {
        "content": f"<AIS_IMAGE_START>{image}<AIS_CONTENT_TAG><AIS_TEXT_START>Which colour?<AIS_CONTENT_TAG>",
        "answer": answer,
    }


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A config with pictures beside its rows, and the current folder elsewhere."""
    folder = tmp_path / "project"
    (folder / "pics").mkdir(parents=True)
    (folder / "pics" / "red.png").write_bytes(RED)
    (folder / "pics" / "blue.png").write_bytes(BLUE)
    (folder / "colours.py").write_text(TEMPLATE)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return folder


def media(project=None, given=()):
    found = entry({"abbr": "x"}) if project is None else load(project / "colours.py").datasets["colours_datasets"][0]
    return PromptMedia(found, given)


def image_part(url, **more):
    return {"type": "image_url", "image_url": {"url": url, **more}}


# ---- forms ----

RED_PART = MediaPart.of_bytes("image", "image/png", RED)


@pytest.mark.parametrize(
    "part",
    [
        image_part(f"data:image/png;base64,{ENCODED}"),
        image_part(f"data:;base64,{ENCODED}"),
        image_part(f"DATA:image/png;charset=x;BASE64,{ENCODED[:20]}\n{ENCODED[20:]}"),
        image_part(f"data:image/png;base64,data:image/png;base64,{ENCODED}"),
        image_part(f"file://data:image/png;base64,{ENCODED}"),
        image_part(ENCODED),
        {"type": "image_url", "image_url": ENCODED},
        {"type": "image", "image": RED},
        {"type": "image", "base64": ENCODED},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": ENCODED}},
        {"type": "image", "image": {"bytes": RED, "path": None}},
    ],
)
def test_forms_of_an_image_of_bytes(part):
    assert media().content([part]) == (RED_PART,)


def test_forms_of_other_parts():
    wav = base64.b64encode(WAV).decode()
    frames = [RED, BLUE]
    joined = ",".join(base64.b64encode(each).decode() for each in frames)
    assert media().content(
        [
            "a",
            {"type": "text", "text": "b"},
            {"type": "input_audio", "input_audio": {"data": wav, "format": "wav"}},
            {"type": "audio_url", "audio_url": {"url": f"data:audio/wav;base64,{wav}"}},
            {"type": "video_url", "video_url": {"url": f"data:video/jpeg;base64,{joined}"}},
            image_part("https://x.example/a.png", detail="low"),
            image_part("file://https://x.example/b.png"),
        ]
    ) == (
        TextPart("a"),
        TextPart("b"),
        MediaPart.of_bytes("audio", "audio/wav", WAV),
        MediaPart.of_bytes("audio", "audio/wav", WAV),
        MediaPart.of_bytes("video", "video/jpeg", *frames),
        MediaPart.of_url("image", "https://x.example/a.png", detail="low"),
        MediaPart.of_url("image", "https://x.example/b.png"),
    )
    assert media().content("text") == "text"


def test_the_type_of_a_data_url_is_that_of_its_bytes():
    assert media().content([image_part(f"data:image/jpeg;base64,{ENCODED}")]) == (RED_PART,)


def test_many_prefixes_take_no_longer_than_their_length():
    (part,) = media().content([image_part("file://" * 1_000_000 + "https://x.example/a.png")])  # squared: hours
    assert part == MediaPart.of_url("image", "https://x.example/a.png")


@pytest.mark.parametrize("nothing", [None, [], [None]])
def test_a_row_whose_image_is_missing_is_named(project, nothing):
    found = load(project / "colours.py").datasets["colours_datasets"][0]
    task = task_of(found, [{"question": "Which?", "image": nothing, "answer": "red"}])
    with pytest.raises(DataError, match=r"colours.*row 0.*the column 'image' is .*, and the prompt shows it"):
        task.template(task.samples[0], ())


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ({"type": "smell"}, "a part of a message is {'type': 'smell'}"),
        (7, "a part of a message is 7"),
        (image_part(""), "without a file, address or bytes"),
        (image_part(None), "without a file, address or bytes"),
        (image_part("data:image/png,abc"), "is no data URL of base64"),
        (image_part("data:image/png;base64,abc"), "cannot be read"),
        (image_part("data:image/png;base64,"), "of no bytes"),
        (image_part("data:text/plain;base64,aGk="), "names text/plain as image"),
        (image_part(f"data:image/png;base64,{ENCODED},{ENCODED}"), "has a comma in it"),
        (image_part("data:;base64,aGVsbG8gd29ybGQ="), "none that kshot knows"),
        (image_part("data:image/png;base64,aGVsbG8gd29ybGQ="), "are no image: they are none that kshot knows"),
        (image_part("data:image/svg+xml;base64,PHN2Zy8+"), "are no image: they are none that kshot knows"),
        (image_part(f"data:image/png;base64,{base64.b64encode(WAV).decode()}"), "no image: they are audio/wav"),
        (image_part("s3://bucket/a.png"), "kshot reads no s3: addresses"),
        (image_part("file://nowhere/a.png"), "there is no file 'nowhere/a.png'"),
        (image_part("a\0b"), "is no path"),
        (image_part("x" * 5000), "there is no file"),
    ],
)
def test_what_cannot_be_read_is_one_clear_message(part, message):
    with pytest.raises(DataError, match=re.escape(message)):
        media().content([part])


# ---- files, and where they may lie ----


@pytest.mark.parametrize(
    "written", ["pics/red.png", "file://pics/red.png", "{root}/pics/red.png", "file://{root}/pics/red.png"]
)
def test_files_of_the_project(project, written):
    (part,) = media(project).content([image_part(written.format(root=project))])
    assert (part, part.name) == (RED_PART, "red.png")


def test_a_browsers_spelling_of_a_path(project):
    (project / "pics" / "a b.png").write_bytes(RED)
    assert media(project).content([image_part("file://pics/a%20b.png")]) == (RED_PART,)


def test_files_where_the_frameworks_keep_data(project, monkeypatch, tmp_path):
    for folder in (Path("data"), Path("ais_bench/datasets"), tmp_path / "cache" / "data"):
        folder.mkdir(parents=True)
        (folder / "red.png").write_bytes(RED)
    monkeypatch.setenv("COMPASS_DATA_CACHE", str(tmp_path / "cache"))
    for path in ("data/red.png", "ais_bench/datasets/red.png", tmp_path / "cache/data/red.png"):
        assert media(project).content([image_part(str(path))]) == (RED_PART,)


def test_files_beside_the_rows_that_the_user_gives(project, tmp_path):
    rows = tmp_path / "rows"
    rows.mkdir()
    (rows / "red.png").write_bytes(RED)
    (rows / "test.jsonl").write_text("{}")
    with pytest.raises(DataError, match="a row names the file"):
        media(project).content([image_part(str(rows / "red.png"))])
    for given in (str(rows), str(rows / "test.jsonl"), f"{rows}/{{split}}.jsonl"):
        for path in ("red.png", str(rows / "red.png")):
            assert media(project, given_places(given)).content([image_part(path)]) == (RED_PART,)
    assert given_places(None) == []


def test_of_two_files_the_one_that_may_be_read_is_taken(project):
    Path("pics").mkdir()
    Path("pics/red.png").write_bytes(BLUE)  # in the current folder, which is not the project's
    assert media(project).content([image_part("pics/red.png")]) == (RED_PART,)


@pytest.mark.parametrize("way", ["absolute", "above", "link", "hidden"])
def test_files_elsewhere_are_never_sent(project, tmp_path, way):
    secret = tmp_path / "secret.png"
    secret.write_bytes(RED)
    (project / "pics" / "link.png").symlink_to(secret)
    (project / ".hidden").mkdir()
    (project / ".hidden" / "red.png").write_bytes(RED)
    path = {
        "absolute": secret,
        "above": project / "pics/../../secret.png",
        "link": project / "pics/link.png",
        "hidden": project / ".hidden/red.png",
    }[way]
    with pytest.raises(DataError, match=r"a row names the file .*It is not sent to a model"):
        media(project).content([image_part(f"file://{path}")])


@pytest.mark.parametrize("content", [b"-----BEGIN OPENSSH PRIVATE KEY-----\n", b"", WAV], ids=["key", "empty", "sound"])
def test_a_file_that_is_no_image_is_not_sent_as_one(project, content):
    (project / "pics" / "fake.png").write_bytes(content)
    with pytest.raises(DataError, match=r"fake\.png is no image"):
        media(project).content([image_part("pics/fake.png")])


def test_a_pipe_and_a_folder_are_not_read(project):
    os.mkfifo(project / "pics" / "pipe.png")
    for name in ("pipe.png", "."):
        with pytest.raises(DataError, match="cannot be read"):
            media(project).content([image_part(f"{project}/pics/{name}")])


def test_sizes_have_limits(project, monkeypatch):
    with (project / "pics" / "large.png").open("wb") as file:
        file.write(RED)
        file.truncate(MAX_MEDIA_BYTES + 1)  # a sparse file
    with pytest.raises(DataError, match="more than 64 MB"):
        media(project).content([image_part("pics/large.png")])
    with monkeypatch.context() as patched:
        patched.setattr("kshot.configs.media.MAX_MEDIA_BYTES", 10)
        with pytest.raises(DataError, match=r"an image has \d+ bytes; it may have 10"):
            media().content([image_part(ENCODED)])
    monkeypatch.setattr("kshot.configs.media.MAX_PROMPT_BYTES", 2 * len(RED))
    with pytest.raises(DataError, match="the media of a prompt have"):
        media(project).content([image_part("pics/red.png")] * 3)
    assert MAX_PROMPT_BYTES == 2 * MAX_MEDIA_BYTES


# ---- whole runs ----


def see(call):
    """Answer with the colour that the picture in a request has."""
    (part,) = [part for part in call.body["messages"][-1]["content"] if part["type"] == "image_url"]
    data = base64.b64decode(part["image_url"]["url"].partition(",")[2])
    return chat("red" if data == RED else "blue")


def test_a_config_runs_from_its_rows_to_a_score(project):
    rows = project / "rows.jsonl"
    rows.write_text("\n".join(json.dumps(row(f"pics/{name}.png", name)) for name in ("red", "blue")))
    with FakeServer(see) as server:
        found = kshot.evaluate(
            "openai:m", str(project / "colours.py"), data=[f"colours={rows}"], base_url=server.url, out="run"
        )
    assert [(each["metric"], each["value"], each["n"]) for each in found.results] == [("accuracy", 100.0, 2)]
    (first, _) = [json.loads(line) for line in Path("run/samples.jsonl").read_text().splitlines()]
    assert first["prompt"] == [
        {
            "role": "user",
            "content": [
                {"type": "image", "mime": "image/png", "bytes": len(RED), "digest": RED_PART.digest, "name": "red.png"},
                {"type": "text", "text": "Which colour?"},
            ],
        }
    ]
    # A run that is continued asks nothing again, and one whose picture has changed asks for that one alone.
    (project / "pics" / "blue.png").write_bytes(RED)
    with FakeServer(see) as server:
        again = kshot.evaluate(
            "openai:m", str(project / "colours.py"), data=[f"colours={rows}"], base_url=server.url, out="again"
        )
        assert len(server.calls) == 1  # both pictures are the same now
    assert again.results[0]["value"] == 50.0


def test_preview_shows_what_is_sent(project, capsys):
    rows = project / "rows.jsonl"
    rows.write_text(json.dumps(row("pics/red.png")))
    shown = MediaPart.of_bytes("image", "image/png", RED, name="red.png").shown
    arguments = ("preview", project / "colours.py", "--data", f"colours={rows}")
    assert f"[user]\n{shown}\nWhich colour?" in command(capsys, *arguments).out
    told = json.loads(command(capsys, *arguments, "--json").out)
    assert told["requests"][0]["messages"][0]["content"][0]["digest"] == RED_PART.digest


def test_an_error_names_the_file_the_entry_and_the_row(project):
    found = load(project / "colours.py").datasets["colours_datasets"][0]
    task = task_of(found, {"test": [row("pics/red.png"), row("pics/none.png")]})
    samples = list(task.samples)
    task.template(samples[0], ())
    with pytest.raises(DataError, match=r"colours\.py, colours, row 1: there is no file 'pics/none\.png'"):
        task.template(samples[1], ())


def test_raw_messages_may_have_parts_too():
    found = entry(
        dict(
            abbr="raw",
            reader_cfg=dict(input_columns=["image"], output_column="answer"),
            infer_cfg=dict(
                prompt_template=dict(
                    type="RawPromptTemplate",
                    messages=[
                        {"role": "user", "content": [image_part("{image}"), {"type": "text", "text": "Colour?"}]}
                    ],
                ),
                retriever=dict(type="ZeroRetriever"),
                inferencer=dict(type="GenInferencer"),
            ),
            eval_cfg=dict(evaluator=dict(type="EMEvaluator")),
        )
    )

    def model(prompt: kshot.Prompt) -> str:
        return "red" if prompt.media == [RED_PART] else "blue"

    rows = [{"image": ENCODED, "answer": "red"}, {"image": base64.b64encode(BLUE).decode(), "answer": "blue"}]
    found = kshot.evaluate(model, task_of(found, {"test": rows}))
    assert found.results[0]["value"] in (1.0, 100.0)
