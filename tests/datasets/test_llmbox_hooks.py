"""The attributes and hooks that dataset files of LLMBox use, in files of kshot's own words."""

import random
import sys

import numpy as np
import pytest

import kshot
from kshot.core.errors import DataError
from kshot.core.records import Loglik
from kshot.datasets.llmbox.compiler import seeded
from kshot.datasets.settings import DatasetSettings
from kshot.datasets.source import compile_dataset, resolve
from tests.datasets.fakes import Fake, prefers, says
from tests.datasets.llmbox_tree import CHOICE, EXAMPLES, GENERATION, ROWS, Tree, changed


@pytest.fixture
def tree(tmp_path):
    return Tree(tmp_path)


def compiled(tree, text, name, counter=None, **options):
    cls = resolve(f"{tree.add(text)}:{name}").dataset
    return compile_dataset(cls(DatasetSettings(dataset_path=str(tree.rows), **options)), counter)


def with_method(text, method, before="    def format_instance"):
    return changed(text, (before, method + "\n" + before))


def generators():
    return random.getstate(), np.random.get_state()[1].tolist()  # noqa: NPY002 - the global one


# ---- the order of a dataset's life ----


def test_rows_are_formatted_once_in_order_and_references_come_last(tree):
    text = changed(
        CHOICE,
        ("class Colours", "SEEN = []\n\nclass Colours"),
        ('        instance["target_idx"]', '        SEEN.append(instance["q"])\n        instance["target_idx"]'),
        ("        return [instance[", '        SEEN.append("references")\n        return [instance['),
    )
    made = compiled(tree, text, "Colours", num_shots=2)
    with seeded(2023):
        first, second = np.random.choice(5, 2, replace=False)  # noqa: NPY002 - as LLMBox draws
    order = ["q0", f"e{first}", f"e{second}", "q1", "q2", "q3", "references"]
    seen = vars(sys.modules[type(made.dataset).__module__])["SEEN"]
    assert seen == order
    assert len(list(made.samples())) == len(list(made.samples())) == 4
    assert seen == order
    assert [dict(sample.row) for sample in made.samples()] == ROWS  # as loaded: runs are compared by them


def test_defaults_then_init_arguments_then_rows_then_the_instruction(tree):
    text = with_method(
        GENERATION,
        """\
    def init_arguments(self):
        assert (self.max_num_shots, self.sample_num, self.cot, self.model_type) == (3, 1, None, "base")
        self.max_num_shots = 1
        self.extra_model_args.get("stop", []).append("x")
        self.extra_model_args["stop"] = ["stop"]
        self.prefix_caching = False

    def load_raw_dataset(self, dataset_path, subset_name, evaluation_set, example_set):
        super().load_raw_dataset(dataset_path, subset_name, evaluation_set, example_set)
        assert type(self.evaluation_data) is list and type(self.evaluation_data[0]) is dict
        self.evaluation_data = self.evaluation_data[:2]
        self.example_data = [{"q": "own", "choices": ["answer"], "gold": 0}]
""",
    )
    (first, _) = tree.asked(text, "Words", num_shots=3)
    assert first.prompt.text == "own: answer\n\nq0:"
    assert first.stop == ("stop",)


def test_the_instruction_may_be_chosen_when_rows_are_loaded(tree):
    text = with_method(
        changed(
            GENERATION, ('    example_set = "train"\n', '    example_set = "train"\n    supported_cot = ["base"]\n')
        ),
        """\
    def load_raw_dataset(self, *place):
        super().load_raw_dataset(*place)
        if self.cot == "base":
            self.instruction = "Think: {{q}}"
""",
    )
    assert tree.prompts(text, "Words")[0] == "q0:"
    assert tree.prompts(text, "Words", cot="base")[0] == "Think: q0"
    assert tree.prompts(text, "Words", cot="base", instruction="Mine {q}")[0] == "Mine q0"


def test_a_class_that_lacks_its_subset_says_how_to_name_one(tree):
    for method in ("init_arguments(self):", "format_instance(self, instance):"):
        text = with_method(
            GENERATION, f"    def {method}\n        self.kind = self.subset_name.upper()\n", "    @cached_property"
        )
        with pytest.raises(DataError, match=r"NoneType.* If it has subsets, name one: -d FILE\.py:CLASS:SUBSET\."):
            tree.prompts(text, "Words")


