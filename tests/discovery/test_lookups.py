"""The names that a sandbox asks for are written down, and nothing is resolved."""

import socket
import tempfile
from pathlib import Path

from hypothesis import example, given
from hypothesis import strategies as st

from pytest_harness.discovery.lookups import LAYOUT_FILES, PORT, Lookups, asked_name
from pytest_harness.sandboxes.bubblewrap import Sandbox
from pytest_harness.sandboxes.layout import Layout, Mount

QUESTION = b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x03api\x07Example\x03org\x00\x00\x01\x00\x01"


def test_the_name_of_a_question_is_read():
    assert asked_name(QUESTION) == ("api.example.org", len(QUESTION))


def test_a_reply_is_no_question():
    assert asked_name(QUESTION[:2] + b"\x81" + QUESTION[3:]) is None


@given(st.binary(max_size=100))
@example(QUESTION[:-1])
@example(QUESTION[:15])
def test_no_packet_is_too_odd(packet):
    found = asked_name(packet)
    assert found is None or found[1] <= len(packet)


def test_a_question_is_answered_at_once_and_an_odd_packet_ends_nothing():
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind(("127.0.0.1", 0))
    told = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client, Lookups(server, told.append) as lookups:
        client.settimeout(10)
        client.connect(server.getsockname())
        client.send(b"")
        client.send(b"odd")
        client.send(QUESTION)
        reply = client.recv(512)
    assert reply[:2] == QUESTION[:2]
    assert reply[2] & 0x80
    assert reply[3] & 0x0F == 3
    assert lookups.names == tuple(told) == ("api.example.org",)


def test_a_program_in_a_sandbox_is_heard():
    with tempfile.TemporaryDirectory() as folder:
        mounts = []
        for number, (path, text) in enumerate(LAYOUT_FILES.items()):
            Path(folder, str(number)).write_text(text)
            mounts.append(Mount(Path(folder, str(number)), path))
        with Sandbox.start(layout=Layout(mounts=tuple(mounts))) as sandbox, Lookups(sandbox.datagrams(PORT)) as lookups:
            assert sandbox.spawn(["/usr/bin/getent", "ahosts", "api.example.org"]).wait() != 0
    assert lookups.names == ("api.example.org",)
