"""One thread serves any number of listening sockets, and lets go of all of them."""

from __future__ import annotations

import socket

import httpx
import pytest

from pytest_harness.serving import BackgroundServer


async def hello(scope, receive, send):
    await receive()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
    await send({"type": "http.response.body", "body": scope["path"].encode()})


def test_it_serves_on_each_of_its_sockets():
    with BackgroundServer(hello) as server:
        mine = socket.create_server(("127.0.0.1", 0))
        port = mine.getsockname()[1]
        first, second = server.listen(), server.listen(mine)
        assert second.url == f"http://127.0.0.1:{port}"
        assert [httpx.get(listener.url + "/x").text for listener in (first, second)] == ["/x", "/x"]


def test_it_listens_on_loopback_only():
    with BackgroundServer(hello) as server:
        assert server.listen().url.startswith("http://127.0.0.1:")


def test_a_closed_listener_refuses_while_the_others_serve_on():
    with BackgroundServer(hello) as server:
        first, second = server.listen(), server.listen()
        first.close()
        first.close()
        with pytest.raises(httpx.ConnectError):
            httpx.get(first.url)
        assert httpx.get(second.url + "/still").text == "/still"


def test_after_close_nothing_listens_and_closing_again_is_harmless():
    server = BackgroundServer(hello).start()
    url = server.listen().url
    server.close()
    server.close()
    with pytest.raises(httpx.ConnectError):
        httpx.get(url)


def test_work_before_start_is_refused_with_a_sentence():
    with pytest.raises(RuntimeError, match="start the server"):
        BackgroundServer(hello).listen()


def test_a_server_ends_while_a_client_keeps_its_connection_open_and_another_is_being_answered():
    async def silent(scope, receive, send):
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"begun", "more_body": True})
        await receive()

    with BackgroundServer(hello) as server, httpx.Client() as idle:
        kept, cut = server.listen(), server.listen(app=silent)
        assert idle.get(kept.url).status_code == 200
        with httpx.stream("GET", cut.url) as reply:
            pieces = reply.iter_raw()
            assert next(pieces) == b"begun"
            server.close()
            with pytest.raises(httpx.RemoteProtocolError):
                list(pieces)
        with pytest.raises(httpx.ConnectError):
            httpx.get(kept.url)
