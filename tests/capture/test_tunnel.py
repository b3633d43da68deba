"""The way from a public URL to the front: what does not lead there is refused in a sentence, and nothing that was started is left."""

import os
import select
import socket
import socketserver
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest

from pytest_harness.capture.front import Front
from pytest_harness.capture.tunnel import TunnelError, check_url, fault_of, require_url, tunnel

FORWARDER = Path(__file__).parents[1] / "remote" / "forwarder.py"
RECORDED = {
    "a tunnel whose program is not running": (b"530 ", b"error code: 1033", "it answers 530"),
    "a tunnel that has ended": (b"404 Not Found", b"Tunnel not found\r\n\r\nERR_3200", "it answers 404"),
    "a reverse proxy with nothing behind it": (b"502 Bad Gateway", b"<html>502 Bad Gateway</html>", "it answers 502"),
    "a page that asks whether one wants to go on": (b"200 OK", b"<html>You are about to visit</html>", "somebody else answers there"),
    "a login": (b"302 Found\r\nlocation: https://login.invalid/", b"", "it answers 302"),
}
"""What providers of tunnels and reverse proxies answer, by what is the matter."""


@pytest.fixture
def front():
    with Front() as front:
        yield front


@contextmanager
def answering(status: bytes, body: bytes):
    class Answer(socketserver.StreamRequestHandler):
        def handle(self):
            while self.rfile.readline().strip():
                pass
            self.wfile.write(b"HTTP/1.1 %b\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%b" % (status, len(body), body))

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


@pytest.fixture
def forwarder():
    return f"{sys.executable} {FORWARDER} {{port}}"


def test_the_url_of_a_command_is_the_printed_one_that_leads_to_the_front_and_it_ends_with_the_context(front, forwarder, tmp_path):
    """Not the port is asked whether it has ended: another process may have it by then."""
    pid = tmp_path / "pid"
    with tunnel(f"{forwarder} & echo $! > {pid}; wait", front, tmp_path / "tunnel.log") as url:
        assert fault_of(url, front) is None
    assert not Path("/proc", pid.read_text().strip()).exists()
    assert "your URL is" in (tmp_path / "tunnel.log").read_text()


def test_a_command_that_ends_is_told_with_its_last_word(front, tmp_path):
    with pytest.raises(TunnelError) as caught, tunnel("echo no account; exit 3 # {port}", front, tmp_path / "log"):
        pass
    assert (
        str(caught.value)
        == f"--tunnel 'echo no account; exit 3 # {{port}}' ended with exit code 3: no account; its log is {tmp_path / 'log'}"
    )


def test_a_command_whose_url_leads_elsewhere_is_ended_and_told(front, tmp_path):
    with answering(b"502 Bad Gateway", b"") as url:
        pids = tmp_path / "pids"
        command = f"echo $$ > {pids}; echo {url}; sleep 600 # {{port}}"
        with pytest.raises(TunnelError) as caught, tunnel(command, front, tmp_path / "log", ready_seconds=0.1):
            pass
    assert f"led nothing here within 0.1 s: {url}: it answers 502" in str(caught.value)
    assert not Path("/proc", pids.read_text().strip()).exists()


def test_a_command_ends_with_its_run_however_that_ends(tmp_path):
    """Its process is waited for by a descriptor that becomes readable when it has ended."""
    script = (
        "import sys; from pathlib import Path\n"
        "from pytest_harness.capture.front import Front; from pytest_harness.capture.tunnel import tunnel\n"
        "with Front() as front, tunnel(sys.argv[1], front, Path(sys.argv[2])): print('open', flush=True); sys.stdin.read()"
    )
    pid_file = tmp_path / "pid"
    command = f"echo $$ > {pid_file}; exec {sys.executable} {FORWARDER} {{port}}"
    whole = [sys.executable, "-c", script, command, str(tmp_path / "log")]
    run = subprocess.Popen(whole, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=os.environ | {"TMPDIR": str(tmp_path)})
    assert run.stdout.readline() == b"open\n"
    descriptor = os.pidfd_open(int(pid_file.read_text()))
    run.kill()
    run.communicate()
    assert select.select([descriptor], [], [], 60)[0] == [descriptor]
    os.close(descriptor)


def test_a_command_that_does_not_say_where_the_port_belongs_is_refused(front, tmp_path):
    with (
        pytest.raises(TunnelError, match=r"write \{port\} where the port of this machine belongs"),
        tunnel("true", front, tmp_path / "log"),
    ):
        pass


@pytest.mark.parametrize("case", RECORDED)
def test_a_url_that_does_not_lead_here_is_told_with_what_it_answers(front, case):
    status, body, fault = RECORDED[case]
    with answering(status, body) as url:
        with pytest.raises(TunnelError) as caught:
            require_url(url, front)
        assert str(caught.value).startswith(
            f"--public-url {url} does not lead here: {fault}; lead it to 127.0.0.1:{front.port} on this machine"
        )


def test_a_url_that_nobody_serves_is_told(front):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
    with pytest.raises(TunnelError, match="does not lead here: it cannot be reached"):
        require_url(url, front)


def test_a_url_that_leads_here_is_taken(front):
    require_url(f"http://127.0.0.1:{front.port}", front)


@pytest.mark.parametrize(
    "url", ["example.org", "ftp://example.org", "https://", "https://a?b", "https://a#b", "https://a:port", "https://me@a", ""]
)
def test_what_is_no_base_url_is_refused(url):
    with pytest.raises(TunnelError, match=r"is no base URL; write it as https://HOST"):
        check_url(url)


def test_a_slash_at_the_end_of_a_url_does_not_count():
    assert check_url("https://example.org/below/") == "https://example.org/below"