def test_rows_in_the_file_stay_as_they_are(tree):
    text = changed(
        GENERATION,
        ("class Words", "OWN = [{'q': 'own', 'choices': ['a'], 'gold': 0}]\n\nclass Words"),
        ('    example_set = "train"\n', "    load_args = None\n"),
        ('    evaluation_set = "test"\n', ""),
        (
            "    def format_instance",
            "    def load_raw_dataset(self, *place):\n        self.evaluation_data = OWN\n\n    def format_instance",
        ),
    )
    made = compiled(tree, text, "Words")
    assert [list(r) for r in made.dataset.references] == [["a"]]
    assert vars(sys.modules[type(made.dataset).__module__])["OWN"] == [{"q": "own", "choices": ["a"], "gold": 0}]


def test_the_global_generators_are_seeded_and_restored(tree):
    text = changed(
        CHOICE,
        (
            '        instance["options"] = instance["choices"]\n',
            (
                '        order = self.shuffle_options(instance["choices"])\n'
                '        instance["options"] = instance["choices"]\n'
                '        instance["target_idx"] = order.index(instance["gold"])\n'
            ),
        ),
    )
    before = generators()
    made = compiled(tree, text, "Colours")
    assert generators() == before
    shown = [(sample.choices, sample.choices[sample.target.index]) for sample in made.samples()]
    assert [right for _, right in shown] == ["red", "blue", "green", "red"]
    assert {choices for choices, _ in shown} != {("red", "blue", "green")}
    assert shown == [(s.choices, s.choices[s.target.index]) for s in compiled(tree, text, "Colours").samples()]
    again = compiled(tree, text, "Colours", seed=5)
    assert [sample.choices for sample in again.samples()] != [choices for choices, _ in shown]


def test_shuffle_options_moves_all_lists_alike(tree):
    dataset = compiled(tree, CHOICE, "Colours").dataset
    one, other = list("abcd"), [0, 1, 2, 3]
    order = dataset.shuffle_options(one, other)
    assert order == other
    assert one == ["abcd"[old] for old in order]


# ---- how the model is asked ----


@pytest.mark.parametrize(
    ("ranking", "method"),
    [("ppl", "get_ppl"), ("ppl_no_option", "get_ppl"), ("prob", "get_prob"), ("generation", "generation")],
)
def test_the_evaluation_method_is_known_to_the_class(tree, ranking, method):
    check = (
        "    def init_arguments(self):\n        if self.model_evaluation_method != 'get_ppl':\n"
        "            raise ValueError('only get_ppl, not ' + self.model_evaluation_method)\n"
        "        assert self.evaluation_type == 'ranking'\n"
    )
    text = with_method(CHOICE, check)
    if method == "get_ppl":
        assert tree.prompts(text, "Colours", ranking_type=ranking)
        return
    with pytest.raises(DataError, match=f"init_arguments fails: ValueError: only get_ppl, not {method}"):
        tree.prompts(text, "Colours", ranking_type=ranking)


@pytest.mark.parametrize("ranking", ["ppl", "prob", "generation", "ppl_no_option"])
def test_a_class_can_refuse_options(tree, ranking):
    text = with_method(
        CHOICE,
        "    def init_arguments(self):\n        if self.ranking_with_options:\n            self.ranking_with_options = False\n"
        "        assert self.model_evaluation_method == 'get_ppl'\n",
    )
    asked = tree.asked(text, "Colours", ranking_type=ranking)
    assert (asked[0].prompt.text, asked[0].continuations) == ("q0\nA:", (" red", " blue", " green"))


def test_options_of_generation_are_no_error_where_nothing_is_generated(tree):
    text = changed(CHOICE, ("    def format", "    extra_model_args = {'stop': ['x'], 'best_of': 3}\n\n    def format"))
    assert tree.asked(text, "Colours")
    (asked, *_) = tree.asked(text, "Colours", ranking_type="generation")
    assert asked.stop == ("x",)
    notes = compiled(tree, text, "Colours", ranking_type="generation").task().notes
    assert any("best_of, which kshot's generation does not use" in note for note in notes)


