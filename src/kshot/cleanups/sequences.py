"""Clean-ups of SciReasoner's datasets: molecules, proteins, RNA, materials. Standard library only."""

from __future__ import annotations

import json
import re

from kshot.cleanups.spans import after_thinking, between, without, without_end_marks

TYPE_CHECKING = False  # without the module typing, which takes long to load
if TYPE_CHECKING:
    from typing import Any

_NUMBER = re.compile(r"[-+]?\d*\.\d+|\d+")
_AMINO_ACIDS = frozenset("ACDEFGHIKLMNPQRSTVWY")


# ---- Mol-Instructions ----


def Mol_Instructions_postprocess_Protein(text: str, *_: Any, **__: Any) -> str:  # noqa: N802 - as configs call it
    """Keep the reply without its reasoning and the marks of its end."""
    return after_thinking(without_end_marks(text.strip())).strip()


def Mol_Instructions_postprocess_Protein_Design(text: str, *_: Any, **__: Any) -> str:  # noqa: N802 - as above
    """Take the amino acids of the first protein tag of one line."""
    found = re.search(r"<protein>(.*?)</protein>", after_thinking(text.strip()))
    return "".join(letter for letter in found[1] if letter in _AMINO_ACIDS) if found else ""


_BIOTEXT_TASKS = frozenset(
    (
        *("chemical_disease_interaction_extraction", "chemical_protein_interaction_extraction"),
        *("chemical_entity_recognition", "true_or_false_question", "multi_choice_question", "open_question"),
    )
)


def Mol_Instructions_postprocess_BioText(text: str, task: str, *_: Any, **__: Any) -> str:  # noqa: N802 - as above
    """Keep the reply without its reasoning, the marks of its end and an introduction."""
    text = text.strip()
    if task not in _BIOTEXT_TASKS:
        return text
    text = re.sub(r"\A(?:response:|answer:)\s*", "", without_end_marks(text), flags=re.IGNORECASE)
    text = after_thinking(text)
    return re.sub(r"\A(?:i would say that|i would like to say that)\s*", "", text, flags=re.IGNORECASE).strip()


_MOLECULE_TASKS = frozenset(
    ("description_guided_molecule_design", "forward_reaction_prediction", "retrosynthesis", "reagent_prediction")
)


def Mol_Instructions_postprocess_Mol(text: str, task: str, *_: Any, **__: Any) -> Any:  # noqa: N802 - as above
    """Take the number, the molecule (package ``rdkit``) or the text that a task asks for."""
    if task not in {*_MOLECULE_TASKS, "property_prediction_str", "molecular_description_generation"}:
        return text
    text = after_thinking(without_end_marks(text.strip()))
    if task == "property_prediction_str":
        found = _NUMBER.search(re.sub(r"(?<=\d) +(?=\d)|(?<=\.) +(?=\d)", "", text))
        return found[0] if found else 0
    if task not in _MOLECULE_TASKS:
        return text
    found = re.search("<SMILES>(.*?)</SMILES>", text)
    return _canonical(found[1].strip()) if found else None


def _canonical(smiles: str) -> str | None:
    """Write a molecule in one way; None for what is no molecule."""
    from rdkit import Chem  # type: ignore[import-not-found,unused-ignore]  # the config's own dependency

    molecule = Chem.MolFromSmiles(smiles)
    return None if molecule is None else Chem.MolToSmiles(molecule, isomericSmiles=False, canonical=True)


# ---- PEER, OPI, GUE ----


def PEER_postprocess_default(text: str) -> str:  # noqa: N802 - as above
    """Keep the reply without its reasoning and the marks of its end."""
    return without(without_end_marks(text.strip()), "<think>", "</think>")


_PEER_YES = (
    *("will be soluble", "will dissolve", "is soluble", "can be predicted", "positive", "yes", "correct", "valid"),
    *("accurate", "certainly", "indeed", "affirmative", "highly soluble", "easily soluble", "dissolves easily"),
    *("is assured", "be soluble"),
)
_PEER_NO = (
    *("will not be soluble", "is not soluble", "will not dissolve", "low solubility", "low", "cannot be predicted"),
    *("negative", "no", "incorrect", "invalid", "inaccurate", "impossible", "not possible", "denied", "be insoluble"),
)
_PEER_RULES = tuple(
    (answer, re.compile("|".join(words), re.IGNORECASE)) for answer, words in (("Yes", _PEER_YES), ("No", _PEER_NO))
)


