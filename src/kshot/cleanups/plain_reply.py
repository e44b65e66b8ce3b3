"""A reply without its markup, with every option that it spells out replaced by one character. Standard library only.

The rules that read a reply (``chosen_option``) then see letters and such characters, and no markdown, LaTeX or HTML.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache

from kshot.cleanups.letters import letter_index

BOX = "⟦"
"""What a reply has in place of ``\\boxed{``."""

FIRST_TEXT = 0xE000
"""The character that stands for the text of option 0; those of the others follow."""

MAX_TEXTS = 6000
"""Private-use characters end after 6,400; beyond, options are known by their letters alone."""

MAX_CHARACTERS, BEGINNING = 20_000, 2_000
"""Of a longer reply, such as one that repeats itself without end, only so much is read: its beginning and its end."""

_QUOTES = str.maketrans(dict.fromkeys("‘’ʼ`´", "'") | dict.fromkeys("“”„«»", '"'))
_STEPS = tuple(
    (re.compile(pattern, re.IGNORECASE | re.DOTALL), by)
    for pattern, by in (
        (r"[\ue000-\uf8ff]", ""),
        (r"<\|[^|<>\n]{1,40}\|>|</?s>|<(?:end_of_turn|eos|pad)>|\[/?INST\]", "\n"),  # special tokens
        (r"~~[^~\n]{1,200}~~", " "),  # struck out
        (r"<\s*(?:final[ _-]?answer|answer|ans|choice|result)\s*>", "\nanswer: "),
        (r"</\s*(?:final[ _-]?answer|answer|ans|choice|result)\s*>", "\n"),
        (r"\[\s*(?:final[ _-]?answer|answer)\s*\]", "\nanswer: "),
        (r"</?(?:p|br|div|li|ul|ol|option|h[1-6])\b[^<>]{0,100}>", "\n"),
        (r"<(b|strong|i|em|u|code|span|mark|font|sup|sub)\b[^<>]{0,100}>([^<>]{0,400})</\1\s?>", r"\2"),
        (r"\\(?:text\w*|math(?:rm|bf|it|sf|tt)|mbox|bf|rm|underline|operatorname)\s*\{([^{}]{0,400})\}", r"\1"),
        (r"\\(?:text\w*|math(?:rm|bf|it|sf|tt)|mbox|bf|rm|underline|operatorname)\s*\{([^{}]{0,400})\}", r"\1"),
        (r"\\?\b(?:boxed|fbox)\s*\{((?:[^{}]|\{[^{}]{0,200}\}){0,400})\}", BOX + r"\1⟧"),
        (r"\\(?:boxed|fbox)\s+([A-Za-z])\b", BOX + r"\1⟧"),
        (r"\\[()\[\],;!]|\\quad|\$", " "),
        (r"\\([*_#])", r"\1"),
        (r"(?<![A-Za-z0-9])\*+|\*+(?![A-Za-z0-9])|\*{2,}", ""),
        (r"(?<![A-Za-z0-9])_+|_+(?![A-Za-z0-9])", ""),
        (r"\bN\s?/\s?A\b", " "),
        (r"[ \t\u00a0]+", " "),
    )
)

_TABLE_ROW = re.compile(r"^ ?\|.*\| ?$", re.MULTILINE)

# Texts so short or so common that they mean an option only where an answer is expected.
_COMMON = frozenset(
    {
        *("yes", "no", "not", "the", "it", "he", "she", "they", "we", "you", "is", "are", "in", "on", "at", "to", "of"),
        *("or", "and", "all", "one", "two", "three", "this", "that", "some", "any", "both", "more", "less"),
    }
)
_SHORTEST = 3

# Options that are judgements themselves: their words call no other option right or wrong.
_JUDGEMENTS = frozenset(
    {
        *("yes", "no", "true", "false", "right", "wrong", "correct", "incorrect", "maybe"),
        *("是", "否", "对", "错", "对的", "错的", "正确", "错误", "不正确"),
    }
)
_NO_ENDS = re.compile(
    r"\s*(?:[.,;:!?)(\]\"'/。，⟧]|\Z|\n|[-–—]\s|→|(?-i:[A-Z])[.):])"
    r"| (?:because|since|as|or|and|but|for|if|when|unless|not|it|he|she|they|that|this|there|is the|i|we|you)\b",
    re.IGNORECASE,
)
_JUDGES = re.compile(
    r"(?:\b(?:option|choice|statement) |(?<!\w))(?-i:[A-Z])[)\]]? (?:is|was|seems|looks)(?: not)? \Z", re.IGNORECASE
)
_SIGN_BEFORE = re.compile(r"(?:\A|[\s,.:;!?。，、(\"'⟦]|答案[是为]?|选|判断[为是])\Z")
_SIGN_AFTER = re.compile(r"\s*(?:[,.:;!?。，、)\"'⟧]|\Z|\n|的[,.。，]|的\Z|[A-Z][.):])")
_EXPECTED = re.compile(
    r"(?:\b(?:answer|choice)\b|答案)\W{0,3}(?:is|are|be|是|为)?\W*\Z|\b(?:say|guess) \Z|[=⟦] ?\Z|(?:^"
    r"|\n)\W*(?:[A-Z]{1,2}[.):]+\s)?\Z",
    re.IGNORECASE,
)
_ENDS = re.compile(
    r"\s*(?:[.,;:!?)\]\"'。⟧]|\Z|\n)| is (?:the|my|correct|right)\b| (?:it|he|she|they|that|this|there|because|since"
    r"|we|i|you|the)\b",
    re.IGNORECASE,
)
_WHOLE = re.compile(r"\d+\.0+")
_ARTICLE = re.compile(r"(?:the|an?)\s+(?=\S{2})", re.IGNORECASE)


def beginning_and_end(reply: str) -> str:
    """Return a reply, a long one without its middle, so that rules that look at it many times take no long time."""
    if len(reply) <= MAX_CHARACTERS:
        return reply
    return f"{reply[:BEGINNING]}\n…\n{reply[BEGINNING - MAX_CHARACTERS :]}"


def plain(text: str) -> str:
    """Return a text without markup: full-width letters, quotation marks, markdown, LaTeX and HTML made plain."""
    text = unicodedata.normalize("NFKC", text).replace("```", " ").translate(_QUOTES)
    for pattern, by in _STEPS:
        text = pattern.sub(by, text)
    return _TABLE_ROW.sub(lambda row: row[0].replace("|", ":"), text)


@lru_cache(maxsize=256)
def _spelled(options: tuple[str, ...]) -> tuple[re.Pattern[str] | None, dict[str, int]]:
    """Return a pattern that finds the texts of options, the longest first, and the index of each text."""
    cores = [_core(option) for option in options[:MAX_TEXTS]]
    indices = {
        core: index
        for index, core in enumerate(cores)
        if cores.count(core) == 1 and (len(core) > 1 or core.isdecimal() or (core and not core.isascii()))
    }
    forms = [
        (r"(?<![A-Za-z0-9\u00c0-\u024f])" if core[0].isascii() and core[0].isalnum() else "")
        + (r"(?<!\d[.,])(?<![-−])" if core[0].isdigit() else "")
        + r"\s+".join(map(re.escape, core.split()))
        + (r"(?:\.0{1,6})?" if core.isdecimal() else "")
        + (r"(?![A-Za-z0-9])(?![.,]\d)" if core[-1].isascii() and core[-1].isalnum() else "")
        for core in sorted(indices, key=len, reverse=True)
    ]
    if not forms:
        return None, indices
    return re.compile(rf"(?:\b(?:the|an?)\s+)?({'|'.join(forms)})", re.IGNORECASE), indices


def _core(option: str) -> str:
    core = " ".join(plain(option).split()).rstrip(".;,!。").lower()
    return _ARTICLE.sub("", core, count=1) if _ARTICLE.match(core) else core


def with_options_marked(reply: str, options: Sequence[str]) -> str:
    """Return a reply without markup, with the character of an option in place of each text that spells it out."""
    text = plain(reply)
    pattern, indices = _spelled(tuple(options))
    if pattern is None:
        return _capitals(text)

    def mark(match: re.Match[str]) -> str:
        core = " ".join(match[1].split()).lower()
        if core not in indices and _WHOLE.fullmatch(core):
            core = core.partition(".")[0]
        if core in _JUDGEMENTS:
            return chr(FIRST_TEXT + indices[core]) if core in indices and _is_answer(text, match, core) else match[0]
        common = core in _COMMON or (
            len(core) < _SHORTEST and core.isascii() and not (core.isdecimal() and len(core) > 1)
        )
        if common and not (
            _EXPECTED.search(text, max(0, match.start() - 40), match.start()) and _ENDS.match(text, match.end())
        ):
            return match[0]
        return chr(FIRST_TEXT + indices[core]) if core in indices else match[0]

    return _once(_capitals(pattern.sub(mark, text)))


def judgements(options: Sequence[str]) -> frozenset[int]:
    """Return the indices of the options that are words such as yes, no, true and false."""
    return frozenset(index for index, option in enumerate(options) if _core(option) in _JUDGEMENTS)


def _is_answer(text: str, match: re.Match[str], core: str) -> bool:
    """Whether a word such as "no" answers, and does not stand before a noun or judge another option."""
    if len(core) == 1:  # the Chinese ones are parts of many words
        return bool(
            _SIGN_BEFORE.search(text, max(0, match.start() - 8), match.start()) and _SIGN_AFTER.match(text, match.end())
        )
    before = text[max(0, match.start() - 40) : match.start()]
    if _JUDGES.search(before) or before.endswith(("不", "不太", "并非", "不是")):
        return False
    return core != "no" or _NO_ENDS.match(text, match.end()) is not None


_LONE_LOWER = re.compile(
    r"(?<![A-Za-z0-9_'.])(?:[b-hj-z]|a(?= (?:is|are|was|and|or|because|since|must|would|seems|fits)\b|[),;:!?]"
    r"|\.(?:\s|\Z)|\s*\Z|\n))(?![A-Za-z0-9_'])(?!\.[a-z])(?! ?[=+*/^])"
)


def _capitals(text: str) -> str:
    """Write the letters of a reply that has no capitals as capitals: b is right."""
    return text if any(map(str.isupper, text)) else _LONE_LOWER.sub(lambda match: match[0].upper(), text)


_TEXT = "[\ue000-\uf8ff]"
_LETTER_THEN_TEXT = re.compile(rf"(?<![A-Za-z0-9_])(([A-Z]{{1,2}})[)\].:,\-–—\"' ]{{1,5}})({_TEXT})")
_TEXT_THEN_LETTER = re.compile(rf"({_TEXT})( ?[(\[](?:option |choice )?([A-Z]{{1,2}})[)\]])", re.IGNORECASE)


def _once(text: str) -> str:
    """Leave out the text of an option beside its letter: ``B. London`` and ``London (B)`` name one option once."""

    def after(match: re.Match[str]) -> str:
        return match[1].rstrip() if _same(match[2], match[3]) else match[0]

    def before(match: re.Match[str]) -> str:
        return match[2] if _same(match[3], match[1]) else match[0]

    return _TEXT_THEN_LETTER.sub(before, _LETTER_THEN_TEXT.sub(after, text))


def _same(name: str, mark: str) -> bool:
    return letter_index(name.upper()) == ord(mark) - FIRST_TEXT
