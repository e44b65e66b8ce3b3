from kshot import Found, IndexSearchEngine


class Longest(IndexSearchEngine):
    """Finds the longest passages, whatever the query."""

    name = fingerprint = "longest"  # the fingerprint covers what changes its rankings, but for the corpus

    def open(self, corpus, store):  # store.built(…) keeps index files
        self.sizes = [len(passage.text) for passage in corpus]
        return self

    def search(self, queries, k, among):  # among: the positions that may be found, or None for all
        best = sorted(range(len(self.sizes)) if among is None else among, key=lambda at: -self.sizes[at])[:k]
        return [Found(best, [self.sizes[at] for at in best]) for _ in queries]
