"""A session as a graph: turns in chat order, calls under the turn that made them, threads of other agents under a call."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

from harness.sessions.account import Account

Role = Literal["user", "assistant", "tool"]
Kind = Literal["turn", "call", "summary", "spawn", "meta"]
KEEP: Final = 12_000
"""Characters of a text that are kept in memory; the rest is counted. Enough for several times the caps of a page."""


class Text(NamedTuple):
    """A text with its middle left out: the first and the last characters, and how many there were."""

    head: str = ""
    tail: str = ""
    size: int = 0

    @staticmethod
    def of(text: str, keep: int = KEEP) -> Text:
        """``text`` with at most ``keep`` characters kept."""
        if len(text) <= keep:
            return Text(text, "", len(text))
        return Text(text[: keep * 2 // 3], text[-(keep // 3) :], len(text))

    @property
    def left_out(self) -> int:
        """How many characters are gone."""
        return self.size - len(self.head) - len(self.tail)

    def __bool__(self) -> bool:
        return self.size > 0


NOTHING: Final = Text()


@dataclass(slots=True)
class Node:
    """One thing that happened.

    ``seq`` is its place in the file, the only order there is. ``predecessor`` is the turn before it in the chat, ``caller``
    the turn or call that made it: two edges, never mixed. ``label`` says what a meta node is; ``thread`` names the agent it
    belongs to ("" for the main one) and ``child`` the agent that a call started. ``ok`` is None while there is no answer.
    """

    id: str
    seq: int
    role: Role
    kind: Kind
    line: int
    predecessor: str | None = None
    caller: str | None = None
    name: str = ""
    label: str = ""
    input: Text = NOTHING
    output: Text = NOTHING
    extra: tuple[Text, ...] = ()
    ok: bool | None = None
    ts: str | None = None
    usage: dict[str, int] | None = None
    thread: str = ""
    child: str | None = None
    mended: bool = False


@dataclass
class Session:
    """What one session's files say. ``accounts`` holds the loss account of each file by its name."""

    id: str
    client: str
    path: str
    cwd: str = ""
    title: str = ""
    nodes: list[Node] = field(default_factory=list)
    accounts: dict[str, Account] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._by_id: dict[str, Node] = {}
        self._calls: dict[str, list[Node]] = {}
        self._indexed = -1

    def _index(self) -> None:
        if self._indexed != len(self.nodes):
            self._by_id = {n.id: n for n in self.nodes}
            self._calls = {}
            for node in self.nodes:
                if node.caller is not None:
                    self._calls.setdefault(node.caller, []).append(node)
            self._indexed = len(self.nodes)

    def node(self, node_id: str) -> Node | None:
        """The node ``node_id``, or None."""
        self._index()
        return self._by_id.get(node_id)

    def called_by(self, node_id: str) -> list[Node]:
        """The calls, notes and spawned threads whose caller is ``node_id``, in file order."""
        self._index()
        return self._calls.get(node_id, [])

    def turns(self, thread: str = "") -> Iterator[Node]:
        """The turns and summaries of a thread, in file order."""
        return (n for n in self.nodes if n.thread == thread and n.kind in ("turn", "summary"))

    def tips(self) -> list[Node]:
        """The last turn of each branch of the main thread, the active one last."""
        turns = list(self.turns())
        inner = {n.predecessor for n in turns}
        return [n for n in turns if n.id not in inner]

    @property
    def head(self) -> Node | None:
        """The active head: the turn of the main thread that was written last."""
        return next((n for n in reversed(self.nodes) if n.thread == "" and n.kind in ("turn", "summary")), None)

    def branch(self, head: str | None = None) -> list[Node]:
        """The turns and summaries from the root to ``head`` (default: the active head). KeyError for an unknown head."""
        self._index()
        node = self.head if head is None else self._by_id[head]
        out: list[Node] = []
        seen: set[str] = set()
        while node is not None and node.id not in seen:
            seen.add(node.id)
            out.append(node)
            node = self._by_id.get(node.predecessor or "")
        return out[::-1]

    def usage(self) -> Counter[str]:
        """Tokens by kind, over all threads; each reply counts once."""
        total: Counter[str] = Counter()
        for node in self.nodes:
            total.update(node.usage or {})
        return total

    def as_dict(self) -> dict[str, Any]:
        """What a list of sessions shows."""
        return {"id": self.id, "client": self.client, "path": self.path, "cwd": self.cwd, "title": self.title}