def test_a_label_names_the_option_if_it_is_a_number(tree):
    text = changed(CHOICE, ('        instance["target_idx"] = instance["gold"]\n', ""), ('"target_idx"', '"gold"'))
    tree.write_rows(
        test=[r | {"label": str(r["gold"])} for r in ROWS], train=[r | {"label": r["gold"]} for r in EXAMPLES]
    )
    (first, *_) = tree.prompts(text, "Colours", num_shots=5)
    assert first.startswith("e0\nA: one\n\ne1\nA: two\n\n")
    tree.write_rows(test=[r | {"label": "warm"} for r in ROWS], train=[r | {"label": 0} for r in EXAMPLES])
    assert [sample.target.index for sample in compiled(tree, text, "Colours").samples()] == [0, 1, 2, 0]


CONTEXTS = changed(
    CHOICE,
    ("\"{{q}}{{'\\n' + options if options}}\\nA:\"", '"{source}"'),
    (
        '        instance["options"] = instance["choices"]\n        return instance\n',
        (
            "        return dict(source=[instance['q'] + c for c in instance['choices']], source_idx=instance['gold'],"
            " target=' won.')\n"
        ),
    ),
)


def test_an_empty_option_is_asked_by_its_letter(tree):
    tree.write_rows(test=[r | {"choices": ["red", "", "green"]} for r in ROWS])
    for ranking in ("ppl", "prob", "generation"):
        assert tree.prompts(CHOICE, "Colours", ranking_type=ranking)[0] == "q0\nA. red\nB. \nC. green\nA:"
    model = prefers("A. red", "A")
    assert tree.scores(model, CHOICE, "Colours", ranking_type="prob") == {"Accuracy": 50.0}
    assert tree.asked(CHOICE, "Colours", ranking_type="ppl")[0].continuations == (" A. red", " B.", " C. green")
    with pytest.raises(DataError, match="dataset mine, row 0: option 1 is empty"):
        tree.prompts(CHOICE, "Colours")


def test_contexts_are_measured_with_one_target(tree):
    asked = tree.asked(CONTEXTS, "Colours", num_shots=5)
    assert asked[0].prompt.text.startswith("e0one won.\n\ne1two won.\n\n")
    assert asked[0].prompt.text.endswith("q0red")
    assert asked[0].continuations == (" won.",)


@pytest.mark.parametrize("ranking", ["ppl", "prob", "generation"])
def test_contexts_have_no_letters_and_go_by_perplexity(tree, ranking):
    usual = tree.asked(CONTEXTS, "Colours", num_shots=2)
    assert tree.asked(CONTEXTS, "Colours", num_shots=2, ranking_type=ranking) == usual
    result = kshot.evaluate(
        prefers("won."), f"{tree.add(CONTEXTS)}:Colours", dataset_path=str(tree.rows), ranking_type=ranking
    )
    note = f"mine: its rows have contexts in place of options: ppl_no_option takes the place of {ranking}"
    assert note in result.notes
    assert next(row["value"] for row in result.results if row["metric"] == "Accuracy") == 50.0


def test_perplexity_of_the_only_option(tree):
    base = """
        from ..metric import PPL
        from .dataset import Dataset

        class Texts(Dataset):
            evaluation_type = "perplexity"
            metrics = [PPL()]
            instruction = ""
            example_set = None

            def format_instance(self, instance):
                return dict(options=[instance["q"] + " text \\n"])
    """
    tree.add(base, "dataset/validation_texts.py")
    text = "from .validation_texts import Texts\n\nclass Pages(Texts):\n    evaluation_set = 'test'\n"
    asked = tree.asked(text, "Pages")
    assert [(type(r), r.prompt.text, r.continuations) for r in asked][:1] == [(Loglik, "", ("q0 text",))]
    assert tree.scores(prefers(), text, "Pages")["PPL"] == pytest.approx(np.exp(9))


# ---- templates ----


