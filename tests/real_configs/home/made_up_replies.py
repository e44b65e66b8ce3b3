"""Replies to made-up rows: some right, some wrong, in the ways that models say it."""

FORMS = ("{gold}", "I am not sure, maybe B.", "Let me think step by step. So the answer is {gold}.", "答案是A。")


def replies_to(rows, column, forms=None):
    """One reply for each row; ``forms``: those that the entry's evaluator can read."""
    forms = forms or FORMS
    return [forms[number % len(forms)].replace("{gold}", _said(row.get(column))) for number, row in enumerate(rows)]


def _said(gold):
    while isinstance(gold, (list, tuple, dict)) and gold:
        gold = next(iter(gold.values())) if isinstance(gold, dict) else gold[0]
    return str(gold)
