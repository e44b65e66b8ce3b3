import re


def clean(text):
    return re.sub(r"\[.*?\]", "", text.strip().replace(" [title]", ". ")).replace("  ", " ")


def query(doc):
    return clean(doc["activity_label"] + ": " + doc["ctx_a"] + " " + doc["ctx_b"].capitalize())


def choices(doc):
    return [clean(ending) for ending in doc["endings"]]
