"""The dialects harnesses speak: each turns a request into one for the engine, and the engine's reply into the harness's."""
