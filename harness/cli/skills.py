"""`skills`: what an agent is given when it uses a skill."""

from __future__ import annotations

import os

import click

from harness.cli.common import json_option, print_json, shown, workspace
from harness.store.commit import Store


@click.group("skills")
def skills_command() -> None:
    """Look at skills.

    \b
    Example:
      harness skills show aeo --effective
    """


@skills_command.command("show")
@click.argument("name", metavar="SKILL")
@click.option("--effective", is_flag=True, help="Base and overlay together, as the agent gets them.")
@json_option
@click.pass_context
def show_command(ctx: click.Context, name: str, effective: bool, as_json: bool) -> None:
    """A skill's base, and what was learned about it; each overlay line with where it comes from.

    \b
    Examples:
      harness skills show aeo
      harness skills show aeo --effective
    """
    from harness.flows import effective as flow

    with Store(workspace(ctx)) as store:
        store.catch_up()
        skill = flow.effective(store, name, os.environ)
    if as_json:
        print_json(skill.as_dict())
    elif effective:
        click.echo(shown(skill.text), nl=False)
    else:
        click.echo(f"{skill.name}: base {skill.base_path or '(none)'}")
        for line in skill.lines:
            click.echo(f"  {line.origin:6}  {line.commit:8}  {shown(line.text)}")
        if not skill.lines:
            click.echo("  no overlay")
