"""Content encodings: gzip, deflate, br and zstd are undone, with a bound on what comes out."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator

import brotli  # type: ignore[import-untyped]
import zstandard

ENCODINGS = ("gzip", "deflate", "br", "zstd")

_PIECE = 1 << 16


class EncodingError(Exception):
    """A body that is not in the encoding that it claims; the message says which."""


class UnknownEncodingError(EncodingError):
    """An encoding that is not known here."""


class TooLargeError(Exception):
    """A body that would be larger than the bound."""


def decoded(body: bytes, encodings: str, limit: int) -> bytes:
    """The body without its encodings, given as in a ``Content-Encoding`` header, at most ``limit`` bytes of it.

    Raises EncodingError or TooLargeError; never more than ``limit`` and a little are decompressed.
    """
    for name in reversed([part.strip().lower() for part in encodings.split(",") if part.strip()]):
        if name == "identity":
            continue
        expand = _EXPANDERS.get(name.removeprefix("x-"))
        if expand is None:
            raise UnknownEncodingError(f"the content-encoding {name} is unknown here; send {', '.join(ENCODINGS)} or none")
        pieces: list[bytes] = []
        size = 0
        try:
            for piece in expand(body):
                size += len(piece)
                if size > limit:
                    raise TooLargeError
                pieces.append(piece)
        except (zlib.error, brotli.error, zstandard.ZstdError, EOFError) as error:
            raise EncodingError(f"the body is not {name} as its content-encoding says ({error}); send it as declared") from None
        body = b"".join(pieces)
    return body


def _zlib(body: bytes, window: int) -> Iterator[bytes]:
    """Any number of members, one after another."""
    while body:
        expander = zlib.decompressobj(window)
        while not expander.eof:
            piece = expander.decompress(body, _PIECE)
            if not piece and not expander.eof and not expander.unconsumed_tail:
                raise EOFError("it ends too early")
            yield piece
            body = expander.unused_data if expander.eof else expander.unconsumed_tail


def _deflate(body: bytes) -> Iterator[bytes]:
    """With the zlib frame that RFC 9110 asks for, or bare as some clients send it."""
    framed = len(body) > 1 and body[0] & 0x0F == 8 and int.from_bytes(body[:2], "big") % 31 == 0
    return _zlib(body, zlib.MAX_WBITS if framed else -zlib.MAX_WBITS)


def _brotli(body: bytes) -> Iterator[bytes]:
    expander = brotli.Decompressor()
    yield expander.process(body, output_buffer_limit=_PIECE)
    while not expander.is_finished():
        piece = expander.process(b"", output_buffer_limit=_PIECE)
        if not piece and not expander.is_finished():
            raise EOFError("it ends too early")
        yield piece


def _zstd(body: bytes) -> Iterator[bytes]:
    """Any number of frames; a reader does not tell a frame that ends too early, so what each says is followed."""
    while body:
        expander = zstandard.ZstdDecompressor(max_window_size=1 << 27).decompressobj()
        for start in range(0, len(body), 256):
            yield expander.decompress(body[start : start + 256])
            if expander.eof:
                body = expander.unused_data + body[start + 256 :]
                break
        else:
            raise EOFError("it ends too early")


_EXPANDERS: dict[str, Callable[[bytes], Iterator[bytes]]] = {
    "gzip": lambda body: _zlib(body, zlib.MAX_WBITS | 16),
    "deflate": _deflate,
    "br": _brotli,
    "zstd": _zstd,
}
