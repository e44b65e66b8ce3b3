from kshot import Generate, Generated


class Echo:
    """Repeats the last words of the prompt."""

    name, answers = "echo", (Generate,)

    def __init__(self, words: int = 1) -> None:
        self.words, self.fingerprint = words, f"echo {words}"  # the fingerprint covers what changes its answers

    def serve(self, queue):
        for request in queue:  # or: while batch := queue.take(): …
            yield request, Generated(" ".join(request.prompt.text.split()[-self.words :]))
