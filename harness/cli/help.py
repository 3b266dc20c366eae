"""`harness help`: one command's help, or the whole list."""

from __future__ import annotations

import click

from harness.cli import COMMANDS, cli


@click.command("help")
@click.argument("command", required=False)
@click.option("--all", "everything", is_flag=True, help="Every command.")
@click.pass_context
def help_command(ctx: click.Context, command: str | None, everything: bool) -> None:
    """Help on COMMAND, or on all of them.

    \b
    Examples:
      harness help --all
      harness help drain
    """
    root = ctx.find_root()
    if command:
        if command not in COMMANDS:
            ctx.fail(f"no command {command!r}. See `harness help --all`.")
        found = cli.get_command(root, command)
        assert found is not None
        with click.Context(found, info_name=command, parent=root) as inner:
            click.echo(found.get_help(inner))
        return
    root.meta["all"] = everything
    click.echo(cli.get_help(root))
