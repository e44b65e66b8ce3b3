from kshot import Retriever


class Shortest(Retriever):
    """Shows the training rows with the fewest words."""

    def ranked(self):
        sizes = [len(str(row).split()) for row in self.train]
        order = sorted(range(len(sizes)), key=sizes.__getitem__)
        for _ in self.test:
            yield order[: self.ice_num]