def PEER_postprocess(text: Any) -> str:  # noqa: N802 - as above
    """Take Yes or No after "The answer is", else by words that mean one of them."""
    if not isinstance(text, str):
        return ""
    text = after_thinking(text)
    if stated := re.search(r"the answer is\s+(yes|no)", text, re.IGNORECASE):
        return stated[1]
    return next((answer for answer, words in _PEER_RULES if words.search(text)), "")


def PEER_postprocess_float_compare(text: Any, compare_number: float) -> str:  # noqa: N802 - as above
    """Say Yes if the first number is greater than another one, else No."""
    found = _NUMBER.search(after_thinking(text)) if isinstance(text, str) else None
    if not found:
        return ""
    return "Yes" if float(found[0]) > compare_number else "No"


def opi_postprocess(text: str, task: str, *_: Any, **__: Any) -> str:  # noqa: ARG001 - configs pass it
    """Keep the reply without the marks of its end."""
    return without_end_marks(text.strip())


def _after_closed_thinking(text: str) -> str:
    """Leave out what is in think tags; a reply whose reasoning does not end has nothing left."""
    if "<think>" not in text:
        return text
    return without(text, "<think>", "</think>") if "</think>" in text else ""


_GUE_NO = "negative|no|absence|not|cannot|fails|absent|lacks"
_GUE_YES = (
    "positive|positively|presence|detected|identified|identifiable|found|yes|yep|located|detectable|observable"
    "|evident|absolutely|affirmative|can|affirm|confirm|confirms|reveals|existence|certainly|consistent|recognizable"
    "|recognized|displays|includes|evidenced by|clear evidence|definitely has|clearly contains"
    "|seeing characteristic patterns|shows (?:core|promoter|characteristic|clear|sequences)"
    "|contains (?:sequences|transcription|regulatory|sites|a)|exhibits (?:clear|sequences|features|patterns)"
)
_GUE_RULES = tuple(
    (answer, re.compile(rf"\b(?:{words})\b", re.IGNORECASE))
    for answer, words in (("negative", _GUE_NO), ("positive", _GUE_YES))
)


def GUE_postprocessor(text: Any) -> str:  # noqa: N802 - as above
    """Take positive or negative: as the reply states it, else by words that mean one of them."""
    if not isinstance(text, str):
        return ""
    text = _after_closed_thinking(text.strip())
    if stated := re.search(r"\bthe prediction result is\s+(positive|negative)\b", text, re.IGNORECASE):
        return stated[1].lower()
    return next((answer for answer, words in _GUE_RULES if words.search(text)), "")


# ---- RNA, proteins, materials ----


def RNA_postprocessor(text: str | None) -> str:  # noqa: N802 - as above
    """Take what the first RNA tag encloses, T written as U; without an opening tag, the last bases before it."""
    text = (text or "").replace("T", "U").replace("t", "u")
    if found := re.search("<rna>(.*?)</rna>", text, re.DOTALL | re.IGNORECASE):
        return found[1].strip()
    closing = re.search("</rna>", text, re.IGNORECASE)
    bases = re.findall("[ACGU]+", text[: closing.start()], re.IGNORECASE) if closing else []
    return bases[-1].upper() if bases else ""


def UPG_postprocess(text: Any) -> str:  # noqa: N802 - as above
    """Take the amino acids and gaps of the last protein tag."""
    found = between(text, "<protein>", "</protein>") if isinstance(text, str) else []
    return "".join(letter for letter in found[-1].upper() if letter in _AMINO_ACIDS or letter == "-") if found else ""


def material_postprocessor(text: str | None) -> str:
    """Take what the first material tag encloses."""
    found = re.search("<material>(.*?)</material>", text or "", re.DOTALL | re.IGNORECASE)
    return found[1].strip() if found else ""


def Retrosynthesis_postprocess(text: Any) -> str:  # noqa: N802 - as above
    """Take the molecule of the last SMILES tag."""
    plain = without(text, "<think>", "</think>") if isinstance(text, str) else ""
    found = between(plain, "<SMILES>", "</SMILES>")
    return found[-1].strip() if found else ""


