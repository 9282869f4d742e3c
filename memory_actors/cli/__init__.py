"""The command line: `memory-actors`.

Exit codes: 0 done; 1 refused or failed; 2 the command line itself is wrong; 130 interrupted.
With `--json`, stdout holds one JSON document and nothing else (`export`, `improve` and
`context sync --watch`: JSON lines), and an error is one line:
`{"error": {"type": …, "message": …}}`.
"""

import gc
import io
import sys
import traceback
from collections import UserDict
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, Final, cast

from eventlog.core.lazy import collector_at_rest

with collector_at_rest():
    import click

    from eventlog import EventLogError
    from eventlog.files.datafile import advice
    from memory_actors.base.errors import MemoryActorsError
    from memory_actors.base.package import version
    from memory_actors.cli.options import OF_NEW, OF_NODE, App, Group
    from memory_actors.cli.output import print_error
    from memory_actors.cli.running import log_to_stderr

    gc.freeze()  # all of it stays until the end: the collector need not look through it again

__all__ = ["App", "main"]

REFUSED, USAGE, INTERRUPTED = 1, 2, 130
SENTENCE_MAX = 200
COMMANDS: Final[Mapping[str, Mapping[str, str]]] = {
    "Memories": {"memories": "add search list count get update delete delete-many restore"},
    "Review": {"memories": "pending approve reject"},
    "Other kinds of memory": {
        "kinds": "entity episode document",
        "context": "context",
        "memories": "extract extractions undo",
        "compaction": "compact compaction",
    },
    "Users and quotas": {
        "log": "users",
        "quotas": "usage cost tier grant revoke grants",
    },
    "Data protection": {
        "data_protection": "forget forgotten unforget hold release holds retention recalls erase "
        "purge",
    },
    "The past": {"log": "why replay diff history log"},
    "In and out": {"keeping": "import export"},
    "Serving": {"serve": "serve ui keys", "mcp": "mcp", "agent": "agent"},
    "The store": {
        "log": "stats verify",
        "keeping": "backup copy repair heads heads-key model",
        "doctor": "doctor",
    },
    "More": {"improve": "improve", "demo": "demo"},
}
"""The commands by the section of the help, and by the module that has them."""


class Commands(UserDict[str, Any]):
    """The commands by name. A module is imported when one of its commands is asked for.

    Importing all of them was a sixth of the time of a search.
    """

    def __getitem__(self, name: str) -> click.Command:
        with collector_at_rest():
            found = vars(import_module(f"{__name__}.{self.data[name]}")).values()
        return next(one for one in found if isinstance(one, click.Command) and one.name == name)

    def get(self, name: str, default: object = None) -> object:
        """Return a command. Raises a KeyError of its import, which Python 3.11 would hide."""
        return self[name] if name in self.data else default


MODULES: Final = {
    name: module
    for modules in COMMANDS.values()
    for module, names in modules.items()
    for name in names.split()
}


class Program(Group):
    """The whole program: a group of commands, and what becomes of their errors."""

    def format_commands(
        self,
        ctx: click.Context,  # noqa: ARG002 - click gives it
        formatter: click.HelpFormatter,
    ) -> None:
        """Write the commands by section, each with its first sentence."""
        for section, modules in COMMANDS.items():
            names = " ".join(modules.values()).split()
            rows = [(name, self.commands[name].get_short_help_str(SENTENCE_MAX)) for name in names]
            with formatter.section(section):
                formatter.write_dl(rows, col_max=14)

    def main(self, args: Sequence[str] | None = None, *rest: Any, **extra: Any) -> Any:
        """Run a command line and exit with its code."""
        arguments = list(sys.argv[1:] if args is None else args)
        app = extra.setdefault("obj", None) or App()
        extra |= {"obj": app, "standalone_mode": False}
        # Replace what the terminal's encoding lacks, instead of failing on it.
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="replace")
        log_to_stderr()
        try:
            code = super().main(arguments, *rest, **extra)
        except Exception as error:
            app.json = app.json or "--json" in arguments
            code = _report(error, app)
        sys.exit(code if isinstance(code, int) else 0)


def _report(error: Exception, app: App) -> int:
    """Say what went wrong; return the exit code."""
    if app.debug:
        traceback.print_exception(error)
    if isinstance(error, click.Abort):
        print_error("Interrupted", "interrupted", as_json=app.json)
        return INTERRUPTED
    if isinstance(error, click.exceptions.NoArgsIsHelpError) and not app.json:
        click.echo(error.format_message())
        return USAGE
    if isinstance(error, click.UsageError):
        path = error.ctx.command_path if error.ctx is not None else "memory-actors"
        said = f"{error.format_message()}\nSee `{path} --help`."
        print_error("UsageError", said, as_json=app.json)
        return USAGE
    kind, said = type(error).__name__, str(error)
    if not isinstance(error, MemoryActorsError | EventLogError):
        how = f"unexpected {kind}: {said}. Run it again with --debug, and report what it prints"
        said = f"{said}{advice(error)}" if advice(error) else how
    print_error(kind, said, as_json=app.json)
    return REFUSED


def _say_version(context: click.Context, _option: click.Parameter, asked: bool) -> None:
    if asked:
        click.echo(f"{context.find_root().info_name}, version {version()}")
        context.exit()


@click.group(
    cls=Program, commands=cast("Any", Commands(MODULES)), shared=(*OF_NEW, *OF_NODE), hidden=OF_NODE
)
@click.option(
    "--version", is_flag=True, expose_value=False, is_eager=True, callback=_say_version,
    help="Show the version and exit.",
)  # fmt: skip
def main() -> None:
    """Long-term memory for AI agents: add, search, audit.

    Options go before or behind the command's name; each command takes those of keys and of the
    model, too. Exit codes: 0 done, 1 refused or failed, 2 wrong command line.
    """
