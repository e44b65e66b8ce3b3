"""Results for people: tables, grids, and short findings."""
