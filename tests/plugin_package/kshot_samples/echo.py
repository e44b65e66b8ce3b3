from kshot import Generate, Generated


class Echo:
    """Repeats the last words of the prompt."""

    answers = (Generate,)

    def __init__(self, words: int = 1) -> None:
        self.words = words
        self.name = self.fingerprint = f"echo-{words}"  # the fingerprint covers what changes its answers

    def serve(self, queue):
        for request in queue:  # or: while batch := queue.take(): …
            yield request, Generated(" ".join(request.prompt.text.split()[-self.words :]))
