"""The functions of these task files. kshot runs them confined; lm-eval imports them."""

MOST_WORDS = 9


def without_long_questions(dataset):
    """Keep the questions of fewer than ten words."""
    return dataset.filter(lambda doc: len(doc["question"].split()) <= MOST_WORDS)


def mentions(doc, results):
    """Look for the answer anywhere in the reply."""
    return {"mentions": float(doc["answer"].lower() in results[0].lower())}
