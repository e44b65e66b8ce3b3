"""Taking the answer out of a reply."""