def test_functions_and_zip_in_templates(tree):
    text = changed(
        GENERATION,
        (
            '"{q}:"',
            (
                '"{{mark(q)}}{% for a, b in zip(choices, choices[1:]) %} {{a}}-{{b}}{% endfor %}{{nothing}}'
                ' {{real_num_shots}} {{example_idx}} {{turn_idx}} {{dataset_name}} {{display_name}}"'
            ),
        ),
        (
            "    def format_instance",
            (
                "    def init_arguments(self):\n        self.jinja2_env.globals['mark'] = self.mark\n\n"
                "    @staticmethod\n    def mark(text):\n        return f'*{text}*'\n\n    def format_instance"
            ),
        ),
    )
    assert tree.prompts(text, "Words")[0] == "*q0* red-blue blue-green 0 -1 0 mine mine"
    assert tree.prompts(text, "Words", num_shots=5)[0].startswith("*e0* one-two two-three 5 0 -1 mine mine one\n\n")


@pytest.mark.parametrize("instruction", ["{passage}Q: {q}", "{{passage}}Q: {{q}}"])
def test_a_column_that_is_null_writes_nothing(tree, instruction):
    """LLMBox writes None: see docs/datasets.md."""
    tree.write_rows(test=[{**ROWS[0], "passage": None}, {**ROWS[1], "passage": "None"}], train=EXAMPLES)
    place = tree.add(changed(GENERATION, ('"{q}:"', f'"{instruction}"')))
    previews = kshot.preview(f"{place}:Words", dataset_path=str(tree.rows))
    assert [each.requests[0].prompt.text for each in previews] == ["Q: q0", "NoneQ: q1"]


def test_values_keep_their_white_space_and_the_prompt_is_stripped(tree):
    text = changed(GENERATION, ('"{q}:"', '"\\n{q}\\n"'), ('["choices"][instance["gold"]]', '["choices"][0] + " \\n"'))
    assert tree.prompts(text, "Words", num_shots=5, limit=1)[0].startswith("e0\none \n\n\n\ne1\none \n\n\n\ne2")


def test_the_index_of_the_right_option_is_a_variable(tree):
    text = changed(
        CHOICE,
        ('        instance["target_idx"] = instance["gold"]\n', '        instance["label"] = instance["gold"]\n'),
    )
    text = changed(text, ('"target_idx"', '"gold"'), ("\\nA:", " {{target_idx}}"))
    assert tree.prompts(text, "Colours")[:2] == ["q0 0", "q1 1"]


# ---- examples of the class's own ----

CONSTRUCTED = """\
    def construct_examples(self, instance=None):
        import numpy as np
        if self.max_num_shots == 0:
            return ""
        text = ""
        assert len(self.random_indice) == self.max_num_shots
        for index in np.random.choice(range(len(self.example_data)), self.max_num_shots, replace=False):
            part = self.example_data[index]["q"] + "\\n\\n"
            if len(self.tokenizer_encode(text + part)) <= self.max_example_tokens:
                text += part
        return text
"""


def test_constructed_examples_come_before_the_question(tree):
    text = with_method(GENERATION, CONSTRUCTED)
    found = tree.prompts(text, "Words", num_shots=2)
    assert found == tree.prompts(text, "Words", num_shots=2)
    shown = [prompt.split("\n\n") for prompt in found]
    assert [(len(parts), parts[-1]) for parts in shown] == [(3, f"q{i}:") for i in range(4)]
    assert tree.prompts(text, "Words")[0] == "q0:"
    assert tree.prompts(text, "Words", num_shots=3, max_example_tokens=4)[0].count("\n\n") == 1


@pytest.mark.parametrize(("options", "shown"), [({}, 2), ({"max_example_tokens": 5000}, 3)])
def test_a_class_of_llmbox_has_llmbox_s_budget_for_examples_unless_another_is_given(tree, options, shown):
    settings = DatasetSettings(dataset_path=str(tree.rows), num_shots=3, **options)

    def count(text):
        return 400 * text.count(":")

    cls = resolve(f"{tree.add(GENERATION)}:Words").dataset
    task = compile_dataset(cls(settings), count).task(count)
    assert task.facts["shots"] == shown


