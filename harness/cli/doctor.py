"""`doctor`: is everything in place? Each question is answered by trying."""

from __future__ import annotations

import os

import click

from harness.cli.common import json_option, print_json, shown, workspace


@click.command("doctor")
@click.option(
    "--fix",
    is_flag=True,
    help="Repair what is safe to repair: our hooks, our files, the snapshot. Never a user's lock.",
)
@json_option
@click.pass_context
def doctor_command(ctx: click.Context, fix: bool, as_json: bool) -> int:
    """Check the machine, the repository, each clause of the commit contract (in a scratch clone), the client's settings, and
    each installed hook (fired with a recorded payload, in a scratch folder). Changes nothing without --fix. Exit code 1 when
    something is wrong.

    \b
    Examples:
      harness doctor
      harness doctor --json
      harness doctor --fix
    """
    from harness.flows import checkup

    if fix:
        for line in checkup.repair(workspace(ctx)):
            click.echo(f"fixed  {shown(line)}", err=as_json)
    made = []
    colour = {"ok": "green", "note": "yellow", "wrong": "red"}
    for check in checkup.checkup(workspace(ctx), os.environ):
        made.append(check)
        if not as_json:
            mark = click.style(f"{check.verdict:<5}", fg=colour[check.verdict])
            click.echo(f"{mark}  {check.group:<10}  {check.name:<32}  {shown(check.found)}")
            if check.next:
                click.echo(f"       next: {shown(check.next)}")
    wrong = sum(check.verdict == "wrong" for check in made)
    if as_json:
        print_json(checkup.as_json(made))
    else:
        click.echo(f"{len(made)} checks, {wrong} wrong" if wrong else f"{len(made)} checks, all in place")
    return 1 if wrong else 0
