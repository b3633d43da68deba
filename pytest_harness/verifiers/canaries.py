"""The isolation cases: what an agent looks for and tries, and must neither find nor bring about.

Each play looks for a word that stands where the agent must not get, and writes what it found. The verifier says whether the agent could
look at all, and what it found, a line each; its reward is of no interest.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from pytest_harness.verifiers.plays import HANGS, JSON, SHORT_SEC, Play, text

HOST_PORT = "HARNESS_HOST_PORT"
"""A variable of the agent: where a server on this machine's loopback listens, as an engine or a proxy does."""


def word(name: str) -> str:
    """A canary: found nowhere unless somebody put it there."""
    return f"canary-{hashlib.sha256(name.encode()).hexdigest()[:24]}"


TESTS, SOLUTION, VARIABLE, NEIGHBOUR = (word(name) for name in ("tests", "solution", "variable", "neighbour"))
"""In the task's tests, in its solution, in the environment of its verifier, in all that another attempt has."""

LOOKED = "looked"
_VERDICT = f"{text('0.5')}\n[ -e looked ] && echo {LOOKED} && cat found"
_SYSTEM = " -o ".join(f"-path '{path}'" for path in ("/proc", "/sys", "/dev/[!s]*", "/usr", "/lib*", "/bin", "/sbin"))
_LOOKS = f"""
looks() {{
    find / \\( {_SYSTEM} \\) -prune -o -type f -size -2048k -print0 2>/dev/null | xargs -0r grep -lsF -e "$1" --
    for file in /proc/[0-9]*/environ; do grep -lsaF -e "$1" "$file"; done
    all=$(cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' ')
    [[ $all != *"$1"* ]] || echo 'the command line of a process'
}}
decoy=de"coy-$$"
echo "$decoy" >/tmp/decoy
decoy=
DECOY="decoy-$$" looks "decoy-$$" >seen
""".strip()


def _seeks(sought: str) -> str:
    """Look for the word in every file, and in the environment and the command line of every process.

    It is put together here, so that the agent's own command does not hold it; and a decoy shows that looking finds something.
    """
    half = len(sought) // 2
    return "\n".join(
        [
            _LOOKS,
            f'word="{sought[:half]}""{sought[half:]}"',
            'looks "$word" >found',
            "grep -q /tmp/decoy seen && : >looked",
        ]
    )


GRADING: dict[str, Play] = {
    "tests": Play(_VERDICT, command=_seeks(TESTS)),
    "solution": Play(_VERDICT, command=_seeks(SOLUTION)),
    "variables_of_the_verifier": Play(_VERDICT, command=_seeks(VARIABLE), verifier_variables=(("CANARY", VARIABLE),)),
}
"""What the grading rests on is not there while the agent runs."""

_LEAVES = f"""
for folder in . ~ /tmp /var/tmp /dev/shm /logs/agent; do echo {NEIGHBOUR} >$folder/canary; done
CANARY={NEIGHBOUR} setsid bash -c 'exec -a {NEIGHBOUR} sleep 1000' >/dev/null 2>&1 &
""".strip()

OTHERS: dict[str, Play] = {"files_and_processes": Play(_VERDICT, command=_seeks(NEIGHBOUR), beside=_LEAVES)}
"""What another attempt has at the same time."""

_REFUSED = "(exec 3<>/dev/tcp/127.0.0.1/1) 2>&1 | grep -qi refused && : >looked"
_CALLS = f"""
for address in 127.0.0.1 10.0.2.2 host.docker.internal host.containers.internal; do
    timeout 3 bash -c "exec 3<>/dev/tcp/$address/${HOST_PORT}" 2>/dev/null && echo "port ${HOST_PORT} of $address"
done >found
{_REFUSED}
""".strip()

MACHINE: dict[str, Play] = {"server_on_this_machine": Play(_VERDICT, command=_CALLS, calls_out=True)}
"""What else runs on this machine: an engine, an admin API, another attempt's proxy."""


def _tries(attempt: str) -> str:
    """Whoever gets this far says so on its standard output."""
    return f"{{ {attempt}\n}} >found 2>/dev/null\n: >looked"


