"""Models behind an HTTP server: ``openai:`` (any OpenAI-compatible one) and ``anthropic:``."""
