"""How a secret looks once it is redacted, and which headers are secrets by their name.

The proxy writes them so, the store too, and what reads evidence knows them by it: so they stand here, once.
"""

REDACTED = "<redacted>"

SECRET_HEADERS = frozenset(
    {"authorization", "proxy-authorization", "x-api-key", "api-key", "x-goog-api-key", "cookie", "set-cookie"},
)
