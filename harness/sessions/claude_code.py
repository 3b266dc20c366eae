"""Claude Code's sessions: ``projects/*/<id>.jsonl`` and the subagents' files beside it.

A reply is written one line a content block; the blocks of one ``message.id`` are one turn. Lines are linked by ``uuid`` and
``parentUuid``; the links between turns are found by following them across results, attachments and other lines that are no
turns. After a compaction the client may append old lines again, with the same uuids or with new ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from harness.sessions import claude_text as text_of
from harness.sessions.account import Account
from harness.sessions.build import Builder, duplicate, numbers, when
from harness.sessions.graph import KEEP, Node, Session
from harness.sessions.lines import Record, records

CLIENT: Final = "claude-code"
_KEYS: Final = frozenset({"uuid", "parentUuid", "sessionId", "leafUuid", "snapshot", "operation"})
_IN_INDEX = re.compile(r'"sessionId"\s*:\s*"([\w-]{1,100})"')
# Lines of the client's own book-keeping: nothing of the conversation is in them.
_BOOKS: Final = frozenset(
    {
        "queue-operation", "last-prompt", "tools-used", "cost-state", "mode", "permission-mode", "file-history-snapshot", "atis-latch",
        "api-request", "api-request-blob", "api-request-shape", "progress", "summary", "custom-title", "ai-title",
    }
)  # fmt: skip


def roots(env: Mapping[str, str]) -> list[Path]:
    """``$CLAUDE_CONFIG_DIR/projects``, and ``~/.claude/projects``."""
    out = [Path(env["CLAUDE_CONFIG_DIR"]) / "projects"] if env.get("CLAUDE_CONFIG_DIR") else []
    home = Path(env.get("HOME") or Path.home()) / ".claude/projects"
    return [*out, *([home] if home not in out else [])]


def sessions(root: Path) -> Iterator[Path]:
    """The session files below ``root``, by listing the folders: an index may be stale."""
    for project in sorted(root.iterdir()):
        if project.is_dir():
            try:
                yield from sorted(p for p in project.glob("*.jsonl") if p.is_file())
            except OSError:
                continue


def gone(root: Path) -> list[str]:
    """The ids that the client's own index (a hint, often stale) names and that have no file beside it."""
    out = []
    for index in sorted(root.glob("*/sessions-index.json")):
        try:
            named = _IN_INDEX.findall(index.read_text("utf-8", "replace"))
        except OSError:
            continue
        out += [name for name in dict.fromkeys(named) if not (index.parent / f"{name}.jsonl").exists()]
    return out


def fits(data: Mapping[str, Any]) -> bool:
    """Whether ``data`` is a line of a session."""
    return isinstance(data.get("type"), str) and not _KEYS.isdisjoint(data) and "payload" not in data


def is_record(data: dict[str, Any]) -> bool:
    """Whether an object inside a broken line is a line of its own rather than a part of one."""
    if not fits(data):
        return False
    own = "uuid" in data and ("message" in data or "attachment" in data or "subtype" in data)
    return own or ("sessionId" in data and ("timestamp" in data or "leafUuid" in data))


def read(path: Path, keep: int = KEEP) -> Session:
    """The session in ``path`` with its subagents' files. Raises NotATranscript and OSError."""
    session = Session(id=path.stem, client=CLIENT, path=str(path))
    builder = Builder(session, keep)
    state = _State(session, builder)
    account = session.accounts[path.name] = Account()
    for record in records(path, is_record, account):
        state.take(record, account, "")
    state.mend(account)
    for sub in subagents(path):
        account = session.accounts[f"subagents/{sub.name}"] = Account()
        agent = sub.stem.removeprefix("agent-")
        for record in records(sub, is_record, account):
            state.take(record, account, agent)
        state.mend(account)
    _spawned(session)
    return session


def subagents(path: Path) -> list[Path]:
    """The files of the agents that the session in ``path`` started."""
    folder = path.with_suffix("") / "subagents"
    if not folder.is_dir():
        folder = path.with_suffix(".subagents")  # how an exported session keeps them beside it
    return sorted(folder.rglob("agent-*.jsonl")) if folder.is_dir() else []


