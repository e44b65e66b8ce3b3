"""Hugging Face models run by vLLM in this process: ``vllm:PATH_OR_ID``."""
