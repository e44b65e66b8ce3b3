"""Pages of docs/ with parts that a program writes: each stands between two marks."""


def written(page: str, found: dict[str, str]) -> str:
    """Return a page with each text put between the marks of its name."""
    for name, text in found.items():
        begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
        before, mark, rest = page.partition(begin)
        _, closing, after = rest.partition(end)
        if not (mark and closing):
            raise ValueError(f"the page has no marks {begin} … {end}")
        page = f"{before}{begin}\n{text}\n{end}{after}"
    return page
