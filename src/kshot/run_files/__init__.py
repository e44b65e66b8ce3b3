"""Run files: a whole evaluation as a TOML file. ``kshot run suite.toml`` reads it, ``--save-run-file`` writes it."""
