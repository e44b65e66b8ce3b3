"""The prompts of an entry by the home's own reader, retriever, templates, inferencer and template parsers."""

import asyncio
import copy
import importlib

META = {
    "round": [
        {"role": "HUMAN", "begin": "<HUMAN>: ", "end": "<eoh>\n"},
        {"role": "BOT", "begin": "<BOT>: ", "end": "<eob>\n", "generate": True},
    ],
    "reserved_roles": [{"role": "SYSTEM", "begin": "<SYSTEM>: ", "end": "<eosys>\n"}],
    "begin": "Meta instruction: be helpful.\n",
    "end": "end of conversation",
}
CHAT = {
    "round": [{"role": "HUMAN", "api_role": "HUMAN"}, {"role": "BOT", "api_role": "BOT", "generate": True}],
    "reserved_roles": [{"role": "SYSTEM", "api_role": "SYSTEM"}],
}
ROLES = {"HUMAN": "user", "BOT": "assistant", "SYSTEM": "system", "TOOL": "tool"}
KINDS = ("text", "meta", "messages")
ROWS_SHOWN = 2
REPLY = "ANS"
LABELLED = {"PPLInferencer", "LLInferencer"}
ENCODED = {"TopkRetriever", "MDLRetriever", "VotekRetriever", "DPPRetriever"}
CONVERSED = {"ChatInferencer"}


def found(dotted):
    """The class that a dotted name names."""
    module, _, name = dotted.rpartition(".")
    return getattr(importlib.import_module(module), name)


def short(config):
    """The last part of a config's type."""
    return str(config.get("type", "")).rpartition(".")[2]


def as_messages(parsed):
    """What a chat model of the home sends: a text is one message of the user."""
    if isinstance(parsed, str):
        return [{"role": "user", "content": parsed}]
    sent = []
    for item in parsed:
        if "content" in item:
            sent.append(dict(item))
            continue
        content = item["prompt"] if "prompt" in item else item["prompt_mm"]
        sent.append({"role": ROLES.get(item["role"], item["role"]), "content": content})
    return sent


class Home:
    """What both homes share; subclasses say where their classes are and how prompts are made of them."""

    package, registry = "", ""

    def __init__(self):
        registry = importlib.import_module(self.registry)
        self.retrievers, self.templates = registry.ICL_RETRIEVERS, registry.ICL_PROMPT_TEMPLATES
        self.base = importlib.import_module(f"{self.package}.datasets.base").BaseDataset
        self.lm, self.api = self.parsers()

    def dataset(self, entry, splits):
        from datasets import Dataset, DatasetDict

        class Made(self.base):
            def load(self, **options):
                return DatasetDict({name: Dataset.from_list(rows) for name, rows in splits.items()})

        options = {name: entry[name] for name in ("n", "k", "abbr") if name in entry}
        return Made(reader_cfg=copy.deepcopy(entry["reader_cfg"]), **options)

    def parser(self, kind):
        return (
            self.api(copy.deepcopy(CHAT))
            if kind == "messages"
            else self.lm(copy.deepcopy(META) if kind == "meta" else None)
        )

    def parsed(self, prompt, kind, mode="gen"):
        out = self.parser(kind).parse_template(copy.deepcopy(prompt), mode=mode)
        return as_messages(out) if kind == "messages" else out

    def rendered(self, entry, dataset):
        """Every kind of prompt, or the error of that kind."""
        if short(entry["infer_cfg"]["retriever"]) in ENCODED:
            raise LookupError("its retriever needs a model, which the reference environment has not")
        return {kind: self.one_kind(entry, dataset, kind) for kind in KINDS}

    def one_kind(self, entry, dataset, kind):
        try:
            return self.prompts(copy.deepcopy(entry["infer_cfg"]), dataset, kind)
        except Exception as exc:
            return {"error": f"{type(exc).__name__}: {exc}"[:200]}