def test_tokens_are_counted_by_the_model_and_else_by_bytes(tree):
    plain = compiled(tree, GENERATION, "Words").dataset
    assert len(plain.tokenizer_encode("né")) == 3
    dataset = compiled(tree, GENERATION, "Words", lambda text: len(text.split())).dataset
    assert len(dataset.tokenizer_encode("two words")) == 2
    words = ["one ", "two ", "three"]
    assert dataset.truncate_by_word(words, 2, "right") == "one two "
    text, tokens, count = dataset.truncate_by_word(words, 2, "left")
    assert (text, tokens, count) == ("two three", 2, 2)
    assert dataset.truncate_by_word(words, 9, "left") == "one two three"


def test_a_run_records_the_tokens_that_decided_which_examples_fit(tree):
    text = with_method(GENERATION, CONSTRUCTED)
    cls = resolve(f"{tree.add(text)}:Words").dataset
    settings = DatasetSettings(dataset_path=str(tree.rows), num_shots=3, max_example_tokens=3)

    def prompts(counter, recorded):
        task = compile_dataset(cls(settings), counter, recorded).task(counter, recorded)
        return [task.template(sample, ()).text for sample in task.samples], task.facts

    shown, facts = prompts(lambda text: len(text.split()), {})
    assert shown[0].count("\n\n") == 3
    assert prompts(None, facts)[0] == shown
    assert prompts(None, {})[0] != shown


def test_no_examples_is_a_clear_refusal(tree):
    text = changed(GENERATION, ('example_set = "train"', "example_set = None"))
    assert tree.prompts(text, "Words")
    with pytest.raises(DataError, match=r"it has no examples to show \(1 wanted\)"):
        tree.prompts(text, "Words", num_shots=1)


def test_a_class_without_evaluation_set_or_instruction_gets_a_message(tree):
    with pytest.raises(DataError, match="evaluation_set is not set"):
        tree.prompts(changed(GENERATION, ('    evaluation_set = "test"\n', "")), "Words")
    with pytest.raises(DataError, match="it has no instruction"):
        tree.prompts(changed(GENERATION, ('    instruction = "{q}:"\n', "")), "Words")


# ---- answers and figures ----


def test_own_post_processing_calls_that_of_the_base(tree):
    """A class that takes tuples for the turns of a conversation gets the numbers of a model as they are."""
    text = with_method(
        CHOICE,
        """\
    def post_processing(self, predictions):
        if isinstance(predictions[0], (tuple, list)):
            predictions = [turns[1] for turns in predictions]
        return MultipleChoiceDataset.post_processing(self, predictions)
""",
    )
    for ranking in ("ppl_no_option", "ppl", "prob"):
        model = prefers("red", "A. red", "A")
        assert tree.scores(model, text, "Colours", ranking_type=ranking) == {"Accuracy": 50.0}
    assert tree.scores(says("A"), text, "Colours", ranking_type="generation") == {"Accuracy": 50.0}
    static = with_method(
        GENERATION, "    @staticmethod\n    def post_processing(predictions):\n        return ['red'] * 4\n"
    )
    assert tree.scores(says("?"), static, "Words") == {"EM": 50.0}


def test_answers_and_references_may_be_of_the_class_s_own_kind(tree):
    text = changed(
        with_method(CHOICE, "    def post_processing(self, predictions):\n        return ['warm'] * 4\n"),
        ('[instance["target_idx"] for', "['warm' if instance['gold'] else 'cold' for"),
    )
    assert tree.scores(prefers("red"), text, "Colours") == {"Accuracy": 50.0}
    numbers = with_method(
        CHOICE,
        "    def post_processing(self, predictions):\n        import numpy as np\n"
        "        found = np.array([nll / length for nll, length in predictions]).reshape(4, 3)\n"
        "        return found.argmin(axis=1)\n",
    )
    assert tree.scores(prefers("red"), numbers, "Colours") == {"Accuracy": 50.0}
    compared = with_method(
        CHOICE,
        "    def post_processing(self, predictions):\n"
        "        rows = [predictions[start : start + 3] for start in range(0, 12, 3)]\n"
        "        assert min(rows[0]) == (1.0, 1) and max(rows[0]) > min(rows[0])\n"
        "        return [row.index(min(row)) for row in rows]\n",
    )
    assert tree.scores(prefers("red"), compared, "Colours") == {"Accuracy": 50.0}


