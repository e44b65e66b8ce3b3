"""Prompts of config files: every golden case byte by byte, but for the exceptions the specification names."""

import json
from pathlib import Path

import pytest

from kshot.configs.rendering import render
from kshot.configs.rows import read_rows
from kshot.core.errors import KshotError
from kshot.prompts.dialogue import chat_items

HERE = Path(__file__).parents[1]
GOLDEN = json.loads((HERE / "data" / "golden_templates.json").read_text(encoding="utf-8"))
METAS = GOLDEN["meta"]["meta_templates"]
CASES = {case["name"]: case for case in GOLDEN["cases"]}
REAL = HERE.parents[1] / "shared" / "data" / "golden" / "real_configs.json"
REAL_CASES = {c["name"]: c for c in json.loads(REAL.read_text(encoding="utf-8"))["cases"]} if REAL.exists() else {}

ERRORS_HERE = {"reader_test_range_bad", "reader_test_range_single_index_error"}
# The original crashes on these legal prompts; what stands here follows from the rules.
RENDERED_HERE = {
    ("zero_dict_begin_human_bot_fewshot", "api"): [
        [
            {"role": "HUMAN", "prompt": "ex q"},
            {"role": "BOT", "prompt": "ex a"},
            {"role": "HUMAN", "prompt": question},
        ]
        for question in ("1+1=?", "7+1=?")
    ],
    ("zero_dict_bot_first", "api"): [
        [{"role": "BOT", "prompt": "hi"}, {"role": "HUMAN", "prompt": question}] for question in ("1+1=?", "7+1=?")
    ],
    ("ppl_end_section", "lm_meta"): [
        [
            f"Meta instruction: be helpful.\n<HUMAN>: Q: t0<eoh>\n<BOT>: {label}<eob>\n<HUMAN>: end<eoh>\nend of conversation"
            for label in "AB"
        ]
    ],
    ("ppl_end_section", "api"): [
        [
            [
                {"role": "HUMAN", "prompt": "Q: t0"},
                {"role": "BOT", "prompt": label},
                {"role": "HUMAN", "prompt": "end"},
            ]
            for label in "AB"
        ]
    ],
    ("multiturn_last", "lm_nometa"): [["1+1=?\n2\n2+2=?\n4\n3+3=?"]],
    ("multiturn_last", "lm_meta"): [
        [
            (
                "Meta instruction: be helpful.\n<HUMAN>: 1+1=?<eoh>\n<BOT>: 2<eob>\n<HUMAN>: 2+2=?<eoh>\n<BOT>: 4<eob>\n"
                "<HUMAN>: 3+3=?<eoh>\n<BOT>: "
            )
        ]
    ],
    ("multiturn_last", "api"): [
        [
            [
                {"role": "HUMAN", "prompt": "1+1=?"},
                {"role": "BOT", "prompt": "2"},
                {"role": "HUMAN", "prompt": "2+2=?"},
                {"role": "BOT", "prompt": "4"},
                {"role": "HUMAN", "prompt": "3+3=?"},
            ]
        ]
    ],
}
for _name, _field in list(RENDERED_HERE):
    if _field == "api":
        RENDERED_HERE[_name, "api_nosys"] = RENDERED_HERE[_name, "api"]
ROLES = {"HUMAN": "user", "BOT": "assistant", "SYSTEM": "system"}


def int_keys(case):
    infer_cfg = json.loads(json.dumps(case["infer_cfg"]))
    if case.get("int_keys"):
        for name in ("ice_template", "prompt_template"):
            if name in infer_cfg:
                held = infer_cfg[name]["template"]
                infer_cfg[name]["template"] = {int(label): template for label, template in held.items()}
    return infer_cfg


def rows_of(case, strict=False):
    splits = case.get("splits") or {"train": case["rows_train"], "test": case["rows_test"]}
    return read_rows(case["reader_cfg"], splits, strict=strict, abbr=case.get("abbr", ""), n=case.get("n", 1))


def rendered(case, strict=False):
    return render(case["reader_cfg"], int_keys(case), rows_of(case, strict), case["idx_list"], strict=strict)


def parts_of(prompts, name):
    """What the golden has of all rows under this name."""
    made = {
        "ice": prompts.ice_of,
        "output": prompts.output_of,
        "output_remain_sep": lambda index: prompts.output_of(index, remain_sep=True),
    }
    return prompts.gold if name == "gold" else [made[name](index) for index in range(len(prompts))]


def failed(value):
    return isinstance(value, dict) and "error" in value


def as_messages(said):
    """The golden's API items as messages, whatever lists they are nested in."""
    if isinstance(said, str):
        return [{"role": "user", "content": said}]
    if isinstance(said[0], dict):
        return [{"role": ROLES[item["role"]], "content": item["prompt"]} for item in said]
    return [as_messages(one) for one in said]


WHOLE = [name for name, case in CASES.items() if not failed(case["output"]) and name not in ERRORS_HERE]


@pytest.mark.parametrize("name", WHOLE)
def test_filled_templates(name):
    case, prompts = CASES[name], rendered(CASES[name])
    assert prompts.mode == case["mode"]
    for field in ("ice", "output", "output_remain_sep", "gold"):
        if field in case:
            assert parts_of(prompts, field) == case[field]
    assert (None if prompts.labels is None else list(prompts.labels)) == case.get("labels")


