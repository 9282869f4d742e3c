"""agent: coding agents that remember by themselves: hooks, backfill, pausing."""

import shlex
from importlib.util import find_spec
from pathlib import Path

import click

from memory_actors.base.errors import InvalidInputError, MissingExtraError
from memory_actors.cli import options
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
dry_run_option = click.option("--dry-run", is_flag=True, help="Only show what would be done.")
yes_option = click.option("--yes", is_flag=True, help="Write without asking.")
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
    command = Command(app.url or str(app.directory.absolute()), app.user_id)
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
    """Show the change, ask, and make it; return True if it was made."""
    if host == PLUGIN_HOST:
        shown, commands = _of_plugin(command)
        changes = []
    else:
        changes = [one for one in hooks_change(host, command) if not one.is_none]
        shown, commands = [change.diff for change in changes], []
    if not app.json:
        say("\n".join(shown) or f"{HOSTS[host].title} is so already.")
    written = not dry_run and bool(changes or commands)
    if written:
        if not yes and not app.json:
            click.confirm("Do this?", abort=True)
        for change in changes:
            change.write()
        if host == PLUGIN_HOST:
            _change_plugin(app, command, commands)
    if app.json:
        print_json({"host": host, "changes": shown, "written": written})
    elif written:
        note(f"{HOSTS[host].title}: done.")
    return written


def _of_plugin(command: Command | None) -> tuple[list[str], list[list[str]]]:
    commands = plugin_commands(install=command is not None)
    shown = [f"  {shlex.join(one)}" for one in commands]
    if command is None:
        return ["Runs:", *shown, f"Removes {plugin_directory()}"], commands
    files = [f"  {path}" for path in plugin_files(command)]
    return [f"Writes the plugin {plugin_directory()}:", *files, "Runs:", *shown], commands


def _change_plugin(app: App, command: Command | None, commands: list[list[str]]) -> None:
    if command is not None:
        write_plugin(command)
    if has_claude():
        run_claude(commands)
    elif not app.json:
        note("`claude` is not on the PATH: run these commands where it is.", "yellow")
    if command is None:
        remove_plugin()
