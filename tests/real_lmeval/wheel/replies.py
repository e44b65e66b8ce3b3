"""Made-up answers of a model: log-probabilities without text, and texts that wrap the gold answer or miss it."""

import hashlib
import re

ROUNDS = {"generate_until": 3}
FORMS = (
    "{g}", " {g}\n", "The answer is {g}.", "So the answer is {g}", "#### {g}", "Answer: ({g})", "So it is $\\boxed{{{g}}}$", "**{g}**",
    "Let me think.\nThe final answer is {g}. I hope it is correct.", "{g} and more\n\nQuestion: the next one", "The best answer is {g}.",
    "I do not know.", "", "({g})", "{G}", "[{g}]", "<answer>{g}</answer>", "none: {g}, $ person: {g}",
)  # fmt: skip


def rounds_of(output_type):
    """How many rounds of answers a task gets."""
    return ROUNDS.get(output_type, 2)


def logprob(path, turn, number):
    """The rule of the goldens: no text is needed to make it again."""
    digest = hashlib.sha256(f"{path}|{turn}|{number}".encode()).hexdigest()
    return [-int(digest[:6], 16) / 2**20, int(digest[6], 16) < 5]


def reply(path, turn, number, gold, patterns):
    """A text for one request."""
    forms = [*FORMS, *[form for form in map(_like, patterns) if form]]
    pick = int(hashlib.sha256(f"{path}|{turn}|{number}".encode()).hexdigest()[:8], 16)
    form = forms[0] if turn == 0 and number == 0 else forms[pick % len(forms)]
    return form.replace("{g}", gold).replace("{G}", gold.upper()).replace("{{", "{").replace("}}", "}")


def _like(pattern):
    """A text that a pattern may match, with the gold in its first group."""
    if not isinstance(pattern, str):
        return None
    said = re.sub(r"\(\?<=([^)]*)\)", r"\1", pattern)
    said = re.sub(r"\(\?[:i=!][^()]*\)", "", said)
    said = re.sub(r"\((?!\?)(?:[^()\\]|\\.|\([^()]*\))*\)", "\0", said, count=1)
    said = re.sub(r"\\[sSdDwWbB][*+?]?|\.[*+]\??|\[[^\]]*\][*+?]?|[\^$]|\{\d.*?\}", " ", said)
    said = re.sub(r"\\(.)", r"\1", said.replace("?", "").replace("*", "").replace("+", ""))
    said = said.split("|")[0] if "\0" not in said else next(part for part in said.split("|") if "\0" in part)
    return said.replace("{", "").replace("}", "").replace("\0", "{g}") if "\0" in said else None
