"""Token lookup: which character is next to the query? Data, prompts, scores and kinds of error."""

from kshot.lookup.prompts import prompts

__all__ = ["prompts"]
