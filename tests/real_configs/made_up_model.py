"""The model and the judge of ``make configs-check``: replies from a file, by the marks that made-up rows have.

A made-up value is such as ``1te0.question``: entry 1 of the file, test row 0. What the model says of that row stands in
the file that ``KSHOT_MADE_UP_REPLIES`` names: ``{"1": [reply of row 0, …], "verdicts": {"1": what the judge says}}``.
"""

import json
import os
import re
from pathlib import Path

from kshot.core.content import BY_ADDRESS, MEDIA_KINDS
from kshot.core.protocols import Abilities
from kshot.core.records import Generate, Generated, Likelihood, Loglik, Scored

MARK = re.compile(r"(\d+)te(\d+)\.")
VERDICT = "A\n[[8]]\n[[A>B]]"


class Made:
    name = fingerprint = "made up"
    answers = (Generate, Loglik)
    abilities = Abilities(media=frozenset({*MEDIA_KINDS, BY_ADDRESS}))

    def __init__(self):
        self.replies = json.loads(Path(os.environ["KSHOT_MADE_UP_REPLIES"]).read_text(encoding="utf-8"))

    def serve(self, queue):
        for request in queue:
            if isinstance(request, Loglik):
                yield (
                    request,
                    Scored(tuple(Likelihood(-len(text) / 7, len(text) + 1) for text in request.continuations)),
                )
            else:
                yield request, Generated(self.reply(request.prompt.text))

    def reply(self, text):
        marks = MARK.findall(text)
        entry, row = marks[-1] if marks else ("0", "0")
        known = self.replies.get(entry) or ["B"]
        return known[int(row) % len(known)]


class Judge(Made):
    name = fingerprint = "made-up judge"

    def reply(self, text):
        marks = MARK.findall(text)
        known = self.replies.get("verdicts") or {}
        if not marks:  # the prompt shows nothing of the row
            return next(filter(None, known.values()), VERDICT) if len(known) == 1 else VERDICT
        return known.get(marks[-1][0]) or VERDICT
