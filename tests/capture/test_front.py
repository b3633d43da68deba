"""The front: what of this machine the outside can reach is the attempts, each by its own word, and nothing else."""

import json
import socket
import threading
from contextlib import ExitStack, contextmanager, suppress

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_harness.capture.front import HEAD_LIMIT, Front
from pytest_harness.serving import BackgroundServer


class App:
    """Answers with what it was asked, in two pieces; it waits in between where the request asks it to."""

    def __init__(self, name="app"):
        self.name = name
        self.go_on = threading.Event()
        self.gone = threading.Event()

    async def __call__(self, scope, receive, send):
        body, more = b"", True
        while more:
            event = await receive()
            body, more = body + event.get("body", b""), event.get("more_body", False)
        told = {
            "name": self.name,
            "method": scope["method"],
            "path": scope["path"],
            "query": scope["query_string"].decode(),
            "size": len(body),
        }
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]})
        await send({"type": "http.response.body", "body": json.dumps(told).encode() + b"\n", "more_body": True})
        if scope["query_string"] == b"wait":
            event = await receive()
            assert event["type"] == "http.disconnect"
            self.gone.set()
            return
        await send({"type": "http.response.body", "body": b"the end", "more_body": False})


@contextmanager
def attempt(front, app):
    door = front.way(f"http://127.0.0.1:{front.port}").door()
    with BackgroundServer(app) as server:
        server.listen(door.listener(), door.below(app))
        yield door
        door.close()


@pytest.fixture
def front():
    with Front() as front:
        yield front


@pytest.fixture(scope="module")
def closed_front():
    """One that leads to one attempt, for what must not get there."""
    with Front() as front, attempt(front, App()) as door:
        yield front, door


def said(reply: httpx.Response) -> dict:
    assert reply.status_code == 200
    return json.loads(reply.text.splitlines()[0])


def raw(port: int, data: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port)) as sock:
        sock.sendall(data)
        answer = b""
        while piece := sock.recv(65536):
            answer += piece
        return answer


def test_an_attempt_sees_its_requests_as_if_it_stood_at_the_root(front):
    with attempt(front, App()) as door:
        assert said(httpx.post(f"{door.url}/v1/chat/completions?x=1", content=b"x" * 300_000)) == {
            "name": "app",
            "method": "POST",
            "path": "/v1/chat/completions",
            "query": "x=1",
            "size": 300_000,
        }
        assert said(httpx.get(door.url))["path"] == "/"


def test_attempts_have_words_of_their_own_also_over_one_clients_connections(front):
    with ExitStack() as stack:
        client = stack.enter_context(httpx.Client())
        doors = [stack.enter_context(attempt(front, App(name))) for name in ("one", "two")]
        names = [said(client.get(f"{door.url}/v1/models"))["name"] for door in doors * 3]
    assert names == ["one", "two"] * 3
    assert doors[0].path != doors[1].path


def test_a_second_request_on_one_connection_is_not_answered(front):
    with attempt(front, App("one")) as one, attempt(front, App("two")) as two:
        request = "GET {}/v1 HTTP/1.1\r\nhost: x\r\nconnection: keep-alive\r\n\r\n"
        answer = raw(front.port, (request.format(one.path) + request.format(two.path)).encode())
    assert answer.count(b"HTTP/1.1 200 OK") == 1
    assert b'"one"' in answer
    assert b'"two"' not in answer


@contextmanager
def hasty_attempt(front, answer):
    """One that answers every connection at once and closes it, before it has read anything."""
    door = front.way(f"http://127.0.0.1:{front.port}").door()
    with door.listener() as listener:

        def serve():
            with suppress(OSError):  # of the listener that is shut down
                while True:
                    with listener.accept()[0] as connection:
                        connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield door
        door.close()
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


def test_an_answer_given_before_the_request_is_read_gets_through(front):
    answer = b"HTTP/1.1 413 Content Too Large\r\ncontent-length: 100000\r\nconnection: close\r\n\r\n" + b"x" * 100_000
    with hasty_attempt(front, answer) as door:
        for size in (0, 1, 1000, 8_000_000) * 5:
            head = f"POST {door.path}/v1 HTTP/1.1\r\nhost: x\r\ncontent-length: {size}\r\n\r\n"
            assert raw(front.port, head.encode() + b"y" * size) == answer


def test_what_is_streamed_passes_before_there_is_more_and_a_client_that_leaves_is_noticed(front):
    app = App()
    with attempt(front, app) as door, httpx.stream("GET", f"{door.url}/v1?wait") as reply:
        lines = reply.iter_lines()  # kept: without it the reply would be closed
        assert json.loads(next(lines))["query"] == "wait"
        assert not app.gone.is_set()
        reply.close()
        assert app.gone.wait(20)


def test_an_attempt_that_is_over_is_not_reached(front):
    with attempt(front, App()) as door:
        pass
    assert httpx.get(f"{door.url}/v1").status_code == 404


@pytest.mark.parametrize("path", ["/", "/health", "/sessions", "/sessions/1", "/v1/models", "/r", "/r/", "/r/" + "0" * 32, "/r/../health"])
def test_nothing_is_at_any_other_path(closed_front, path):
    front, _ = closed_front
    answer = raw(front.port, f"GET {path} HTTP/1.1\r\nhost: x\r\n\r\n".encode())
    assert answer.startswith(b"HTTP/1.1 404 ")
    assert b"connection: close" in answer


def test_the_word_of_one_attempt_leads_nowhere_else(closed_front):
    front, door = closed_front
    for path in (f"{door.path}x", door.path[:-1], f"/{door.path}", door.path.upper()):
        assert raw(front.port, f"GET {path} HTTP/1.1\r\nhost: x\r\n\r\n".encode()).startswith(b"HTTP/1.1 404"), path
    above = raw(front.port, f"GET {door.path}/../{'0' * 32} HTTP/1.1\r\nhost: x\r\n\r\n".encode())
    assert f'"path": "/../{"0" * 32}"'.encode() in above  # below its own path everything is the attempt's


@given(st.binary(max_size=300))
def test_every_other_beginning_is_refused_or_cut_off(closed_front, data):
    front, _ = closed_front
    answer = raw(front.port, data + b"\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 404 "), answer


def test_a_head_without_an_end_is_cut_off_at_its_limit(closed_front):
    front, door = closed_front
    answer = raw(front.port, f"GET {door.path} HTTP/1.1\r\nx: ".encode() + b"y" * HEAD_LIMIT)
    assert answer.startswith(b"HTTP/1.1 431 ")


def test_whoever_leads_a_url_here_can_be_told_from_others(front):
    assert httpx.get(f"http://127.0.0.1:{front.port}{front.question}").text == front.answer


def test_only_this_user_can_enter_the_folder_of_the_sockets_and_it_goes_with_the_front():
    with Front() as front:
        assert front.folder.stat().st_mode & 0o077 == 0
    assert not front.folder.exists()


def test_a_port_that_is_taken_is_said_at_once(front):
    with pytest.raises(OSError, match=r"(?i)address already in use"):
        Front(front.port)
