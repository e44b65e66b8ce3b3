"""Clients of the fake server, and requests for them."""

from kshot.backends import open_model
from kshot.core.records import Generate, Message, Prompt


def connect(server, model="m", **options):
    """Open an OpenAI client of a fake server."""
    return open_model(f"openai:{model}", {"base_url": server.url, **options})


def chat_requests(count):
    """Return requests with different prompts: 0, 1, 2 and so on."""
    return [Generate(Prompt(messages=(Message("user", str(i)),))) for i in range(count)]
