"""Search engines: each makes an index over a corpus and answers Search requests."""
