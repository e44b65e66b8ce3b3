"""Replies of every sort, from a seed: words, formulas, code, Chinese, answers said in many ways."""

import random

LEADS = (
    "", "Let me think step by step.\n", "<think>\nmaybe B, maybe 7\n</think>\n", "首先，我们分析题目。", "Sure! Here it is:\n",
    "The passage says that A is not B. ", "def f(x):\n    return x\n", "1. ", "Analysis: ", "**Step 1**: add. ",
)  # fmt: skip
SAYINGS = (
    "The answer is {x}.", "the answer is ({x})", "The correct answer is {x}", "Answer: {x}", "ANSWER: {x}", "答案是{x}。",
    "答案：{x}", "所以答案为{x}", "故选{x}", "选项{x}正确", "因此，选{x}。", "\\boxed{{{x}}}", "$\\boxed{{\\text{{{x}}}}}$",
    "Final Answer: The final answer is ${x}$. I hope it is correct.", "So the answer is {x}", "[[{x}]]", "<answer>{x}</answer>",
    "```python\nprint({x!r})\n```", "{x}", " {x} ", "{x}.", "({x})", "#### {x}", "Therefore, {x}", "My choice: **{x}**",
    "Judgement: {x}", "option {x} is right", "I choose {x} because it fits", "[ANSWER]{x}[/ANSWER]", "最终答案是：{x}",
)  # fmt: skip
ANSWERS = (
    "A", "B", "C", "D", "E", "b", "12", "-3.5", "1,234", "0.50", "\\frac{1}{2}", "\\dfrac{3}{4}", "x^2+1", "3\\sqrt{2}", "50\\%",
    "yes", "No", "True", "not entailment", "北京", "Paris", "the red one", "12 km", "[1, 2, 3]", "A, C", "ABD", "(C) river",
    "{'a': 1}", "", "None",
)  # fmt: skip
TAILS = (
    "",
    "\n",
    " Thank you.",
    "\n\nExplanation: B is wrong.",
    "。",
    "\nQ: next?\nA: 5",
    " </s>",
    "\nanother line 42",
)


def texts(count, seed=18):
    """So many replies; the first are short and plain."""
    draw = random.Random(seed)
    made = ["", " ", "A", "B.", "12", "答案是C", "\\boxed{5}", "no idea"]
    while len(made) < count:
        parts = [draw.choice(LEADS)]
        for _ in range(draw.choice((1, 1, 1, 2, 3))):
            parts.append(draw.choice(SAYINGS).format(x=draw.choice(ANSWERS)))
            parts.append(draw.choice(TAILS))
        made.append("".join(parts))
    return made[:count]
