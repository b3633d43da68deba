"""Serves the engine on a loopback port until it is told to stop: ``python -m pytest_harness.engines.scripted``.

It prints its URL. With a script, the default, it calls the tool ``bash``; with ``--chance`` it samples by seed and temperature and says
what ``structured_outputs`` forces.
"""

from __future__ import annotations

import argparse
import signal
import socket
from collections.abc import Sequence

from pytest_harness.engines.scripted.app import ScriptedEngine
from pytest_harness.engines.scripted.script import Script
from pytest_harness.serving import BackgroundServer

STEPS = (("I look.", ("echo pear", "echo plum")), ("One more.", ("echo fig",)), ("Done.", ()))


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve until SIGTERM or SIGINT."""
    parser = argparse.ArgumentParser(prog="python -m pytest_harness.engines.scripted", description="An engine without weights.")
    parser.add_argument("--port", type=int, default=0, help="on loopback; 0 is a free one")
    parser.add_argument("--model", default="scripted", help="the name of the model that it serves")
    parser.add_argument("--chance", action="store_true", help="sample by seed and temperature, without a script")
    asked = parser.parse_args(arguments)
    try:
        sock = socket.create_server(("127.0.0.1", asked.port))
    except (OSError, OverflowError) as error:
        parser.error(f"the port {asked.port} cannot be had ({error}); name another, or 0")
    script = None if asked.chance else Script.for_seam(STEPS, shell_tool="bash")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with BackgroundServer(ScriptedEngine(script, model=asked.model)) as server:
        print(f"{server.listen(sock).url}/v1", flush=True)
        try:
            signal.pause()
        except KeyboardInterrupt:
            return


if __name__ == "__main__":
    main()