@pytest.mark.parametrize("field", ["lm_nometa", "lm_meta", "api", "api_nosys"])
@pytest.mark.parametrize("name", WHOLE)
def test_what_a_model_reads(name, field):
    """Where a row of the golden is an error, ours is one too, unless the rules render it."""
    golden, prompts = CASES[name][field], rendered(CASES[name])
    kind, meta = "text" if field.startswith("lm") else "chat", METAS.get(field)
    if (name, field) in RENDERED_HERE:
        golden = RENDERED_HERE[name, field]
    if failed(golden) or any(map(failed, golden)):
        assert failed(golden) or all(map(failed, golden))
        with pytest.raises(KshotError):
            prompts.prompts(kind, meta)
    else:
        assert prompts.prompts(kind, meta) == (
            golden if field.startswith("lm") else [as_messages(one) for one in golden]
        )


@pytest.mark.parametrize("name", [name for name in WHOLE if None not in CASES[name].get("messages", [None])])
def test_messages(name):
    assert rendered(CASES[name]).prompts("chat") == CASES[name]["messages"]


@pytest.mark.parametrize(
    "name", [name for name in WHOLE if CASES[name]["mode"] == "gen" and not any(map(failed, CASES[name]["api"]))]
)
def test_api_items(name):
    assert [chat_items(one, METAS["api"], strict=False) for one in parts_of(rendered(CASES[name]), "output")] == CASES[
        name
    ]["api"]


def test_the_exceptions_are_those_the_original_crashes_on():
    for name, field in RENDERED_HERE:
        golden = CASES[name][field]
        assert failed(golden) or failed(golden[0])


@pytest.mark.parametrize("name", sorted(ERRORS_HERE))
def test_an_unreadable_range_is_an_error_here(name):
    with pytest.raises(KshotError, match="range"):
        rows_of(CASES[name])


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if failed(case["output"])])
def test_golden_error(name):
    case = CASES[name]
    if case["stage"] == "retrieve":
        retrievers = pytest.importorskip("kshot.retrievers")
        options = dict(case["infer_cfg"]["retriever"])
        with pytest.raises(ValueError, match=r"4"):
            getattr(retrievers, options.pop("type"))(rows_of(case), **options).retrieve()
        return
    with pytest.raises(KshotError):
        render(
            case["reader_cfg"],
            int_keys(case),
            rows := rows_of(case),
            case.get("idx_list") or [[]] * len(rows.test),
            strict=False,
        ).prompts()


@pytest.mark.skipif(not REAL_CASES, reason="real_configs.json holds other people's text and is not in this repository")
@pytest.mark.parametrize("name", REAL_CASES)
def test_real_config(name):
    case = REAL_CASES[name]
    prompts = rendered(case)
    for field in ("ice", "output", "gold"):
        assert parts_of(prompts, field) == case[field]
    assert prompts.prompts() == case["lm_nometa"]
    if "messages" in case:
        assert prompts.prompts("chat") == case["messages"]


ALL = {**CASES, **REAL_CASES}


@pytest.mark.parametrize(
    "name", [name for name, case in ALL.items() if case.get("idx_list") and name not in ERRORS_HERE]
)
def test_retrievers_choose_the_same_examples(name):
    from kshot import retrievers

    case = ALL[name]
    options = dict(case["infer_cfg"]["retriever"])
    retriever = getattr(retrievers, options.pop("type"))(rows_of(case), strict=False, **options)
    assert [list(map(int, ids)) for ids in retriever.retrieve()] == case["idx_list"]


# ---- strict is the same, but for what the specification calls quirks ----

STRICT_REFUSES = {
    "fixk_dict_ice_only_no_begin_token_lost": "examples would be lost",
    "ppl_meta_template_labels_are_section_names": "labels to score are not known",
}
STRICT_DIFFERS = {"ppl_fixk_ice_only", "reader_train_eq_test_swap_bug", "n2_repeats_rows_and_train"}
STRICT_MARKS_THE_END = {"zero_dict_end_list", "zero_dict_end_str", "ppl_end_section"}
STRICT_CHAT_REFUSES = {"zero_dict_begin_str", "fixk_dict_token_embedded_in_begin_str", "fixk_str_ice_in_dict_begin"}
PLAIN = [name for name in (*WHOLE, *REAL_CASES) if name not in {*STRICT_REFUSES, *STRICT_DIFFERS}]


@pytest.mark.parametrize("name", PLAIN)
def test_strict_renders_the_same(name):
    prompts, compat = rendered(ALL[name], strict=True), rendered(ALL[name])
    if name not in STRICT_MARKS_THE_END:
        assert parts_of(prompts, "output") == parts_of(compat, "output")
    if name != "mm_interleaved":
        assert prompts.prompts() == compat.prompts()
    if name in STRICT_CHAT_REFUSES:
        with pytest.raises(KshotError, match="has no role"):
            prompts.prompts("chat")
    elif name != "zero_dict_unknown_role":
        assert prompts.prompts("chat") == compat.prompts("chat")


@pytest.mark.parametrize("name", STRICT_REFUSES)
def test_strict_refuses(name):
    with pytest.raises(KshotError, match=STRICT_REFUSES[name]):
        rendered(CASES[name], strict=True)


def test_what_strict_does_instead():
    assert rendered(CASES["ppl_fixk_ice_only"], strict=True).prompts()[0] == [
        "Q: q0\nA\nQ: q1\nB\nQ: t0\nA",
        "Q: q0\nA\nQ: q1\nB\nQ: t0\nB",
    ]
    assert rendered(CASES["reader_train_eq_test_swap_bug"], strict=True).prompts() == ["te=2\ntr"]
    assert (
        rendered(CASES["n2_repeats_rows_and_train"], strict=True).prompts()[:2]
        == ["Q 2+2=? A 4\nQ 3+3=? A 6\nQ 1+1=?"] * 2
    )
