"""Compressed bodies made without a library: what is stored uncompressed is still a valid stream of its format."""

from __future__ import annotations

ZSTD_BLOCK_LIMIT = 1 << 17
BROTLI_BLOCK_LIMIT = 1 << 16


def zstd_stored(data: bytes) -> bytes:
    """A zstd frame (RFC 8878) with one raw block; at most 128 KiB."""
    if not 0 < len(data) <= ZSTD_BLOCK_LIMIT:
        raise ValueError(f"{len(data)} bytes do not fit into one raw block of zstd")
    single_segment_with_4_byte_size = b"\xa0"
    block_header = (1 | len(data) << 3).to_bytes(3, "little")  # the last block, raw
    return b"\x28\xb5\x2f\xfd" + single_segment_with_4_byte_size + len(data).to_bytes(4, "little") + block_header + data


def brotli_stored(data: bytes) -> bytes:
    """A brotli stream (RFC 7932) with one uncompressed meta-block; at most 64 KiB."""
    if not 0 < len(data) <= BROTLI_BLOCK_LIMIT:
        raise ValueError(f"{len(data)} bytes do not fit into one uncompressed meta-block of brotli")
    # From the lowest bit: window of 16 bits (0), not the last (0), four nibbles of length (00), length - 1, uncompressed (1).
    head = (len(data) - 1) << 4 | 1 << 20
    return head.to_bytes(3, "little") + data + b"\x03"  # the last meta-block, empty
