"""Judges of configs: what they are asked, and what their replies come to."""

import json

import pytest

from kshot.configs.evaluators.judge_readings import READINGS
from kshot.configs.evaluators.judges import JudgeEvaluator, PairJudge
from kshot.configs.evaluators.making import evaluator
from kshot.configs.scope import Scope
from kshot.core.errors import DataError
from kshot.core.records import Generated, Gold, Sample
from tests.configs.scored import Numbered, figures, judge_template, run_entry, scored_entry


def judged(name, replies, golds, rows=None, **options):
    """The figures of a judge's replies."""
    given = {
        "type": "opencompass.evaluator.GenericLLMEvaluator",
        "prompt_template": judge_template(),
        "dict_postprocessor": {"type": name, **options},
    }
    return figures(given, ["said"] * len(replies), golds, rows=rows, judge=lambda number, _: replies[number])


def test_grades_anywhere_in_a_reply():
    found = judged("generic_llmjudge_postprocess", ["The grade: B", "A", "", "cAr", "C"], ["g"] * 5)
    assert found["accuracy"] == 40
    assert found["accuracy_given_attempted"] == pytest.approx(200 / 3)
    assert found["f1"] == pytest.approx(0.5)
    assert (found["correct_count"], found["incorrect_count"], found["not_attempted_count"]) == (2, 1, 2)
    tagged = judged("generic_llmjudge_postprocess", ["yes", "no", "A"], ["g"] * 3, true_tag="yes", false_tag="no")
    assert (tagged["accuracy"], tagged["attempted_ratio"]) == (pytest.approx(100 / 3), pytest.approx(200 / 3))


def test_grades_by_column_leave_out_what_is_not_there():
    rows = [{"discipline": d, "field": "f", "subfield": s} for d, s in (("Law", "1"), ("Law", "2"), ("Art", "1"))]
    found = judged("supergpqa_llmjudge_postprocess", ["A", "none", "A"], ["g"] * 3, rows)
    assert found == {
        "accuracy": 66.67,
        "total_correct": 2,
        "total_count": 3,
        "SuperGPQA-Law": 50,
        "SuperGPQA-Art": 100,
        "SuperGPQA-Law-f": 50,
        "SuperGPQA-Art-f": 100,
        "SuperGPQA-Law-f-1": 100,
        "SuperGPQA-Law-f-2": 0,
        "SuperGPQA-Art-f-1": 100,
    }


def test_ratings_by_capability():
    golds = [{"capability": each} for each in ("math", "math", "art", "law")]
    found = judged("mtbench_postprocess", ["Rating: [[7]]", "Rating: [[4.5]]", "[[9]]", "Rating: [[2]]"], golds)
    assert found == {"total": 4.5, "math": 5.75, "law": 2}  # nothing was rated in art
    with pytest.raises(DataError, match=r"no 'capability'.*column 'judge'"):
        judged("mtbench_postprocess", ["x"], ["a text"])


def test_ratings_of_a_sample_that_has_none_are_left_out():
    given = {
        "type": "opencompass.evaluator.LMEvaluator",
        "prompt_template": judge_template(),
        "dict_postprocessor": {"type": "mtbench"},
    }
    made, rows = scored_entry(given, [{"capability": "math"}, {"capability": "art"}])
    replies = ["Rating: [[7]]", "Rating: [[3]]"]
    result = run_entry(made, rows, lambda *_: "said", lambda number, _: replies[number])
    assert [sample["scores"] for sample in result.samples] == [{"total": 7, "math": 7}, {"total": 3, "art": 3}]


@pytest.mark.parametrize(
    "kind", ["alignbench_postprocess", "elbench_safety_postprocess", "clbench_llmjudge_postprocess"]
)
def test_what_few_files_name_is_the_homes(kind):
    with pytest.raises(DataError, match=rf"no judge's post-processor opencompass\.x\.{kind}.*--home DIR"):
        judged(f"opencompass.x.{kind}", ["A"], ["A"])


def test_followbench():
    replies = ["Sure.\nYES", "['YES', 'NO']", "['YES', 'YES', 'YES']", "nonsense", "['NO']"]
    found = judged("followbench_postprocess", replies, [{"level": level} for level in range(1, 6)])
    assert (found["HSR_L1"], found["HSR_L2"], found["HSR_L3"]) == (1, 0, 1)
    assert (found["SSR_L2"], found["HSR_AVG"], found["SSR_AVG"]) == (0.5, 0.4, 0.5)


def test_the_lowest_turn_counts():
    golds = [{"task": t, "multi_id": i} for t, i in (("a", 1), ("a", 1), ("a", 2), ("b", 1))]
    assert judged("mtbench101_postprocess", ["[[8]]", "[[5]]", "[9]", "[2]"], golds) == {"avg": 4.5, "a": 7, "b": 2}


