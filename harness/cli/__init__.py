"""The command line. A command's module is imported when it is called, so that `--help` and `status` start fast."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Sequence
from typing import Any

import click

from harness import __version__
from harness.errors import FAILED, USAGE, HarnessError

# name -> (module, one line of help, on the first help page)
COMMANDS: dict[str, tuple[str, str, bool]] = {
    "init": ("setup", "Set up this project, once per project.", True),
    "scan": ("scan", "What your sessions say about your skills; before any install.", True),
    "status": ("status", "What waits, what is pending, what went wrong.", True),
    "log": ("history", "Lessons, newest first.", True),
    "show": ("history", "One lesson: message, diff and rows.", True),
    "why": ("history", "From a learned line back to its cause.", True),
    "undo": ("history", "Take a lesson back.", True),
    "review": ("review", "What waits for your yes, one at a time.", True),
    "tune": ("tune", "Propose one small edit after a reaction.", False),
    "lessons": ("review", "Approved edits and what they did.", False),
    "improve": ("review", "Tidy overlays; keep what a measure calls better.", False),
    "draft": ("draft", "Drafts, and a person's decision on them.", False),
    "taste": ("taste", "What was kept and dismissed, by skill and shape.", False),
    "hints": ("taste", "What decisions say about the next draft.", False),
    "evals": ("taste", "Scores of runs over time.", False),
    "run": ("run", "Run the program that comes with a skill.", False),
    "skills": ("skills", "A skill as the agent gets it.", False),
    "verify": ("verify", "Prove that every write in history passed the gate of its day.", True),
    "drain": ("loader", "Work in the logged gaps now.", True),
    "doctor": ("doctor", "Check the machine, the workspace and the hooks.", True),
    "uninstall": ("setup", "Take the hooks out again; files stay.", True),
    "where": ("setup", "Which workspace is used here, and why.", False),
    "settings": ("setup", "List the settings, or change one.", False),
    "feedback": ("loader", "Log what a skill's loader was missing.", False),
    "regen": ("loader", "The regeneration queue and its terms.", False),
    "observe": ("loader", "Take in what hooks and agents left; no model.", False),
    "sessions": ("sessions", "List, read and check agents' sessions.", False),
    "export": ("export", "Records that may leave the workspace, without personal data.", False),
    "gate": ("gate", "Judge staged changes by the policy (git's pre-commit hook).", False),
    "decide": ("decide", "Approve or reject a draft, on exactly the text that is shown.", False),
    "ledger": ("ledger", "Drafts for others: filed, approved, sent at most once, proved.", False),
    "demo": ("demo", "Play the loop in a scratch project, in a few seconds.", False),
    "completion": ("setup", "Print the shell completion script.", False),
    "help": ("help", "Help on a command, or on all of them.", False),
}

EPILOG = """\b
Examples:
  harness init                 set up the project you are in
  harness status               one screen: what waits and what is pending
  harness log --skill aeo      what was learned about one skill
  harness help --all           every command

\b
Exit codes: 0 done, 1 failed, 2 usage, 3 needs a person, 4 refused by the gate,
5 busy or deferred."""


class Lazy(click.Group):
    """A group whose commands live in modules of their own, imported when they run."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        cmd_name = {"revert": "undo"}.get(cmd_name, cmd_name)
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"harness.cli.{COMMANDS[cmd_name][0]}")
        command = getattr(module, f"{cmd_name}_command")
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS:
            import difflib

            near = difflib.get_close_matches(args[0], COMMANDS, 1)
            hint = f" Did you mean `harness {near[0]}`?" if near else " See `harness help --all`."
            ctx.fail(f"no command {args[0]!r}.{hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows = [(name, text) for name, (_, text, first) in COMMANDS.items() if first or ctx.meta.get("all")]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


@click.group(
    cls=Lazy, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(__version__, prog_name="harness")
@click.option("--workspace", metavar="DIR", help="Use this workspace instead of looking for one.")
@click.pass_context
def cli(ctx: click.Context, workspace: str | None) -> None:
    """Every lesson an agent learns is one small, validated git commit."""
    ctx.obj = {"workspace": workspace}


def run(args: Sequence[str]) -> int:
    """Run the command line with ``args`` and return the exit code; errors are one line on standard error."""
    as_json = "--json" in args
    try:
        result: Any = cli.main(args=list(args), prog_name="harness", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.Abort:
        click.echo("harness: stopped", err=True)
        return FAILED
    except click.ClickException as error:
        if as_json:
            click.echo(json.dumps({"error": {"code": USAGE, "message": error.format_message()}}))
        else:
            error.show()
        return USAGE
    except BrokenPipeError:
        # The reader of our output (`| head`) has gone; that is no failure. Nothing more may be flushed to it.
        sys.stdout = None
        return 0
    except HarnessError as problem:
        return _report(problem, as_json)
    except OSError as problem:
        from harness.store.files import explain

        return _report(explain(problem), as_json)


def _report(error: HarnessError, as_json: bool) -> int:
    """Say what went wrong, in one line or as JSON, and return its exit code."""
    if as_json:
        refusals = [r.as_dict() for r in getattr(error, "refusals", ())]
        fields: dict[str, Any] = {"code": error.exit_code, "kind": type(error).__name__}
        fields |= {"what": error.what, "why": error.why, "next": error.next}
        click.echo(json.dumps({"error": {**fields, **({"refusals": refusals} if refusals else {})}}))
    else:
        click.echo(f"harness: {error}", err=True)
    return error.exit_code