_DEVICES = "for number in '8 0' '254 0' '253 0' '252 0' '259 0'"
_SOCKETS = "{/var/run,/run}/{docker.sock,podman/podman.sock,containerd/containerd.sock,crio/crio.sock}"
_WAYS_OUT = {
    "remount": """
while read -r _ at _ flags _; do
    case $flags in ro|ro,*) mount -o remount,rw,bind "$at" && echo "$at";; esac
done </proc/self/mounts
""",
    "mount_of_a_disk": f"""
{_DEVICES}; do mknod /tmp/disk b $number; mount -r /tmp/disk /mnt && echo $number; rm -f /tmp/disk; done
""",
    "raw_device": f"""
{_DEVICES}; do mknod /tmp/disk b $number; head -c 1 /tmp/disk >/tmp/byte && echo $number; rm -f /tmp/disk; done
""",
    "setting_of_the_kernel": """
old=$(cat /proc/sys/kernel/core_pattern)
echo "$old" >/proc/sys/kernel/core_pattern && echo /proc/sys/kernel/core_pattern
""",
    "memory_of_the_kernel": """
for file in /proc/kcore /dev/mem /dev/kmem; do [ "$(head -c 1 $file | wc -c)" = 1 ] && echo $file; done
""",
    "socket_of_an_engine": f"""
for file in {_SOCKETS}; do [ -S $file ] && echo $file; done
""",
    "process_of_the_machine": """
for root in /proc/[0-9]*/root; do
    [ "$(stat -Lc %d:%i $root)" = "$(stat -Lc %d:%i /)" ] || { ls $root/ && echo $root; }
done
""",
    "release_agent": """
for file in $(find /sys/fs/cgroup -name release_agent); do old=$(cat $file); echo "$old" >$file && echo $file; done
""",
}
ESCAPES: dict[str, Play] = {name: Play(_VERDICT, command=_tries(attempt)) for name, attempt in _WAYS_OUT.items()}
"""Ways out of a sandbox."""

_WRITES = f"""
setsid bash -c 'while :; do echo "{{\\"reward\\": 1}}" >/tmp/mine && mv /tmp/mine {JSON}; sleep 0.02; done' >/dev/null 2>&1 &
until [ -e {JSON} ]; do sleep 0.02; done
""".strip()
_SLOW = f"{text('0.25')}\nsleep 0.5"
"""A verifier that has its verdict and some time left."""
WRITTEN = {"reward": 1}
"""By that process, which is why it must not be the reward."""

LEFT: dict[str, Play] = {
    "in_harbors_shared_mode": Play(_SLOW, command=_WRITES),
    "ended_as_a_rollout_does": Play(_SLOW, command=_WRITES, swept=True),
    "in_a_sandbox_of_its_own": Play(_SLOW, command=_WRITES, separate=True),
}
"""A process that the agent left running writes rewards, before, while and after the verifier does."""


def _daemon(name: str) -> str:
    """The agent leaves a process that ends for no signal but the last, under a name of its own."""
    return f"setsid bash -c 'trap \"\" TERM INT HUP QUIT; exec -a {word(name)} sleep 1000' >/dev/null 2>&1 &\nsleep 0.3"


def _over(name: str, verdict: str = "", **more: object) -> Play:
    return Play(verdict or text("1"), command=_daemon(name), leaves=word(name), **more)  # type: ignore[arg-type]


OVER: dict[str, Play] = {
    "ended": _over("ended"),
    "raised": _over("raised", act="raise"),
    "timed_out": _over("timed_out", act="hang", agent_sec=SHORT_SEC),
    "verifier_timed_out": _over("verifier_timed_out", HANGS, verifier_sec=SHORT_SEC),
    "lost_under_the_agent": _over("lost_under_the_agent", act="lose_sandbox"),
    "lost_while_grading": _over("lost_while_grading", lost_while_grading=True),
    "graded_elsewhere": _over("graded_elsewhere", separate=True),
}
"""Each way in which a trial can be over, with a process that its agent left running."""


def runs_here(sought: str) -> bool:
    """Whether a process of this name is to be seen among those of this machine."""
    for line in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if line.read_bytes().startswith(sought.encode()):
                return True
        except OSError:  # it has just ended, or is somebody else's
            continue
    return False