def test_win_rates():
    golds = [{"capability": "x", "answer1": a, "answer2": b} for a, b in (("base", "me"), ("me", "base")) * 2]
    assert judged("alpacaeval_postprocess", ["M", "m", "m", "?"], golds) == {"total": 66.67, "x": 66.67}
    golds = [{"answer1": "gpt4-0314", "answer2": "me"}] * 3
    assert judged("arenahard_postprocess", ["[[B>>A]]", "[[A>B]]", "[[A=B]]"], golds) == {"score": 70}
    golds = [{**gold, "category": "c", "difficulty": "d"} for gold in golds]
    found = judged("compassarena_subjectiveeval_pairwise_postprocess", ["[[A<<B]]", "[[A>B]]", "[[A=B]]"], golds)
    assert found == {"Average_score": 16.667, "c_d": 16.667}


def test_position_bias():
    golds = [{"capability": "x", "answer1": a, "question": q} for a, q in (("b", 1), ("m", 1), ("b", 2), ("m", 2))]
    found = judged("compassarena_postprocess", ["Choice: A", "Choice: A", "选择：A", "选择：B"], golds)
    assert found == {"x": 25, "position_bias": 1}


def test_options_of_a_post_processor_that_it_does_not_have():
    with pytest.raises(DataError, match="generic_llmjudge_postprocess cannot be made"):
        judged("generic_llmjudge_postprocess", ["A"], ["g"], colour="red")
    with pytest.raises(DataError, match=r"no judge's post-processor opencompass.datasets.dreamt"):
        judged("opencompass.datasets.dreamt", ["A"], ["g"])
    assert len(READINGS) > 25


def test_a_function_reads_all_replies():
    def graded(output, _, least=1):
        good = sum(len(each["prediction"]) >= least for each in output.values())
        return {"long": good, "all": len(output), "details": output}

    assert judged(graded, ["ab", "c", ""], ["g"] * 3) == {"long": 2, "all": 3}
    assert judged(graded, ["ab", "c", ""], ["g"] * 3, least=2) == {"long": 1, "all": 3}


def test_what_a_judge_is_asked_and_how_its_reply_is_cleaned():
    given = {
        "type": "opencompass.evaluator.GenericLLMEvaluator",
        "prompt_template": {"type": "PromptTemplate", "template": "{prediction}|{reference}|{obj_gold}|{more}|0"},
        "pred_postprocessor": {"type": "xml_tag_postprocessor", "tag": "<conclude>"},
        "judge_cfg": {"pred_postprocessor": {"type": "extract_non_reasoning_content"}, "max_out_len": 9},
        "dict_postprocessor": {"type": "generic_llmjudge_postprocess"},
    }
    metric = evaluator(given, Scope("here", "opencompass"))
    sample = Sample("0", {"more": "m"}, Gold("g"))
    (request,) = metric.judge_requests(sample, "I <conclude>Paris</conclude>")
    assert request.prompt.messages[0].content == "Paris|g|g|m|0"
    assert (request.role, request.max_tokens) == ("judge", 9)
    found = figures({**given, "prompt_template": judge_template()}, ["x"], ["g"], judge=lambda *_: "<think>B?</think>A")
    assert found["accuracy"] == 100
    raw = {name: value for name, value in given.items() if name != "judge_cfg"}
    found = figures({**raw, "prompt_template": judge_template()}, ["x"], ["g"], judge=lambda *_: "<think>B?</think>A")
    assert found["accuracy"] == 0  # there, thoughts are part of a reply


def test_several_prompts_about_one_answer():
    given = {
        "type": "opencompass.evaluator.LMEvaluator",
        "prompt_template": {"type": "PromptTemplate", "template": "{prediction}"},
        "multi_eval": True,
        "dict_postprocessor": {"type": "writingbench_postprocess"},
    }
    golds = [{"domain1": "letters", "judge_prompt_list": ["is {prediction} 1", "is {prediction} 2"]}]
    judge = Numbered("judge", lambda number, _: f'{{"score": {number}}}')
    made, rows = scored_entry(given, golds)
    result = run_entry(made, rows, lambda *_: "good", judge)
    assert {row["metric"]: row["value"] for row in result.results} == {"overall": 1.5, "letters": 1.5}
    assert judge.asked == [1, 2]
    with pytest.raises(DataError, match="multi_eval needs figures that are sums"):
        evaluator({**given, "dict_postprocessor": {"type": "mtbench101"}}, Scope("here"))


