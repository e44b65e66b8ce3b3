"""Token lookup: which character stands beside the query? Data, prompts and error kinds."""

from kshot.lookup.prompts import prompts

__all__ = ["prompts"]