class OpenCompass(Home):
    package, registry = "opencompass", "opencompass.registry"

    def parsers(self):
        models = (
            importlib.import_module("opencompass.models.base"),
            importlib.import_module("opencompass.models.base_api"),
        )
        return models[0].LMTemplateParser, models[1].APITemplateParser

    def prompts(self, infer, dataset, kind):
        kinds = {name: infer[f"{name}_template"] for name in ("ice", "prompt") if infer.get(f"{name}_template")}
        templates = {f"{name}_template": self.templates.build(config) for name, config in kinds.items()}
        retriever = self.retrievers.build({**infer["retriever"], "dataset": dataset})
        inferencer = short(infer["inferencer"])
        if inferencer in CONVERSED:
            return self.conversations(infer["inferencer"], retriever, templates.get("prompt_template"), kind)
        chosen = retriever.retrieve()[:ROWS_SHOWN]
        examples = {"ice_template": templates.get("ice_template")}
        made = []
        for index, ids in enumerate(chosen):
            shown = retriever.generate_ice(ids, **examples)
            if inferencer in LABELLED:
                labels = infer["inferencer"].get("labels") or retriever.get_labels(**_both(templates))
                whole = [retriever.generate_label_prompt(index, shown, label, **_both(templates)) for label in labels]
                made.append([self.parsed(one, kind, "ppl") for one in whole])
            else:
                token = infer["inferencer"].get("gen_field_replace_token") or ""
                one = retriever.generate_prompt_for_generate_task(
                    index, shown, gen_field_replace_token=token, **_both(templates)
                )
                made.append(self.parsed(one, kind))
        return made

    def conversations(self, config, retriever, template, kind):
        """One request a turn; the model's replies are ANS1, ANS2, …"""
        module = importlib.import_module("opencompass.openicl.icl_inferencer.icl_chat_inferencer")
        inferencer = object.__new__(module.ChatInferencer)
        chats = inferencer.get_chat_list(retriever.retrieve()[:ROWS_SHOWN], retriever, prompt_template=template)
        parser = (
            module.APITemplateParser(CHAT)
            if kind == "messages"
            else module.LMTemplateParser(META if kind == "meta" else None)
        )
        mode, made = config.get("infer_mode", "last"), []
        for chat in copy.deepcopy(chats):
            turns = [index for index, item in enumerate(chat) if item["role"] == "assistant"]
            asked = []
            for number, turn in enumerate(turns if mode != "last" else turns[-1:]):
                said = parser.parse_template(copy.deepcopy(chat[:turn]))
                asked.append(as_messages(said) if kind == "messages" else said)
                if mode == "every":
                    chat[turn]["content"] = f"{REPLY}{number + 1}"
            made.append(asked)
        return made


def _both(templates):
    return {name: templates.get(name) for name in ("ice_template", "prompt_template")}


class AISBench(Home):
    package, registry = "ais_bench.benchmark", "ais_bench.benchmark.registry"

    def parsers(self):
        models = "ais_bench.benchmark.models"
        local = importlib.import_module(f"{models}.local_models.base")
        return local.LMTemplateParser, importlib.import_module(f"{models}.api_models.base_api").APITemplateParser

    def prompts(self, infer, dataset, kind):
        config = {**infer["retriever"], "dataset": dataset}
        config |= {name: infer.get(name) for name in ("prompt_template", "ice_template")}
        retriever = self.retrievers.build(config)
        cls = found(str(infer["inferencer"]["type"])) if "." in str(infer["inferencer"]["type"]) else self.named(infer)
        inferencer = object.__new__(cls)
        model = _Recorder(self.parser(kind))
        inferencer.model, inferencer.logger = model, _Quiet()
        inferencer.labels = infer["inferencer"].get("labels")
        inferencer.gen_field_replace_token = infer["inferencer"].get("gen_field_replace_token") or ""
        inferencer.infer_mode = infer["inferencer"].get("infer_mode", "every")
        data = inferencer.get_data_list(retriever)[:ROWS_SHOWN]
        made = []
        for one in data:
            if "qa" in one:
                made.append([held["prompt"] for held in one["qa"].values()])
            elif cls.__name__ == "MultiTurnGenInferencer":
                made.append(asyncio.run(_asked(inferencer, model, one)))
            else:
                made.append(one["prompt"])
        return [_each(as_messages, one) for one in made] if kind == "messages" else made

    def named(self, infer):
        return importlib.import_module(self.registry).ICL_INFERENCERS.get(str(infer["inferencer"]["type"]))


def _each(function, prompt):
    nested = isinstance(prompt, list) and prompt and not isinstance(prompt[0], dict)
    return [function(one) for one in prompt] if nested else function(prompt)


class _Quiet:
    def __getattr__(self, name):
        return lambda *args, **kwargs: None


class _Recorder:
    """The home's template parser as a model, which keeps what it is asked."""

    max_out_len = 16

    def __init__(self, parser):
        self.parser, self.asked = parser, []

    def parse_template(self, prompt, mode="gen"):
        return self.parser.parse_template(prompt, mode=mode)

    def get_token_len_from_template(self, prompt, mode="gen"):
        return 0

    async def generate(self, prompt, max_out_len, output, **options):
        self.asked.append(copy.deepcopy(prompt))
        output.success, output.content = True, f"{REPLY}{len(self.asked)}"


class _Counter:
    def __getattr__(self, name):
        async def count(*args, **kwargs):
            return None

        return count


async def _asked(inferencer, model, data):
    inferencer.status_counter = inferencer.output_handler = _Counter()
    inferencer.perf_mode = False
    model.asked = []
    await inferencer.do_request(data, None, None)
    return model.asked


HOMES = {"opencompass": OpenCompass, "ais_bench": AISBench}