def test_a_cascade_asks_only_about_what_the_rule_calls_wrong():
    given = {
        "type": "opencompass.evaluator.CascadeEvaluator",
        "rule_evaluator": {"type": "AccEvaluator"},
        "llm_evaluator": {"type": "GenericLLMEvaluator", "prompt_template": judge_template()},
        "parallel": False,
    }
    judge = Numbered("judge", lambda number, _: ["A", "correct!", "The grade is A"][number])
    found = figures(given, ["x", "y", "z"], ["x", "-", "-"], judge=judge)
    assert found["accuracy"] == pytest.approx(200 / 3)
    assert (found["rule_correct"], found["llm_evaluated"], found["llm_correct"]) == (1, 2, 1)
    assert sorted(judge.asked) == [1, 2]
    everyone = Numbered("judge", judge.replies)
    assert figures({**given, "parallel": True}, ["x", "y", "z"], ["x", "-", "-"], judge=everyone)["llm_correct"] == 2
    assert sorted(everyone.asked) == [0, 1, 2]
    with pytest.raises(DataError, match="needs rule_evaluator and llm_evaluator"):
        evaluator({"type": "CascadeEvaluator", "llm_evaluator": {}}, Scope("here"))


def test_aisbench_judges_by_an_inference_of_its_own():
    config = {
        "judge_model": {"pred_postprocessor": {"type": "extract_non_reasoning_content"}, "max_out_len": 5},
        "prompt_template": {"type": "PromptTemplate", "template": "{model_answer} or {row_gold}? {row_number}"},
    }
    made, rows = scored_entry(
        {"type": "ais_bench.benchmark.datasets.utils.llm_judge.LLMJudgeCorrectEvaluator"},
        ["x", "y"],
        framework="ais_bench",
        eval_cfg={"pred_postprocessor": {"type": str.upper}},
        judge_infer_cfg=config,
    )
    judge = Numbered("judge", lambda number, _: "<think>hm</think>a" if number else "b")
    result = run_entry(made, rows, lambda number, _: f"reply {number}", judge)
    assert [sample["answer"] for sample in result.samples] == ["reply 0", "reply 1"]  # the clean-up is the judge's
    assert {row["metric"]: row["value"] for row in result.results} == {"accuracy": 50}


def paired_entry(folder, **more):
    given = {
        "type": "opencompass.evaluator.LMEvaluator",
        "prompt_template": {"type": "PromptTemplate", "template": "{prediction} or {prediction2}? {row_number}"},
        "dict_postprocessor": {"type": "alpacaeval"},
    }
    golds = [{"capability": "x"}, {"capability": "y"}]
    return scored_entry(given, golds, given_pred=[{"abbr": "gpt", "path": str(folder)}], **more)


def test_answers_are_compared_with_those_of_a_base_model(tmp_path):
    replies = {str(number): {"prediction": f"base {number}"} for number in range(2)}
    (tmp_path / "scored.json").write_text(json.dumps(replies))
    seen = []

    class Judge(Numbered):
        def serve(self, queue):
            for request in queue:
                seen.append(request.prompt.text)
                first = request.prompt.text.startswith("mine")
                yield request, Generated("m" if first == (request.prompt.text[-1] == "0") else "M")

    made, rows = paired_entry(tmp_path, infer_order="double")
    result = run_entry(made, rows, lambda *_: "mine", Judge("judge", None))
    assert sorted(seen) == ["base 0 or mine? 0", "base 1 or mine? 1", "mine or base 0? 0", "mine or base 1? 1"]
    assert {row["metric"]: row["value"] for row in result.results} == {"total": 50, "x": 100, "y": 0}
    made, rows = paired_entry(tmp_path)
    seen.clear()
    run_entry(made, rows, lambda *_: "mine", Judge("judge", None))
    assert sorted(seen) == ["base 0 or mine? 0", "base 1 or mine? 1"]


def test_conversations_are_compared_turn_by_turn():
    template = {"type": "PromptTemplate", "template": "{prediction_r2} or {prediction1_r2}? {prediction} {prediction2}"}
    judge = PairJudge(JudgeEvaluator(template, READINGS["alpacaeval"]()), "gpt", [["base a", "base b"]], "double")
    sample = Sample("0", {}, Gold({"capability": "x"}), position=0, row={})
    first, second = (request.prompt.text for request in judge.judge_requests(sample, ("mine a", "mine b")))
    assert first == "base b or mine b? base a\n\nbase b mine a\n\nmine b"
    assert second == "mine b or base b? mine a\n\nmine b base a\n\nbase b"


def test_a_base_model_without_replies(tmp_path):
    with pytest.raises(DataError, match=r"scored\.json: the base model's replies cannot be read"):
        run_entry(*paired_entry(tmp_path), lambda *_: "mine", lambda *_: "m")
    (tmp_path / "scored.json").write_text('{"0": {"prediction": "one"}}')
    with pytest.raises(DataError, match="the base model gpt has 1 replies, and none to row 1"):
        run_entry(*paired_entry(tmp_path), lambda *_: "mine", lambda *_: "m")
    (tmp_path / "scored.json").write_text('["one"]')
    with pytest.raises(DataError, match="the file must have"):
        run_entry(*paired_entry(tmp_path), lambda *_: "mine", lambda *_: "m")
    with pytest.raises(DataError, match="compare answers with those of a base model, and the config names none"):
        judged("alpacaeval", ["m"], [{"capability": "x"}])
