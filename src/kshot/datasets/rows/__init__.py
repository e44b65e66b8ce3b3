"""Rows and flags: a dataset without a class, made from the columns that the user names."""
