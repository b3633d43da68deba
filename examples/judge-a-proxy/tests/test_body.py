"""Tests of the proxy's own code, as any repository has them."""

import gzip
import json

import pytest
from ledger_proxy import body

PLAIN = {"model": "any", "messages": [{"role": "user", "content": "Hello."}]}


def test_the_engine_is_asked_for_its_own_model_with_ids_and_logprobs():
    sent = body.forwarded({**PLAIN, "logprobs": False, "_mine": 1}, "served")
    assert sent == {"model": "served", "messages": PLAIN["messages"], "logprobs": True, "return_token_ids": True}


def test_a_packed_request_is_read_and_null_is_like_absent():
    assert body.read(gzip.compress(json.dumps({**PLAIN, "n": None}).encode()), "gzip") == PLAIN


@pytest.mark.parametrize("data", [b"{", b"[]", b"{}"])
def test_what_is_no_request_is_refused(data):
    with pytest.raises(body.RefusedError):
        body.read(data, "")


def test_what_unpacks_without_end_is_refused():
    with pytest.raises(body.RefusedError, match="more than"):
        body.unpacked(gzip.compress(b" " * (body.LIMIT + 1)), "gzip")
