from kshot import Metric


class Contains(Metric):
    """Share of replies that contain a reference."""

    name = "Contains"
    bounds = (0.0, 100.0)

    def __init__(self, ignore_case: bool = True) -> None:
        self.fold = str.lower if ignore_case else str

    def rate(self, prediction, reference):
        return 100.0 * any(self.fold(text) in self.fold(prediction) for text in reference)
