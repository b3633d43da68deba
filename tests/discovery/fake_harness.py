"""A harness with a behaviour: the dictionary in the line below is replaced by that of a test."""

import contextlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import urllib.request

TRAITS = {}
HELP = "Usage: fake [OPTIONS]\n\n  exec   Run a task\n\nOptions:\n  --yolo   Ask nothing\n  -p, --prompt TEXT   The task\n"
SHELL = {
    "name": "execute_shell",
    "description": "Run a shell command.",
    "parameters": {
        "type": "object",
        "properties": {"cmd": {"type": "string"}, "risk": {"type": "string", "enum": ["LOW", "HIGH"]}},
        "required": ["cmd", "risk"],
    },
}
READ = {"name": "read_file", "description": "Read.", "parameters": {"type": "object", "properties": {"path": {"type": "string"}}}}


def post(url, headers, body):
    told = {"content-type": "application/json", **headers}
    with urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), told), timeout=60) as reply:
        return json.load(reply)


def run(arguments):
    assert arguments["risk"] == "LOW", arguments
    done = subprocess.run(["/bin/bash", "-c", arguments["cmd"]], capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def chat(url, key, model, task):
    """OpenAI's chat completions: the texts of the tool results, until a reply has no call."""
    system = "You work in a shell." + (f" When you are done, run echo {TRAITS['finish']}" if "finish" in TRAITS else "")
    messages = [{"role": "system", "content": system}, {"role": "user", "content": task}]
    headers = {"authorization": f"Bearer {key}"}
    if TRAITS.get("title"):
        post(f"{url}/chat/completions", headers, {"model": model, "messages": [{"role": "user", "content": f"A title for: {task}"}]})
    tools = [{"type": "function", "function": tool} for tool in (READ, SHELL)]
    for _ in range(6):
        reply = post(f"{url}/chat/completions", headers, {"model": model, "messages": messages, "tools": tools})
        message = reply["choices"][0]["message"]
        messages.append(message)
        calls = message.get("tool_calls") or []
        for call in calls:
            printed = run(json.loads(call["function"]["arguments"]))
            if "finish" in TRAITS and TRAITS["finish"] in printed:
                return
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": printed})
        if not calls:
            if "finish" not in TRAITS:
                return
            messages.append({"role": "user", "content": "Go on, please."})
    sys.exit(TRAITS["gives_up"])


def anthropic(url, key, model, task):
    """Anthropic's messages."""
    messages = [{"role": "user", "content": task}]
    headers = {"x-api-key": key, "anthropic-version": "2023-06-01"}
    tools = [{"name": tool["name"], "description": tool["description"], "input_schema": tool["parameters"]} for tool in (READ, SHELL)]
    while True:
        body = {"model": model, "max_tokens": 1000, "messages": messages, "tools": tools}
        content = post(f"{url}/v1/messages", headers, body)["content"]
        messages.append({"role": "assistant", "content": content})
        results = [
            {"type": "tool_result", "tool_use_id": part["id"], "content": run(part["input"])}
            for part in content
            if part["type"] == "tool_use"
        ]
        if not results:
            return
        messages.append({"role": "user", "content": results})


def main(arguments):
    if "--help" in arguments:
        print(HELP)
        return
    if arguments == ["--version"]:
        print("fake 1.2.3")
        return
    if TRAITS.get("hangs"):
        signal.pause()
    if arguments[:1] != ["exec"] or "--prompt" not in arguments:
        sys.exit("error: unknown option")
    if "switch" in TRAITS and os.environ.get(TRAITS["switch"]) != "true":
        sys.exit("Please run the setup first.")
    for host in TRAITS.get("hosts", ()):
        with contextlib.suppress(OSError):
            socket.getaddrinfo(host, 443)
    task = arguments[-1]
    log = pathlib.Path.home() / ".fake" / "sessions" / "2026-11-30T00-00-00" / "log.jsonl"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text(json.dumps({"task": task}))
    if "file" in TRAITS:
        provider = json.loads((pathlib.Path.home() / ".fake/agent/models.json").read_text())["providers"]["capture"]
        chat(provider["baseUrl"], provider["apiKey"], provider["models"][0]["id"], task)
        return
    url, key, model = (os.environ.get(name, "") for name in TRAITS["variables"])
    if not url:
        sys.exit("No API key was found.")
    (anthropic if TRAITS.get("anthropic") else chat)(url, key, model, task)


main(sys.argv[1:])
