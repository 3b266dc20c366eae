"""`run`: a skill's sidecar program, in a process of its own, with an eval row at its end."""

from __future__ import annotations

import os

import click

from harness.cli.common import json_option, print_json, workspace
from harness.store.commit import Store


@click.command("run", context_settings={"ignore_unknown_options": True})
@click.argument("skill")
@click.argument("args", nargs=-1, type=click.UNPROCESSED)
@click.option("--timeout", type=click.FloatRange(1), default=600, show_default=True, help="Seconds that it may take.")
@json_option
@click.pass_context
def run_command(ctx: click.Context, skill: str, args: tuple[str, ...], timeout: float, as_json: bool) -> int:
    """Run the program that comes with SKILL (scripts/run.py or scripts/run.sh), and log how it went.

    \b
    Example:
      harness run distill-approvals
    """
    from harness.flows import sidecar

    with Store(workspace(ctx)) as store:
        ran = sidecar.run(store, skill, args, os.environ, timeout)
    if as_json:
        print_json({"skill": ran.skill, "code": ran.code, "eval": ran.row, "output": ran.output})
    else:
        click.echo(ran.output, nl=not ran.output.endswith("\n"))
    return 0 if ran.code == 0 else 1
