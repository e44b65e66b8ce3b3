"""Which examples go into the prompt. Dataset classes draw theirs; the first retriever names that draw."""

RETRIEVERS = {
    "random": "a seeded draw without replacement from the example split, the same for every sample of a subset",
}