class _State:
    """What must be remembered while lines go by: ids alone."""

    def __init__(self, session: Session, builder: Builder) -> None:
        self.session, self.builder = session, builder
        self.anchor: dict[str, Node | None] = {}  # uuid of a line -> the turn it leads to
        self.thread: dict[str, str] = {}  # uuid of a side line -> its thread
        self.replies: dict[str, Node] = {}  # message.id -> its turn
        self.blocks: set[tuple[str, str, int]] = set()  # what a reply's blocks say, to know one that comes again
        self.prompts: dict[tuple[str, str, int], Node] = {}
        self.waiting: list[tuple[str, str, int, Node | None]] = []  # lines whose parent has not come
        self.links: dict[str, tuple[int, Any]] = {}  # uuid -> its line and its parent

    # --- one line ----------------------------------------------------------------------------------------------

    def take(self, record: Record, account: Account, agent: str) -> None:
        data, line = record.data, record.line
        kind, uuid = data.get("type"), data.get("uuid")
        if not isinstance(uuid, str):
            uuid = None
        else:
            if uuid in self.anchor:
                duplicate(account, line)
                return
            self.links[uuid] = (line, data.get("parentUuid"))
        if not isinstance(kind, str):
            account.odd["no type"] += 1
            return
        if not self.session.cwd and isinstance(data.get("cwd"), str):
            self.session.cwd = data["cwd"]
        if kind in _BOOKS:
            title = data.get("title") or data.get("customTitle")
            if kind in ("custom-title", "ai-title") and isinstance(title, str):
                self.session.title = title
            if uuid is None:
                return
        thread = agent if agent or data.get("isSidechain") is not True else self._thread(data, uuid)
        parent = data.get("parentUuid")
        before = self.anchor.get(parent) if isinstance(parent, str) and parent != uuid else None
        if before is None or before.thread != thread:
            before = self._before(data, uuid, line, thread, account)
        node: Node | None = before
        if kind == "assistant":
            node = self._assistant(record, thread, before, account)
        elif kind == "user":
            node = self._user(record, thread, before, account)
        elif kind == "attachment":
            self._attachment(data, line, thread, before)
        elif kind == "system":
            self._system(data, line, thread, before)
        elif kind not in _BOOKS:
            account.odd[f"type {kind[:40]}"] += 1
            self._note(before, line, thread, f"record of type {kind[:40]}", "", hidden=True)
        if uuid is not None:
            self.anchor[uuid] = node

    def _thread(self, data: dict[str, Any], uuid: str | None) -> str:
        """The thread of a side line in the main file: the agent's id, or for old clients the first line of it."""
        given = data.get("agentId")
        parent = data.get("parentUuid")
        thread = (
            given
            if isinstance(given, str) and given
            else self.thread.get(parent, "")
            if isinstance(parent, str)
            else ""
        )
        thread = thread or f"side-{(uuid or 'x')[:8]}"
        if uuid is not None:
            self.thread[uuid] = thread
        return thread

    def _before(self, data: dict[str, Any], uuid: str | None, line: int, thread: str, account: Account) -> Node | None:
        """The turn that a line follows in the chat."""
        last = self.builder.last_turn(thread)
        parent = data.get("parentUuid")
        if isinstance(parent, str) and parent:
            if parent == uuid:
                account.notes.append(f"line {line}: it is its own parent (a circle); put behind the turn before it")
                return last
            if parent in self.anchor:
                found = self.anchor[parent]
                return found if found is None or found.thread == thread else last or self._joint(found, thread)
            self.waiting.append((uuid or "", parent, line, last))
            return last
        if data.get("type") == "system" and data.get("subtype") == "compact_boundary":
            logical = data.get("logicalParentUuid")
            return (self.anchor.get(logical) if isinstance(logical, str) else None) or last
        if "parentUuid" not in data or data.get("type") != "user" or data.get("isMeta") is True:
            return last
        return None  # a prompt without a parent begins the conversation anew: what was before is another branch

    def _joint(self, found: Node, thread: str) -> Node | None:
        """Between threads no turn follows another; the main thread goes on where it was."""
        return None if thread else self.builder.last_turn("")

    # --- what people and models say ------------------------------------------------------------------------------

    def _assistant(self, record: Record, thread: str, before: Node | None, account: Account) -> Node | None:
        data, line = record.data, record.line
        message = text_of.message(data, account)
        if message is None:
            return before
        content = text_of.content(message, account)
        if content is None:
            return before
        given = message.get("id")
        key = f"{thread} {given}" if isinstance(given, str) else None
        turn = self.replies.get(key) if key else None
        fresh = [b for b in content if not key or self._new(key, data.get("timestamp"), b)]
        if turn is not None and content and not fresh:
            duplicate(account, line)
            return turn
        # An id that comes again somewhere else in the conversation is another reply: not every server's ids are unique.
        if turn is not None and before is not turn and turn is not self.builder.last_turn(thread):
            turn = None
        if turn is None:
            uuid = data.get("uuid")
            turn = self.builder.add(
                "assistant", "turn", line, uuid if isinstance(uuid, str) else "", predecessor=before.id if before else None, thread=thread,
                ts=when(data.get("timestamp")), usage=numbers(message.get("usage")), mended=record.mended,
            )  # fmt: skip
            if key:
                self.replies[key] = turn
        for block in fresh:
            self._block(block, turn, line, thread, account)
        return turn

    def _new(self, key: str, ts: Any, block: Any) -> bool:
        """Whether a reply says ``block`` for the first time; one with the same time is a line written again."""
        if isinstance(block, dict):
            said = block.get("id") if block.get("type") == "tool_use" else block.get("text")
            mark = hash(said if isinstance(said, str) else repr(block))
        else:
            mark = hash(repr(block))
        known = (key, ts if isinstance(ts, str) else "", mark)
        if known in self.blocks:
            return False
        self.blocks.add(known)
        return True

    def _user(self, record: Record, thread: str, before: Node | None, account: Account) -> Node | None:
        data, line = record.data, record.line
        message = text_of.message(data, account)
        content = text_of.content(message, account) if message is not None else None
        if content is None:
            return before
        results = [b for b in content if isinstance(b, dict) and b.get("type") == "tool_result"]
        for block in results:
            self._result(block, data, line, thread, before)
        said = [b for b in content if b not in results] if results else content
        text = "\n".join(t for t in (text_of.said(b, account) for b in said) if t)
        if not text or text.isspace():
            return before
        ts, uuid = when(data.get("timestamp")), data.get("uuid") if isinstance(data.get("uuid"), str) else ""
        more: dict[str, Any] = {"thread": thread, "ts": ts, "mended": record.mended}
        if data.get("isCompactSummary") is True:
            return self._summary(text, line, uuid or "", before, more)
        text, label = text_of.typed(text)
        if data.get("isMeta") is True or label:
            self._note(before, line, thread, label or text_of.meta_label(data), text)
            return before
        key = (str(data.get("promptId")), str(data.get("timestamp")), hash(text))
        if key in self.prompts and data.get("timestamp") and key[0] != "None":
            duplicate(account, line)
            return self.prompts[key]
        turn = self.builder.add(
            "user",
            "turn",
            line,
            uuid or "",
            predecessor=before.id if before else None,
            output=self.builder.text(text),
            **more,
        )
        self.prompts[key] = turn
        if not self.session.title and not thread:
            self.session.title = " ".join(text[:400].split())[:80]
        return turn

    def _summary(self, text: str, line: int, uuid: str, before: Node | None, more: dict[str, Any]) -> Node:
        stands_for = sum(n.kind == "turn" for n in self.session.branch(before.id)) if before else 0
        return self.builder.add(
            "user", "summary", line, uuid, predecessor=before.id if before else None, output=self.builder.text(text),
            label=f"summary of the {stands_for} turns before it" if stands_for else "summary of earlier turns", **more,
        )  # fmt: skip

    def _block(self, block: Any, turn: Node, line: int, thread: str, account: Account) -> None:
        if isinstance(block, dict) and block.get("type") in ("tool_use", "server_tool_use"):
            tool_id, name = block.get("id"), block.get("name")
            self.builder.call(
                turn, line, tool_id if isinstance(tool_id, str) else "", name if isinstance(name, str) else "unnamed tool",
                block.get("input"), thread=thread,
            )  # fmt: skip
            return
        self.builder.more(turn, text_of.said(block, account))

    def _result(self, block: dict[str, Any], data: dict[str, Any], line: int, thread: str, before: Node | None) -> None:
        tool_id = block.get("tool_use_id")
        extra = data.get("toolUseResult")
        output = text_of.output(block.get("content"))
        failed = block.get("is_error") is True or (isinstance(extra, str) and extra.startswith("Error"))
        if isinstance(extra, dict):
            failed = (
                failed
                or extra.get("interrupted") is True
                or (isinstance(extra.get("exitCode"), int) and extra["exitCode"] != 0)
            )
        node = self.builder.result(
            tool_id if isinstance(tool_id, str) else "", line, output, not failed, before, thread=thread
        )
        child = extra.get("agentId") if isinstance(extra, dict) else None
        if isinstance(child, str) and child:
            node.child = child

    # --- what others put in ---------------------------------------------------------------------------------------

    def _attachment(self, data: dict[str, Any], line: int, thread: str, before: Node | None) -> None:
        given = data.get("attachment")
        if not isinstance(given, dict):
            return
        kind = str(given.get("type"))
        if not kind.startswith(("hook_", "async_hook")):
            self._note(before, line, thread, f"attachment {kind[:40]}", "", hidden=True)
            return
        hook = given.get("hookName") or given.get("hookEvent") or ""
        text = text_of.hook_text(given)
        shown = bool(text) or kind in ("hook_cancelled", "hook_stopped_continuation")
        what = kind.replace("_", " ")
        self._note(before, line, thread, f"{what}, {hook}" if hook else what, text, hidden=not shown)

    def _system(self, data: dict[str, Any], line: int, thread: str, before: Node | None) -> None:
        kind = str(data.get("subtype") or "")
        if kind == "compact_boundary":
            meta = data.get("compactMetadata")
            trigger = meta.get("trigger") if isinstance(meta, dict) else None
            self._note(
                before, line, thread, f"the client compacted the conversation ({trigger or 'unknown trigger'})", ""
            )
        elif kind == "stop_hook_summary":
            errors = data.get("hookErrors")
            texts = [text_of.as_text(e) for e in errors] if isinstance(errors, list) else []
            self._note(
                before, line, thread, "hook errors at the stop", "\n".join(t for t in texts if t), hidden=not any(texts)
            )
        else:
            content = data.get("content")
            text = content if isinstance(content, str) else ""
            self._note(
                before,
                line,
                thread,
                f"client, {kind[:40] or 'system'}",
                text,
                hidden=not text or kind == "turn_duration",
            )

    def _note(self, turn: Node | None, line: int, thread: str, label: str, text: str, *, hidden: bool = False) -> None:
        """A meta node under the turn it follows. Hidden ones are in the dump alone."""
        caller = turn or self.builder.last_turn(thread)
        self.builder.add(
            "tool", "meta", line, caller=caller.id if caller else None, label=label, output=self.builder.text(text), thread=thread,
            name="hidden" if hidden else "",
        )  # fmt: skip

    # --- links ------------------------------------------------------------------------------------------------------

    def mend(self, account: Account) -> None:
        """Say what became of the lines whose parent had not come when they were read."""
        missing = 0
        for uuid, parent, line, _ in self.waiting:
            if parent not in self.anchor:
                missing += 1
                if missing <= 20:
                    account.notes.append(f"line {line}: its parent is not in the file; put behind the turn before it")
            elif self._circle(uuid, parent):
                account.notes.append(
                    f"line {line}: its parent, line {self.links[parent][0]}, descends from it (a circle); put in file order"
                )
            else:
                account.notes.append(
                    f"line {line}: its parent comes later, in line {self.links[parent][0]}; put in file order"
                )
        if missing > 20:
            account.notes.append(f"{missing - 20} more lines without their parents")
        self.waiting = []

    def _circle(self, uuid: str, parent: str) -> bool:
        seen: set[str] = set()
        at: str | None = parent
        while at is not None and at not in seen:
            if at == uuid:
                return True
            seen.add(at)
            above = self.links.get(at, (0, None))[1]
            at = above if isinstance(above, str) else None
        return False


def _spawned(session: Session) -> None:
    """Tie each thread to the call that started it; what starts nowhere hangs on the turn before it and is named."""
    calls = {n.child: n for n in session.nodes if n.kind == "call" and n.child}
    threads = dict.fromkeys(n.thread for n in session.nodes if n.thread)
    for thread in threads:
        start = next(n for n in session.nodes if n.thread == thread)
        call = calls.get(thread)
        if call is None:
            before = [n for n in session.nodes if n.thread == "" and n.kind == "turn"]
            earlier = [n for n in before if n.seq < start.seq]
            caller = earlier[-1] if earlier else before[-1] if before else None
            label = (
                "side thread"
                if thread.startswith("side-")
                else f"subagent {thread}, started by a call that is not in the files"
            )
            spawn = Node(
                id=f"spawn:{thread}", seq=start.seq, role="tool", kind="spawn", line=start.line, caller=caller.id if caller else None,
                name=thread, label=label, child=thread,
            )  # fmt: skip
            session.nodes.append(spawn)
    for child in calls:
        if child not in threads:
            session.missing.append(child)
