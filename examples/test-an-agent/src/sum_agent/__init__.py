"""An agent that speaks OpenAI's chat completions. It tries again when it is told to wait."""

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request

TRIES = 3
TOOL = {
    "type": "function",
    "function": {
        "name": "bash",
        "description": "Run a shell command.",
        "parameters": {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]},
    },
}


class Agent:
    """Works on tasks at one endpoint. ``base_url`` ends in ``/v1``."""

    def __init__(self, base_url, key, model):
        self.base_url, self.key, self.model = base_url, key, model

    def ask(self, messages):
        """The model's next message."""
        body = json.dumps({"model": self.model, "messages": messages, "tools": [TOOL]}).encode()
        headers = {"content-type": "application/json", "authorization": f"Bearer {self.key}"}
        for left in reversed(range(TRIES)):
            request = urllib.request.Request(f"{self.base_url}/chat/completions", data=body, headers=headers)
            try:
                with urllib.request.urlopen(request, timeout=60) as reply:
                    return json.load(reply)["choices"][0]["message"]
            except urllib.error.HTTPError as error:
                with error:
                    if error.code != 429 or not left:
                        raise
                    time.sleep(float(error.headers.get("retry-after", 1)))
        raise AssertionError("the last try ends the loop")

    def run(self, call):
        """What the shell says to one tool call."""
        command = json.loads(call["function"]["arguments"])["command"]
        done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, check=False)
        return done.stdout + done.stderr or f"exit code {done.returncode}"

    def answer(self, calls):
        """The messages that answer these calls."""
        return [{"role": "tool", "tool_call_id": call["id"], "content": self.run(call)} for call in calls]

    def work(self, task):
        """Work until the model calls no tool; what it said last."""
        messages = [{"role": "user", "content": task}]
        while True:
            message = self.ask(messages)
            messages.append(message)
            if not message.get("tool_calls"):
                return message["content"]
            messages += self.answer(message["tool_calls"])


def main():
    """``sum-agent TASK``, at the endpoint of the usual variables."""
    agent = Agent(os.environ["OPENAI_BASE_URL"], os.environ["OPENAI_API_KEY"], os.environ["OPENAI_MODEL"])
    print(agent.work(sys.argv[1]))
