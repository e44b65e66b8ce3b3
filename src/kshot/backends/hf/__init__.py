"""Hugging Face models in this process: ``hf:PATH_OR_ID``."""
