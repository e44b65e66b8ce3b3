def last_word(reply, strip: str = ".,"):
    """Take the last word of a reply."""
    words = reply.split()
    return words[-1].strip(strip) if words else ""
