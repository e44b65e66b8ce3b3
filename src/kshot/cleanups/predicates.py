"""How an option is named, and what a reply may say of it: that it is wrong, one of several, right, or the best.

Standard library only. These are the words; ``mentions`` applies them.
"""

from __future__ import annotations

import re

TEXT = "[\ue000-\uf8ff]"
_BEFORE = r"(?<![A-Za-z0-9_])(?<!\b[A-Za-z]\.)(?<![A-Za-z]')(?<!°)"
_AFTER = r"(?![A-Za-z0-9_])(?!'[A-Za-z])(?!\.[A-Za-z](?![A-Za-z]))"
_LOWER = (
    rf"(?:(?<=[Oo]ption )|(?<=[Cc]hoice )|(?<=[Ll]etter )|(?<![A-Za-z0-9]\()(?<=\()(?=[a-z]\)))[a-z]{_AFTER}"
    rf"|{_BEFORE}[b-hj-z](?= (?:option|choice)\b)"
)
NAME = rf"(?-i:{_BEFORE}[A-Z]{{1,3}}{_AFTER}|{TEXT}|{_LOWER})"

CLOSERS = r"[)\]}\"'>⟧]{0,3}"
_NOUN = r"(?:the |letter |options? |choices? |answers? |statements? |选项|項|项)?"
_JOIN = (
    r"(?:,? ?(?:and|or|nor|as well as|and/or|plus) (?:also |maybe |perhaps |possibly )?|,? ?(?:[和或与及跟]"
    r"|还是) ?| ?[,/&+、] ?)"
)
MORE = re.compile(rf"{CLOSERS}{_JOIN}{_NOUN}[(\[\"'⟦]{{0,2}}({NAME}){CLOSERS}")
EITHER = re.compile(rf"{CLOSERS}(?:,? ?(?:or|nor|and/or) | ?(?:[/或]|还是) ?)")
CLAUSE = re.compile(
    r" (?!are\b|both\b|together\b|depending\b|because\b|since\b|for\b|as\b|in\b|so\b)[a-z]|[是项選选错不]"
)

