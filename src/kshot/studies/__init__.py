"""Studies: many tasks made from one, and what they show together."""
