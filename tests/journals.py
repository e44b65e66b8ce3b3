"""Journals as tests need them."""

import re


def without_checksums(text):
    """The lines of a journal as earlier versions wrote them."""
    return re.sub(r',"v":2,"sum":"[0-9a-f]{16}"\}', "}", text)