_LIST = rf"(?:{CLOSERS}{_JOIN}{_NOUN}[(\[]?{NAME}){{0,12}}{CLOSERS}"
_ADVERBS = (
    r"(?:(?:all|both|clearly|obviously|definitely|certainly|also|therefore|thus|simply|just|most likely|likely|probably"
    r"|actually|really|indeed|quite|so|then|hence|still|only|partly|partially|either|however|factually|totally"
    r"|completely|mostly|somewhat|plainly|immediately|out|most|the) ){0,3}"
)
_IS = (
    r"(?:is|are|was|were|would be|will be|must be|should be|seems?(?: to be)?|looks?|appears?(?: to be)?|sounds?"
    r"|has to be|can be|could be|might be|may be|ist|es|est)"
)
_WRONG = (
    r"(?:wrong|incorrect|false|invalid|inaccurate|implausible|unlikely|irrelevant|impossible|eliminated|ruled out"
    r"|excluded|rejected|untrue|mistaken|unrelated|incomplete|misleading|nonsense|a (?:common )?(?:distractor|trap"
    r"|mistake|myth)|too (?!good\b)\w+|off\b|out\b|less \w+|no good|not(?! (?:wrong|incorrect|false|only|just)\b)"
    r"|never|neither|n't|falsch)"
)
_NOT_VERB = (
    r"(?:cannot|can ?not|can't|could not|couldn't|does not|doesn't|do not|don't|did not|didn't|is not|isn't|are not"
    r"|aren't|was not|wasn't|would not|wouldn't|won't|will not|must not|should not|shouldn't|has nothing|have nothing"
    r"|fails?|contradicts?|misses|ignores|confuses|overstates|lacks|goes too far|describes? (?:something|another))\b"
)
_WRONG_AFTER = (
    r"(?:"
    rf" (?:{_IS} )?{_ADVERBS}(?:{_IS} {_ADVERBS})?{_WRONG}\b| {_ADVERBS}{_NOT_VERB}"
    rf"|(?: ?[.:;,?…→\-–—]){{1,4}} ?(?:(?:this|that|it|which) )?(?:is |'s |was )?{_ADVERBS}"
    r"(?:wrong\b|incorrect\b|false\b|inaccurate\b|invalid\b|not (?:correct|right|true|relevant|the|(?-i:a))\b|❌|✗|✘|×"
    r"|no\b(?! (?:doubt|question)))"
    r"| ?(?:❌|✗|✘|×(?! ?\w)|\((?:wrong|incorrect|false)\))"
    r"| ?(?:选项|選項|项|項)? ?(?:也|都|均|是|为|明显|显然|则|就|说法|的说法)*(?:错|錯|不|有误|排除|并非|并不|没有)"
    r")"
)
RULED_OUT_AFTER = re.compile(_LIST + _WRONG_AFTER, re.IGNORECASE)
ALONE_RULED_OUT_AFTER = re.compile(CLOSERS + _WRONG_AFTER, re.IGNORECASE)
CALLED_WRONG_AFTER = re.compile(rf"{CLOSERS} {_IS} {_ADVERBS}{_WRONG}\b", re.IGNORECASE)
RULED_OUT_BEFORE = re.compile(
    r"(?:\b(?:not|never|neither|nor|except|excluding|eliminat(?:es?|ed|ing)|rul(?:es?|ed|ing) out|reject(?:s|ed|ing)?"
    r"|discard(?:s|ed|ing)?|exclud(?:es?|ed)|rather than|instead of|unlike|(?<!other )than|versus|vs\.?|without"
    r"|cross(?:es|ed|ing)? out|contrary to|aside from|apart from|dismiss(?:es|ed|ing)?|other than|over|anything but"
    r"|beats?|outperforms|outweighs|trumps|(?:refus(?:e|es|ed|ing)|declin(?:e|es|ed|ing)) to \w+)"
    r"|n't(?: be)?|排除(?:了)?|不是|不选|不能选|不会是|并非|而非|而不是|除了|不为|不應選)"
    r"(?:\s|be\b|it's|it is|that it is|is\b|options?\b|choices?\b|answers?\b|the\b|an?\b|both\b|either\b|选项|选"
    r"|[:(\[\"'])*"
    rf"(?:{NAME}{CLOSERS} ?[,/、] ?{_NOUN}[(\[]?){{0,12}}(?:{NAME}{CLOSERS}{_JOIN}{_NOUN}[(\[]?)?\Z",
    re.IGNORECASE,
)
DOUBTED_BEFORE = re.compile(
    r"(?:(?:don't|do not|doesn't|doubt|wouldn't|would not) (?:think|believe|say|choose|pick|see|that)?\s*(?:that "
    r"|how |why )?"
    r"(?:it's |it is |the answer is )?(?:options? |choices? )?[(\[\"']?|wrong (?:answer|option|choice)s? (?:is|are) \(?"
    r"|incorrect (?:answer|option|choice)s? (?:is|are) \(?)\Z",
    re.IGNORECASE,
)
_BEST = (
    r"(?:(?:the |my )?(?:single |only |one )?(?:(?:most|more) \w+|best|better|strongest|closest|likeliest|only (?:one"
    r"|option|choice))"
    r"|fits (?:best|better)|makes (?:the )?most sense|matches best|it is(?=\W*(?:\Z|\n))|wins|remains|is left\b"
    r"|survives|is what)"
)
_RIGHT = (
    r"(?:correct(?!ly)|right|true|accurate|valid|appropriate|suitable|fits|works|matches|makes sense|the one\b|yes\b"
    r"|✓|✔|✅|☑|richtig)"
)
TICKED_BEFORE = re.compile(r"\A[\s\-•]*(?:✓|✔|✅|☑|\[[xX✓]\])\s?(?:options? )?[(\[]?\Z", re.IGNORECASE)
HEDGED = re.compile(
    rf"{CLOSERS} (?:seems?|looks?|sounds?|appears?|may|might|could)\b[^.!?\n]{{0,80}}?\b(?:but|however|yet)\b"
    rf"|{CLOSERS} [^.!?\n]{{0,60}}?\b(?:in|on|under) one (?:reading|interpretation|sense|view)\b",
    re.IGNORECASE,
)
ASKED_BEFORE = re.compile(
    r"(?:\A|[.!?:;\n] ?)(?:(?:so|but|hm+|and|or|then|well),? )*(?:do|does|did|which|what(?! about\b))"
    r"\b[^.!?\n]{0,60}\Z",
    re.IGNORECASE,
)
ASKED_AFTER = re.compile(
    rf"{CLOSERS} ?\?{CLOSERS}(?!\s*(?:yes|correct|right|indeed|exactly|certainly|sure|of course|i think so|true)\b)",
    re.IGNORECASE,
)
CONSIDERED_BEFORE = re.compile(
    r"\b(?:consider|examine|look at|analy[sz]e|evaluate|start with|begin with|discuss)"
    r" (?:the )?(?:options? |choices? |statements? )?[(\[\"']?\Z",
    re.IGNORECASE,
)
ONLY_BEFORE = re.compile(
    r"\b(?<!not )(?<!if )only (?:the )?(?:options? |choices? |statements? |answers? )?[(\[\"']?\Z", re.IGNORECASE
)
ONLY_AFTER = re.compile(rf"{CLOSERS} (?!if\b|when\b|and\b|or\b)[a-z]+")
JUDGED_BEST = re.compile(rf"{CLOSERS} ?[,:\-–—]?(?: {_IS}| is,? \w+,)? ?{_ADVERBS}{_BEST}", re.IGNORECASE)
JUDGED_RIGHT = re.compile(
    rf"{CLOSERS} ?(?:[.,:;?→\-–—] ?){{0,4}}(?:(?:this|that|it|which) )?(?:(?:{_IS} "
    rf"|'s ){_ADVERBS})?(?!the ){_RIGHT}(?! (?:that|if|only)\b)(?!\s?\?)"
    rf"| ?(?:✓|✔|✅|☑|\((?:correct|right|true|yes)\))"
    r"|(?:选项|選項|项|項)?\s?(?:的?说法)?(?:才|就|则|都|最)?(?:是|为)?(?:最|完全)?(?:正确|正確|对的?|對|符合题意"
    r"|符合|恰当|合适|准确)",
    re.IGNORECASE,
)
