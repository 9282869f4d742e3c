"""doctor: whether everything is there that the memory needs, and what to do if not."""

import click

from memory_actors.cli import options
from memory_actors.cli.checks import Check, checks
from memory_actors.cli.options import App, Command, pass_app
from memory_actors.cli.output import print_json, print_table, say, table, text

MARKS = {"ok": ("✓", "green"), "warning": ("!", "yellow"), "failed": ("✗", "red")}


@click.command(cls=Command, shared=options.OF_STORE)
@pass_app
def doctor(app: App, /) -> None:
    """Check Python, the model, the data directory and the disk. Changes nothing."""
    made = list(checks(app.directory))
    failed = sum(check.status == "failed" for check in made)
    if app.json:
        print_json({"ok": not failed, "checks": made})
    else:
        _print_checks(made)
        say("Everything is in order." if not failed else f"{failed} to put right.")
    if failed:
        raise click.exceptions.Exit(1)


def _print_checks(made: list[Check]) -> None:
    shown = table("", "check", "found")
    for check in made:
        found = text(check.found)
        if check.advice:
            found += text(f"\n→ {check.advice}", "bold")
        shown.add_row(text(*MARKS[check.status]), check.name, found)
    print_table(shown)