def test_a_tie_goes_to_the_first_option(tree):
    assert tree.scores(prefers("red", "blue", "green"), CHOICE, "Colours") == {"Accuracy": 50.0}


def test_options_and_their_numbers_are_known_to_the_class(tree):
    assert compiled(tree, CHOICE, "Colours").dataset.option_nums == [3, 3, 3, 3]


def test_own_figures_join_those_of_the_metrics(tree):
    text = with_method(
        CHOICE,
        """\
    def calculate_metric(self, predictions):
        results, score_lists = super().calculate_metric(predictions)
        assert score_lists["Accuracy"] == [100.0, 0.0, 0.0, 100.0]
        results[self.display_name]["Doubled"] = 2 * results[self.display_name]["Accuracy"]
        results["warm"] = {"Accuracy": 7.0}
        return results, score_lists
""",
    )
    text = changed(text, ("    def format_instance", "    category_column = 'q'\n\n    def format_instance"))
    spec = f"{tree.add(text)}:Colours"
    result = kshot.evaluate(prefers("red"), spec, dataset_path=str(tree.rows))
    found = {(row["task"], row["metric"]): row["value"] for row in result.results if not row.get("detail")}
    assert found["mine", "Accuracy"] == 50.0
    assert found["mine", "Doubled"] == 100.0
    assert found["mine", "warm: Accuracy"] == 7.0
    assert found["mine[q0]", "Accuracy"] == 100.0


def test_normalisation_decides_by_the_difference(tree):
    text = changed(
        CHOICE,
        ("    def format", "    use_normalization = True\n    normalization_prompt = ' Colour: '\n\n    def format"),
    )
    asked = tree.asked(text, "Colours")
    assert [r.prompt.text for r in asked[:2]] == ["q0\nA:", "Colour:"]
    assert tree.scores(prefers("red"), text, "Colours") == {"Accuracy": 50.0}


def test_ids_that_stand_in_several_rows_are_no_ids(tree):
    tree.write_rows(test=[r | {"id": "same"} for r in ROWS])
    assert tree.scores(says("red"), GENERATION, "Words") == {"EM": 50.0}


def test_warnings_of_a_file_are_notes(tree):
    text = changed(
        with_method(GENERATION, "    def init_arguments(self):\n        getLogger(__name__).warning('only %d', 5)\n"),
        ("from functools", "from logging import getLogger\nfrom functools"),
    )
    assert "mine: only 5" in compiled(tree, text, "Words").task().notes


def test_load_kwargs_reach_the_hub(tree, monkeypatch):
    given = {}

    class Hub:
        DownloadConfig = dict

        @staticmethod
        def load_dataset(name, subset, *, split, **more):
            given[name, subset, split] = more
            return ROWS

    monkeypatch.setattr("kshot.tables.hub._datasets_library", Hub)
    monkeypatch.setattr("kshot.datasets.llmbox.imports.import_package", lambda *_: Hub)
    text = changed(
        GENERATION,
        ("from functools", "import datasets as ds\nfrom functools"),
        (
            "    def format",
            "    load_args = ('a/b', 'c')\n    load_kwargs = {'d': ds.DownloadConfig(e=1)}\n\n    def format",
        ),
    )
    kshot.preview(f"{tree.add(text)}:Words")
    assert given == {("a/b", "c", "test"): {"d": {"e": 1}}}


def test_a_retriever_chooses_examples_for_such_a_class(tree):
    prompts = tree.prompts(CHOICE, "Colours", num_shots=1, retriever="bm25")
    assert all(prompt.count("\n\n") == 1 for prompt in prompts)


def test_a_model_that_is_asked_twice_gets_the_same_prompts(tree):
    """A run compiles a class more than once: nothing may depend on how often."""
    models = [Fake(prefers("red").answer) for _ in range(2)]
    for model in models:
        tree.scores(model, CHOICE, "Colours", num_shots=2)
    assert models[0].asked == models[1].asked
