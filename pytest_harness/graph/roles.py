"""Whose turn a call is: the agent's, a side call's, a subagent's; and why, in a few words that a report can show.

In this order:

1. **Headers** by which real harnesses mark subagents and side calls. A mark that every call bears says nothing.
2. **Tools.** Where some calls offer tools, a call that offers none is a side call.
3. **Roots.** Calls that share a root are one conversation. The agent's is the first of those that are offered the most tools, or the one
   with tools that waited for that; where nobody offers any, the first of more than one turn, and where there is none the one with the
   longest prompt. Another conversation is none of
   the agent's if it began while a turn of the agent was yet to be continued and does not open just the same, or if it opens otherwise,
   with another system prompt and another first message of the user: it is a side call if it has one turn and offers no tools, else a
   subagent's. What is left is the agent's, begun anew.
4. **Summaries.** A conversation that is told the text of a turn just before it, and of no other, is the agent's, begun anew after a
   compaction; a turn that wrote the summary is a side call, unless it was continued. It is told by the user or the system, or, where a
   call without tools wrote it, as the first words of the assistant's.

Order in time is that in which the requests were received, whatever order the calls are given in.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from pytest_harness.evidence.model import Call
from pytest_harness.graph.prefixes import Prefix
from pytest_harness.graph.requests import Request, answer, told

Role = Literal["agent", "side", "subagent"]
Sign = Literal["", "header", "tools", "root", "summary"]
"""By what a role was told; empty where nothing spoke against the agent. A turn of the agent's with ``summary`` begins anew with one."""

CHILD = ("x-claude-code-agent-id", "x-claude-code-parent-agent-id", "x-parent-session-id", "x-codex-parent-thread-id", "x-openai-subagent")
"""Headers that only calls of subagents bear, of claude-code, opencode with its forks, and codex."""

COPILOT_CHILD = "conversation-subagent"
"""The value of ``x-interaction-type`` in calls of subagents of copilot-cli."""

CODEX_SIDE = frozenset({"compact", "memory_consolidation"})
"""Values of ``x-openai-subagent`` that name side calls."""

SUMMARY = 40
"""How many characters of a reply must be found again before it is taken for a summary."""
_RECENT = 4
"""How many calls before a compaction are looked at for its summary."""


@dataclass(frozen=True, slots=True)
class Node:
    """What the labels are made from: one turn with its link."""

    call: Call
    request: Request
    prompt: Prefix
    parent: int | None

    @property
    def moment(self) -> tuple[float, int]:
        """When the request was received."""
        return self.call.times.received, self.call.index


@dataclass(frozen=True, slots=True)
class Label:
    """A role, by what it was told, and the words for it."""

    role: Role = "agent"
    sign: Sign = ""
    why: str = ""


def label(nodes: Iterable[Node]) -> dict[int, Label]:
    """The label of each turn, by the index of its call."""
    nodes = sorted(nodes, key=lambda node: node.moment)
    offering = any(node.request.tools for node in nodes)
    found = _by_header(nodes)
    for node in nodes:
        if offering and not node.request.tools:
            found.setdefault(node.call.index, Label("side", "tools", "offers no tools where others do"))
    conversations = _conversations([node for node in nodes if node.call.index not in found], nodes)
    summaries = _summaries(nodes)
    if conversations:
        found |= _by_root(conversations, summaries)
    continued = {node.parent for node in nodes}
    for root, writers in summaries.items():
        for writer in writers if found[root].sign == "summary" else ():
            if writer not in continued:
                sign = found[writer].sign or "summary"
                found[writer] = Label("side", sign, f"wrote the summary that call {root} begins anew with")
    return found


def _by_header(nodes: list[Node]) -> dict[int, Label]:
    marked = {node.call.index: mark for node in nodes if (mark := _mark(node.call.received.headers)) is not None}
    return {} if len(marked) == len(nodes) else marked


def _mark(headers: Mapping[str, str]) -> Label | None:
    kind = headers.get("x-openai-subagent", "").strip()
    if kind in CODEX_SIDE:
        return Label("side", "header", f"header x-openai-subagent: {kind}")
    if headers.get("x-grok-req-id", "").startswith("xai-turn-summary"):
        return Label("side", "header", "header x-grok-req-id: xai-turn-summary")
    if "x-grok-session-id" in headers and not headers["x-grok-session-id"].strip():
        return Label("side", "header", "header x-grok-session-id is empty")
    if headers.get("x-interaction-type", "").strip() == COPILOT_CHILD:
        return Label("subagent", "header", f"header x-interaction-type: {COPILOT_CHILD}")
    child = next((name for name in CHILD if headers.get(name, "").strip()), None)
    return Label("subagent", "header", f"header {child}") if child is not None else None


@dataclass(frozen=True, slots=True)
class _Conversation:
    """The turns from roots with one prompt, in order of time: a retry of the first turn is of the same conversation."""

    turns: tuple[Node, ...]

    @property
    def first(self) -> Node:
        return self.turns[0]

    @property
    def goes_on(self) -> bool:
        """Whether any of its turns continues another."""
        return any(turn.parent is not None for turn in self.turns)

    def waiting(self, other: _Conversation) -> tuple[Node, Node] | None:
        """The turn, with its continuation, that was yet to be continued when the other began."""
        nodes = {node.call.index: node for node in self.turns}
        for turn in self.turns:
            before = nodes.get(turn.parent) if turn.parent is not None else None
            if before is not None and before.moment < other.first.moment < turn.moment:
                return before, turn
        return None


