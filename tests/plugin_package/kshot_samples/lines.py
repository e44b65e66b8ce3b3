from pathlib import Path

from kshot import Watcher


class Lines(Watcher):
    """Appends each figure to a text file."""

    def __init__(self, file: str = "figures.txt") -> None:
        self.file = Path(file)

    def finished(self, rows):
        with self.file.open("a") as file:
            file.writelines(f"{row['task']} {row['metric']} {row['value']}\n" for row in rows)
