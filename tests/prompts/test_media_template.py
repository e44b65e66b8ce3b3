"""``MMPromptTemplate``: the parts of a row, as AISBench fills them and as kshot's own configs do."""

import base64

import pytest

from kshot.core.errors import DataError
from kshot.prompts.templates import MMPromptTemplate
from tests.media_files import BLUE, RED

FORMS = {
    "text": {"type": "text", "text": "{question} of {city}"},
    "image": {"type": "image_url", "image_url": {"url": "file://{image}", "detail": "{city}"}},
    "video": {"type": "video_url", "video_url": "file://{video}"},
}
TAGGED = "<AIS_IMAGE_START>a.png<AIS_CONTENT_TAG><AIS_TEXT_START>What {city}?<AIS_CONTENT_TAG>"


def filled(row, forms=FORMS, *, strict=False, **sections):
    template = {**sections, "round": [{"role": "HUMAN", "prompt_mm": forms}]}
    shape = MMPromptTemplate(template, strict=strict).generate_item(row, "answer")
    return next(item["prompt_mm"] for item in shape if "prompt_mm" in item)


def test_aisbench_fills_the_parts_and_nothing_else():
    row = {"content": TAGGED + "unmarked<AIS_CONTENT_TAG><AIS_VIDEO_START>v.mp4", "city": "Rome", "answer": "x"}
    assert filled(row) == [
        {"type": "image_url", "image_url": {"url": "file://a.png", "detail": "{city}"}},
        {"type": "text", "text": "What {city}? of {city}"},
        {"type": "video_url", "video_url": "file://v.mp4"},
    ]


def test_aisbench_leaves_the_prompts_of_other_items_as_they_are():
    template = {
        "begin": ["about {city}", {"role": "SYSTEM", "prompt": "Answer: {city}"}],
        "round": [{"role": "HUMAN", "prompt_mm": FORMS}],
    }
    row = {"content": TAGGED, "city": "Rome"}
    compat = MMPromptTemplate(template, strict=False).generate_item(row)
    assert compat[1] == "about Rome"
    assert compat[2] == {"role": "SYSTEM", "prompt": "Answer: {city}"}
    strict = MMPromptTemplate(template).generate_item(row)
    assert strict[2] == {"role": "SYSTEM", "prompt": "Answer: Rome"}


def test_the_template_itself_is_not_changed():
    row = {"content": TAGGED, "city": "Rome"}
    first = filled(row)
    assert filled(row) == first
    assert FORMS["image"]["image_url"]["url"] == "file://{image}"


def test_strict_fills_every_column_and_refuses_what_would_be_lost():
    row = {"content": TAGGED, "city": "Rome"}
    assert filled(row, strict=True)[1] == {"type": "text", "text": "What {city}? of Rome"}
    with pytest.raises(DataError, match="for which the template has no form"):
        filled({"content": TAGGED + "unmarked"}, strict=True)
    with pytest.raises(DataError, match="for which the template has no form"):
        filled({"content": "<AIS_AUDIO_START>a.wav<AIS_CONTENT_TAG>"})


@pytest.mark.parametrize("strict", [True, False])
def test_a_column_for_each_part(strict):
    row = {"question": "What", "city": "Rome", "image": ["a.png", None, "b.png"], "video": ""}
    simple = {**FORMS, "image": {"type": "image_url", "image_url": {"url": "file://{image}"}}}
    assert filled(row, simple, strict=strict) == [
        {"type": "text", "text": "What of Rome"},
        {"type": "image_url", "image_url": {"url": "file://a.png"}},
        {"type": "image_url", "image_url": {"url": "file://b.png"}},
    ]


@pytest.mark.parametrize("value", [RED, {"bytes": RED, "path": None}, {"bytes": None, "path": "x.png"}])
def test_bytes_of_a_table_become_a_data_url(value):
    forms = {"image": {"type": "image_url", "image_url": {"url": "{image}"}}}
    url = f"data:image/png;base64,{base64.b64encode(RED).decode()}"
    expected = "x.png" if isinstance(value, dict) and value["path"] else url
    assert filled({"image": value, "other": BLUE}, forms, strict=True) == [
        {"type": "image_url", "image_url": {"url": expected}}
    ]
