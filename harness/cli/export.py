"""`export`: what was learned, as records that may leave the workspace."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

from harness.cli.common import json_option, print_json, shown, workspace
from harness.errors import HarnessError
from harness.flows.export import FIELDS, Report, export
from harness.store import files
from harness.store.commit import Store


@click.command("export")
@click.argument("ledgers", nargs=-1, metavar="[LEDGER]...")
@click.option(
    "--output",
    "-o",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write to this file; default: standard output.",
)
@click.option("--force", is_flag=True, help="Replace the file when it exists.")
@click.option("--with-text", is_flag=True, help="Free text too, with personal data taken out.")
@click.option("--name", "names", multiple=True, metavar="NAME", help="A further name to take out; may be given again.")
@click.option("--report", "reported", is_flag=True, help="Say what was held back and taken out, by class.")
@json_option
@click.pass_context
def export_command(
    ctx: click.Context,
    ledgers: tuple[str, ...],
    output: Path | None,
    force: bool,
    with_text: bool,
    names: tuple[str, ...],
    reported: bool,
    as_json: bool,
) -> None:
    """Records of the ledgers, one JSON object a line, without sessions, paths, operators or free text.

    Ledgers: feedback, runs, verdicts, scorecards, predictions, evals, taste-hints; all of them when none is named. Read what
    you give away: names that the workspace doesn't know can't be taken out of free text. With --json one document: rows (unless
    they go to a file) and the report.

    \b
    Examples:
      harness export --report > lessons.ndjson
      harness export feedback scorecards --with-text --name "Ada Byron" -o lessons.ndjson
    """
    report = Report()
    with Store(workspace(ctx)) as store:
        records = export(store, ledgers or tuple(FIELDS), report, with_text=with_text, extra=names)
        if output is not None:
            _write(output, records, force)
        elif as_json:
            rows = list(records)
            print_json({"rows": rows, "report": report.as_dict()})
            return
        else:
            for record in records:
                click.echo(_line(record))
    if as_json:
        print_json({"output": str(output), "report": report.as_dict()})
    elif reported or output is not None:
        _say(report, brief=not reported)


def _line(record: dict[str, Any]) -> str:
    return json.dumps(record, ensure_ascii=False)


def _write(output: Path, records: Iterable[dict[str, Any]], force: bool) -> None:
    """All of it or nothing, readable by its owner alone."""
    if os.path.lexists(output) and not force:
        raise HarnessError(
            f"{output} exists", "an export never replaces a file unasked", "name another file, or give --force"
        )
    try:
        handle, name = tempfile.mkstemp(prefix=f".{output.name}.", dir=output.parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
                for record in records:
                    file.write(_line(record) + "\n")
            os.replace(name, output)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise files.explain(error) from error


def _say(report: Report, *, brief: bool) -> None:
    """The report for a person, on standard error: the rows may be on standard output."""
    found = report.as_dict()
    click.echo(
        f"{sum(report.rows.values())} records: "
        + (", ".join(f"{n} {name}" for name, n in report.rows.items()) or "none"),
        err=True,
    )
    if report.unread:
        click.echo(f"{sum(report.unread.values())} lines that are no rows were left out", err=True)
    if brief:
        return
    taken = ", ".join(f"{n} {name}" for name, n in found["removed"].items()) or "nothing"
    click.echo(f"taken out as personal data ({found['known_names']} names known): {taken}", err=True)
    for ledger, fields in found["held_back"].items():
        click.echo(
            f"held back of {ledger}: " + ", ".join(f"{shown(name)} ({n})" for name, n in fields.items()), err=True
        )
