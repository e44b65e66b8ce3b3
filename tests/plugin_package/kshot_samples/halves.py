class Halves:
    """Cuts every document into equal parts."""

    def __init__(self, parts: int = 2) -> None:
        self.parts = parts

    def cut(self, text):
        size = -(-len(text) // self.parts) or 1
        return [text[start : start + size].strip() for start in range(0, len(text), size)]
