"""A capture proxy for chat completions."""
