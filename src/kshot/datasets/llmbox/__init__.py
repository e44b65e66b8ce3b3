"""Dataset files of LLMBox as they are: their imports are answered by kshot, and nothing of LLMBox itself is run."""