def _conversations(rest: list[Node], nodes: list[Node]) -> list[_Conversation]:
    by_call = {node.call.index: node for node in nodes}
    roots: dict[int, Node] = {}
    for node in sorted(nodes, key=lambda node: node.prompt.length):  # a parent's prompt is shorter
        roots[node.call.index] = node if node.parent is None else roots[by_call[node.parent].call.index]
    groups: dict[Prefix, list[Node]] = defaultdict(list)
    for node in rest:
        groups[roots[node.call.index].prompt].append(node)
    return [_Conversation(tuple(turns)) for turns in groups.values()]


def _by_root(conversations: list[_Conversation], summaries: Mapping[int, tuple[int, ...]]) -> dict[int, Label]:
    main = _main(conversations)
    agents, found = [main], dict[int, Label]()
    verdicts = {main.first.call.index: _anew(main, summaries)}
    for one in conversations:
        if one is not main:
            verdict = verdicts[one.first.call.index] = _compare(one, main, agents, summaries)
            if verdict.role == "agent":
                agents.append(one)
    verdicts[min(agents, key=lambda one: one.first.moment).first.call.index] = Label()
    for one in conversations:
        verdict = verdicts[one.first.call.index]
        for node in one.turns:  # what continues a turn of the agent does not begin anew
            found[node.call.index] = verdict if node.parent is None or verdict.role != "agent" else Label()
    return found


def _main(conversations: list[_Conversation]) -> _Conversation:
    """The agent's, in order of time. A subagent may go on for longer than the agent that waits for it, and may be offered more tools, as
    that of qwen-code is; but none waits for the agent."""
    most = max(len(one.first.request.tools) for one in conversations)
    if most:
        main = next(one for one in conversations if len(one.first.request.tools) == most)
        while (outer := _that_waits_for(main, conversations)) is not None:
            main = outer
        return main
    going_on = [one for one in conversations if one.goes_on]
    return going_on[0] if going_on else max(conversations, key=lambda one: one.first.prompt.length)


def _that_waits_for(main: _Conversation, conversations: list[_Conversation]) -> _Conversation | None:
    """The first conversation with tools of which a turn was yet to be continued when this one began otherwise."""
    for one in conversations:
        if one.first.request.tools and one.waiting(main) is not None and not _opens_the_same(one.first.request, main.first.request):
            return one
    return None


def _compare(one: _Conversation, main: _Conversation, agents: list[_Conversation], summaries: Mapping[int, tuple[int, ...]]) -> Label:
    role: Role = "subagent" if one.goes_on or one.first.request.tools else "side"
    for agent in agents if not _opens_the_same(one.first.request, main.first.request) else ():
        if (waited := agent.waiting(one)) is not None:
            return Label(role, "root", f"began while call {waited[0].call.index} was yet to be continued by call {waited[1].call.index}")
    if one.first.call.index not in summaries and _opens_otherwise(one.first.request, main.first.request):
        return Label(role, "root", f"another system prompt and another first message than call {main.first.call.index}")
    return _anew(one, summaries)


def _anew(one: _Conversation, summaries: Mapping[int, tuple[int, ...]]) -> Label:
    writers = summaries.get(one.first.call.index)
    return Label(why="begins anew") if writers is None else Label(sign="summary", why=f"begins anew with the summary of call {writers[-1]}")


def _opens_the_same(one: Request, other: Request) -> bool:
    return bool(one.system or one.user) and (one.system, one.user) == (other.system, other.user)


def _opens_otherwise(one: Request, other: Request) -> bool:
    if not (one.system or one.user) or not (other.system or other.user):
        return False  # it is not known how it opens
    return not (one.system and one.system == other.system) and not (one.user and one.user == other.user)


def _summaries(nodes: list[Node]) -> dict[int, tuple[int, ...]]:
    """The turns that begin with a summary, and the turns that wrote it: of those just before the only one whose text they are told, or
    several with one and the same text, as claude-code asks for its summary twice.

    Where other replies are told too, the history was written out in other words.
    """
    answers: dict[int, str] = {}
    found: dict[int, tuple[int, ...]] = {}
    for position, root in enumerate(nodes):
        if root.parent is not None or position == 0:
            continue
        recent = nodes[max(0, position - _RECENT) : position]
        answers |= {node.call.index: " ".join(answer(node.call).split()) for node in recent if node.call.index not in answers}
        writers = _writers(root, recent, answers)
        if len({answers[writer] for writer in writers}) == 1:
            found[root.call.index] = tuple(writers)
    return found


def _writers(root: Node, recent: list[Node], answers: Mapping[int, str]) -> list[int]:
    """The turns whose text this one is told. opencode and its forks tell it as the model's own first words, where other histories hold the
    agent's first turn: so a call without tools must have written it, after the last request with tools that opens with these words."""
    texts, words = told(root.call), root.request.words
    others = [node for node in recent if node.prompt is not root.prompt]
    last = max((place for place, node in enumerate(others) if node.request.tools and node.request.words == words), default=-1)
    found = []
    for place, node in enumerate(others):
        aside = place > last and root.request.tools and not node.request.tools
        if _is_told(answers[node.call.index], (*texts, words) if aside else texts):
            found.append(node.call.index)
    return found


def _is_told(text: str, texts: tuple[str, ...]) -> bool:
    """Whether the middle of this text is there, which survives when its frame is taken off."""
    start = (len(text) - SUMMARY) // 2
    return start >= 0 and any(text[start : start + SUMMARY] in part for part in texts)
