"""agent: coding agents that remember by themselves: hooks, backfill, pausing."""

import shlex
from importlib.util import find_spec
from pathlib import Path

import click

from memory_actors.base.errors import InvalidInputError, MissingExtraError
from memory_actors.cli import options
from memory_actors.cli.mcp import (
    dry_run_option,
    may_change,
    place_in_configuration,
    yes_option,
)
from memory_actors.cli.options import App, Group, SharedCommand, pass_app
from memory_actors.cli.output import note, print_json, progress_bar, say
from memory_actors.cli.running import ensure_model, in_data_directory, opening, run
from memory_actors.integrations.coding_agents import pausing
from memory_actors.integrations.coding_agents.backfill import Backfilled, backfill
from memory_actors.integrations.coding_agents.hosts import HOSTS
from memory_actors.integrations.coding_agents.installing import (
    Command,
    has_claude,
    hooks_change,
    plugin_commands,
    plugin_directory,
    plugin_files,
    remove_plugin,
    run_claude,
    write_plugin,
)
from memory_actors.integrations.coding_agents.projects import project_of
from memory_actors.integrations.mcp import check_installed

PLUGIN_HOST = "claude-code"

host_argument = click.argument("host", type=click.Choice(list(HOSTS)))
everywhere_option = click.option(
    "--everywhere", is_flag=True, help="For all projects, not only the one in this directory."
)


@click.group(cls=Group, shared=options.OF_USER)
def agent() -> None:
    """Let coding agents remember by themselves.

    Hooks store the turns of each session, and bring back what answers a prompt. A project's memory
    is that of the user `project:HOST/PATH` of its repository. Needs the extra `agents`. Without
    --data the memory is in your data directory.
    """


@agent.command(cls=SharedCommand, shared=options.OF_USER)
@host_argument
@dry_run_option
@yes_option
@pass_app
def install(app: App, /, host: str, dry_run: bool, yes: bool) -> None:
    """Add the hooks and the MCP server to HOST: show the change, then make it."""
    check_installed()
    if find_spec("detect_secrets") is None:
        raise MissingExtraError("hooks need the extra: pip install 'memory-actors[agents]'")
    in_data_directory(app)
    command = Command(place_in_configuration(app), app.user_id)
    if not _carried_out(app, host, command, dry_run, yes):
        return
    ensure_model(app)
    if not app.json:
        note(f"The memory is in {command.data}.")
        note(f"{HOSTS[host].next_step}.")


@agent.command(cls=SharedCommand, shared=options.OF_NOTHING)
@host_argument
@dry_run_option
@yes_option
@pass_app
def uninstall(app: App, /, host: str, dry_run: bool, yes: bool) -> None:
    """Undo `install`. The memories stay."""
    _carried_out(app, host, None, dry_run, yes)


@agent.command("backfill", cls=SharedCommand, shared=options.OF_USER)
@click.argument("hosts", nargs=-1, type=click.Choice(list(HOSTS)))
@dry_run_option
@pass_app
def backfill_command(app: App, /, hosts: tuple[str, ...], dry_run: bool) -> None:
    """Store the sessions that HOSTS (default: all) keep on this machine, each message once.

    Interrupted, run it again: it goes on where it was.
    """
    in_data_directory(app)
    named = list(hosts) or list(HOSTS)

    async def whole() -> Backfilled:
        with progress_bar("Reading sessions", quiet=app.json) as moved:
            if dry_run:
                return await backfill(None, named, moved)
            async with opening(app) as memory:
                return await backfill(memory, named, moved)

    if not dry_run:
        ensure_model(app)
    done = run(whole)
    if app.json:
        print_json(done)
        return
    if dry_run:
        say(f"{done.sessions:,} sessions with {done.turns:,} turns would be read.")
    else:
        say(
            f"{done.sessions:,} sessions: {done.memories:,} memories and {done.episodes:,} episodes"
            " are new."
        )
    for project in done.projects:
        say(f"  {project}")
    if done.skipped:
        note(f"{len(done.skipped):,} transcripts could not be read: {done.skipped[0]}, …", "yellow")


@agent.command(cls=SharedCommand, shared=options.OF_NOTHING)
@everywhere_option
@pass_app
def pause(app: App, /, everywhere: bool) -> None:
    """Capture nothing in this project, and bring nothing back, until `resume`."""
    which = pausing.EVERYWHERE if everywhere else project_of(Path.cwd()).user_id
    _paused(app, pausing.paused() | {which})


@agent.command(cls=SharedCommand, shared=options.OF_NOTHING)
@everywhere_option
@pass_app
def resume(app: App, /, everywhere: bool) -> None:
    """Undo `pause`."""
    left = frozenset() if everywhere else pausing.paused() - {project_of(Path.cwd()).user_id}
    if pausing.EVERYWHERE in left:
        raise InvalidInputError("all projects are paused: say `resume --everywhere`")
    _paused(app, left)


def _paused(app: App, projects: frozenset[str]) -> None:
    pausing.pause(projects)
    if app.json:
        print_json({"paused": sorted(projects)})
    else:
        say("Paused: " + (", ".join(sorted(projects)) or "nothing") + ".")


def _carried_out(app: App, host: str, command: Command | None, dry_run: bool, yes: bool) -> bool:
    """Show the change, ask, and make it; say whether it is in force."""
    changes, commands = [], list[list[str]]()
    if host == PLUGIN_HOST:
        shown, commands = _of_plugin(command)
    else:
        changes = [one for one in hooks_change(host, command) if not one.is_none]
        shown = [change.diff for change in changes]
    is_change = bool(changes or commands)
    told = "\n".join(shown) or f"{HOSTS[host].title} is so already."
    written = may_change(app, told, is_change=is_change, dry_run=dry_run, yes=yes)
    failures: list[str] = []
    if written:
        for change in changes:
            change.write()
        if host == PLUGIN_HOST:
            failures = _change_plugin(command, commands)
    if app.json:
        print_json({"host": host, "changes": shown, "written": written, "failures": failures})
    elif written:
        for failure in failures:
            note(failure, "yellow")
        note(f"{HOSTS[host].title}: done.")
    return written or not (is_change or dry_run)


def _of_plugin(command: Command | None) -> tuple[list[str], list[list[str]]]:
    commands = plugin_commands(install=command is not None)
    shown = [f"  {shlex.join(one)}" for one in commands]
    if command is None:
        return ["Runs:", *shown, f"Removes {plugin_directory()}"], commands
    files = [f"  {path}" for path in plugin_files(command)]
    return [f"Writes the plugin {plugin_directory()}:", *files, "Runs:", *shown], commands


def _change_plugin(command: Command | None, commands: list[list[str]]) -> list[str]:
    """Add the plugin, or remove it (None); return what failed and is the user's to do."""
    if command is not None:
        write_plugin(command)
    failures = ["`claude` is not on the PATH: run these commands where it is."]
    if has_claude():
        failures = run_claude(commands)
    if command is None:
        remove_plugin()
    return failures
