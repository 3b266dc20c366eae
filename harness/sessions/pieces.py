"""A turn as the pieces that a page is made of: what was said, then each call, note and thread under it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from harness.sessions.graph import Node, Session, Text


@dataclass(frozen=True)
class Caps:
    """How many characters of a turn, of a call's arguments and of its result a page shows."""

    turn: int = 2_000
    arguments: int = 400
    result: int = 600


@dataclass(frozen=True)
class Piece:
    """A heading and the texts under it, each with a label and a cap. ``depth`` is 0 for a turn and grows with what is called
    by what; ``number`` is the turn's place in the branch."""

    number: int
    depth: int
    kind: str
    heading: str
    texts: tuple[tuple[str, Text, int], ...] = ()
    node: str = ""
    ok: bool | None = None


@dataclass
class Turn:
    """A turn of the branch with its pieces; the first is what was said."""

    number: int
    pieces: list[Piece] = field(default_factory=list)


def turns(session: Session, branch: list[Node]) -> list[tuple[int, list[Node], Node]]:
    """(number, summaries before it, turn) for each turn of ``branch``; a summary has no number of its own, unless the
    branch is nothing else."""
    out: list[tuple[int, list[Node], Node]] = []
    before: list[Node] = []
    only = not any(n.kind == "turn" for n in branch)
    for node in branch:
        if node.kind == "turn" or only:
            out.append((len(out) + 1, before, node))
            before = []
        else:
            before.append(node)
    if before and out:  # a summary that nothing followed yet stands with the turn before it
        number, earlier, node = out[-1]
        out[-1] = (number, [*earlier, *before], node)
    return out


def pieces(session: Session, number: int, before: list[Node], turn: Node, caps: Caps, calls: bool) -> list[Piece]:
    """The pieces of one turn."""
    out = [Piece(number, 0, turn.kind, _heading(number, turn), (("", turn.output, caps.turn),), turn.id)]
    notes = [
        Piece(
            number,
            1,
            "summary",
            f"{one.label} (written by the client, not typed)",
            (("", one.output, caps.turn),),
            one.id,
        )
        for one in before
    ]
    first = [n for n in notes if n.node and _seq(session, n.node) < turn.seq]
    after = [n for n in notes if n not in first]
    if calls and number == 1:
        first = [*_leading(session, number, caps), *first]
    if calls:
        after += _under(session, turn, number, 1, caps, ())
    return [out[0], *first, *after]


def _leading(session: Session, number: int, caps: Caps) -> Iterator[Piece]:
    """What came before the first turn: it hangs on none."""
    for one in session.nodes:
        if one.kind == "turn" and not one.thread:
            return
        if one.caller is None and not one.thread and one.kind == "meta" and one.name != "hidden":
            yield Piece(number, 1, "note", one.label, (("", one.output, caps.result),) if one.output else (), one.id)
        elif one.caller is None and not one.thread and one.kind == "call":
            yield _call(one, number, 1, caps, session)


def _seq(session: Session, node_id: str) -> int:
    node = session.node(node_id)
    return node.seq if node else 0


def _heading(number: int, turn: Node) -> str:
    parts = [f"[{number}] {turn.role if turn.kind == 'turn' else turn.label}", turn.ts or "time unknown"]
    if turn.mended:
        parts.append("line mended")
    return "  ".join(parts)


def _under(
    session: Session, node: Node, number: int, depth: int, caps: Caps, chain: tuple[str, ...]
) -> Iterator[Piece]:
    """What was called by ``node``, and by that, in file order, each thread under the call that started it."""
    for one in session.called_by(node.id):
        if one.kind == "meta":
            if one.name != "hidden":
                yield Piece(
                    number, depth, "note", one.label, (("", one.output, caps.result),) if one.output else (), one.id
                )
            continue
        if one.kind == "spawn":
            yield Piece(number, depth, "spawn", one.label, (), one.id)
        else:
            yield _call(one, number, depth, caps, session)
            yield from _under(session, one, number, depth + 1, caps, chain)
        if one.child and one.child not in chain:
            yield from _thread(session, one.child, number, depth + 1, caps, (*chain, one.child))


def _call(call: Node, number: int, depth: int, caps: Caps, session: Session) -> Piece:
    state = {True: "ok", False: "FAILED", None: "no answer yet"}[call.ok]
    name = f"{call.name[:80]} {state}"
    if call.child:
        name += f", started subagent {call.child}"
        if call.child in session.missing:
            name += " (its file is missing)"
    texts = [("in", call.input, caps.arguments)] if call.input else []
    if call.output:
        texts.append(("out", call.output, caps.result))
    texts += [(f"answer {n}", extra, caps.result) for n, extra in enumerate(call.extra, 2)]
    return Piece(number, depth, "call", name, tuple(texts), call.id, call.ok)


def _thread(
    session: Session, thread: str, number: int, depth: int, caps: Caps, chain: tuple[str, ...]
) -> Iterator[Piece]:
    label = "side thread" if thread.startswith("side-") else f"subagent {' > '.join(chain)}"
    for turn in session.turns(thread):
        yield Piece(
            number,
            depth,
            "thread",
            f"{label}, {turn.role if turn.kind == 'turn' else turn.label}",
            (("", turn.output, caps.turn),),
            turn.id,
        )
        yield from _under(session, turn, number, depth + 1, caps, chain)