# ---- LLM4Mat ----

_CHOICES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("Direct_or_indirect", "Direct_or_indirect_HSE"), ("Indirect", "Direct")),
    **dict.fromkeys(("SOC", "is_gap_direct", "is_stable"), ("True", "False")),
}
_SPELLINGS = {"true": "True", "yes": "True", "false": "False", "no": "False"}


def LLM4Mat_postprocessor(text: Any, property: str) -> Any:  # noqa: A002, N802 - as configs pass it
    """Take the value of a property: a number, or one of the words that it may be."""
    if not isinstance(text, str):
        return ""
    text = _after_closed_thinking(text.strip())
    bare = re.sub(r"^```(?:json)?\s*|\s*```$", "", text.strip(), flags=re.IGNORECASE | re.MULTILINE)
    try:
        values = json.loads(bare)
        if property in values:
            return _property_value(values[property], property)
    except (ValueError, TypeError, IndexError, RecursionError, OverflowError):
        pass  # it is no JSON, or no object; the value may still be found as text
    quote = r"[\"']?"
    found = re.search(
        rf"\{{[^{{}}]*{quote}{re.escape(property)}{quote}\s*:\s*{quote}(.*?){quote}\s*\}}",
        bare,
        re.DOTALL | re.IGNORECASE,
    )
    if not found:
        return ""
    value = found[1].strip().strip('"')
    if property in _CHOICES:
        return _choice(value, property)
    try:
        return float(value)
    except ValueError:
        return ""


def _property_value(value: Any, kind: str) -> Any:
    if isinstance(value, (int, float)):
        return float(value)
    return _choice(str(value), kind) if kind in _CHOICES else str(value)


def _choice(value: str, kind: str) -> str:
    choices = _CHOICES[kind]
    if choices[0] in _SPELLINGS.values():
        return _SPELLINGS.get(value.lower(), "")
    return next((choice for choice in choices if choice.lower() == value.lower()), "")


# ---- LLM4Chem ----

_CHEMICAL_TAGS = {
    **dict.fromkeys(("forward_synthesis", "retrosynthesis", "molecule_generation", "name_conversion-i2s"), "SMILES"),
    **dict.fromkeys(("name_conversion-i2f", "name_conversion-s2f"), "MOLFORMULA"),
    **dict.fromkeys(("property_prediction-esol", "property_prediction-lipo"), "NUMBER"),
    **dict.fromkeys((f"property_prediction-{name}" for name in ("bbbp", "clintox", "hiv", "sider")), "BOOLEAN"),
    "name_conversion-s2i": "IUPAC",
    "molecule_captioning": "",
}
_ATOM = r"[A-Z][a-z]?\d*"
_FORMULA = re.compile(
    rf"[\[(]?{_ATOM}(?:\([A-Za-z0-9]+\)\d*)?[\])]?(?:{_ATOM}|\([^)]+\)\d*|\[[^\]]+\]\d*)*[+-]{{0,2}}(?:·\d*{_ATOM})*"
)


def LLM4Chem_postprocess(text: str, task: str, *_: Any, **__: Any) -> str:  # noqa: N802 - as above
    """Take what the tag of a task encloses, else the last word, number or formula of its kind."""
    text = without(text, "<think>", "</think>")
    tag = _CHEMICAL_TAGS[task]
    if not tag:
        return text.replace("<unk>", "").replace("</s>", "").strip()
    start, end = text.find(f"<{tag}>"), text.find(f"</{tag}>")
    answer = text[start + len(tag) + 2 : end].strip() if start >= 0 and end >= 0 else ""
    if tag == "SMILES":
        return answer.replace(";", ".")
    if answer or tag == "IUPAC":
        return answer
    if tag == "BOOLEAN":
        words = re.findall(r"\b(?:yes|true|no|false)\b", text, re.IGNORECASE)
        return ("Yes" if words[-1].lower() in {"yes", "true"} else "No") if words else ""
    plain = without(text, "<SMILES>", "</SMILES>") if tag == "NUMBER" else text
    found = re.findall(r"-?\d*\.\d+|-?\d+", plain) if tag == "NUMBER" else [m[0] for m in _FORMULA.finditer(plain)]
    return found[-1] if found else ""
