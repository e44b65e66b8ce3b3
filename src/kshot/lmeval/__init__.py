"""Task files of lm-evaluation-harness: load them, see their requests, score them, run them."""
