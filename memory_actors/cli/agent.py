"""agent: coding agents that remember by themselves: hooks, backfill, pausing."""

import click

from memory_actors.base.errors import InvalidInputError
from memory_actors.cli import options
from memory_actors.cli.mcp import carried_out, dry_run_option, place_in_configuration, yes_option
from memory_actors.cli.options import App, Group
from memory_actors.cli.output import note, print_json, progress_bar, say
from memory_actors.cli.running import ensure_model, in_data_directory, opening, run
from memory_actors.integrations.coding_agents import hook_state, projects
from memory_actors.integrations.coding_agents.capturing import Backfilled, backfill
from memory_actors.integrations.coding_agents.hook import HookCommand
from memory_actors.integrations.coding_agents.hosts import HOSTS
from memory_actors.integrations.coding_agents.installing import changes_of
from memory_actors.integrations.mcp import check_installed
from memory_actors.integrations.mcp.clients import CLIENTS
from memory_actors.sharing.address import has_password, server_url

CAPTURED = [name for name, host in HOSTS.items() if host.reader]

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


@options.command(group=agent, shared=options.OF_USER)
@host_argument
@click.option(
    "--team",
    metavar="URL",
    help="The server that has the memory of projects, for all who work there.",
)
@dry_run_option
@yes_option
def install(app: App, /, host: str, team: str | None, dry_run: bool, yes: bool) -> None:
    """Add the hooks and the MCP server to HOST: show the change, then make it.

    The key of a --team server is in MEMORY_ACTORS_API_KEY, or in ~/.config/memory-actors/api-key,
    which only you may read.
    """
    check_installed()
    in_data_directory(app)
    if team is not None and (server_url(team) is None or has_password(team)):
        raise InvalidInputError(
            "--team takes the http:// or https:// URL of a server, without a key"
        )
    command = HookCommand(place_in_configuration(app), app.user_id, team or "")
    if not _carried_out(app, host, command, dry_run, yes):
        return
    ensure_model(app)
    if not app.json:
        note(f"The memory is in {command.data}.")
        note(f"{HOSTS[host].next_step or CLIENTS[host].next_step}.")


@options.command(group=agent, shared=options.OF_NOTHING)
@host_argument
@dry_run_option
@yes_option
def uninstall(app: App, /, host: str, dry_run: bool, yes: bool) -> None:
    """Undo `install`. The memories stay."""
    _carried_out(app, host, None, dry_run, yes)


@options.command("backfill", agent, shared=options.OF_USER)
@click.argument("hosts", nargs=-1, type=click.Choice(CAPTURED))
@click.option("--dry-run", is_flag=True, help="Only count.")
def backfill_command(app: App, /, hosts: tuple[str, ...], dry_run: bool) -> None:
    """Store the sessions that HOSTS (default: all) keep on this machine, each message once.

    Interrupted, run it again: it goes on where it was.
    """
    in_data_directory(app)
    named = list(hosts) or CAPTURED

    async def whole() -> Backfilled:
        with progress_bar("Reading sessions", quiet=app.json) as progress:
            if dry_run:
                return await backfill(None, named, progress)
            async with opening(app) as memory:
                return await backfill(memory, named, progress)

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


@options.command(group=agent, shared=options.OF_NOTHING)
@everywhere_option
def pause(app: App, /, everywhere: bool) -> None:
    """Capture nothing in this project, and bring nothing back, until `resume`."""
    which = hook_state.EVERYWHERE if everywhere else projects.project_of(".").user_id
    _paused(app, _paused_now() | {which})


@options.command(group=agent, shared=options.OF_NOTHING)
@everywhere_option
def resume(app: App, /, everywhere: bool) -> None:
    """Undo `pause`."""
    left = frozenset() if everywhere else _paused_now() - {projects.project_of(".").user_id}
    if hook_state.EVERYWHERE in left:
        raise InvalidInputError("all projects are paused: say `resume --everywhere`")
    _paused(app, left)


def _paused(app: App, which: frozenset[str]) -> None:
    hook_state.pause(which)
    if app.json:
        print_json({"paused": sorted(which)})
    else:
        say("Paused: " + (", ".join(sorted(which)) or "nothing") + ".")


def _carried_out(
    app: App, host: str, command: HookCommand | None, dry_run: bool, yes: bool
) -> bool:
    changes = changes_of(host, command)
    return carried_out(app, CLIENTS[host].title, changes, dry_run=dry_run, yes=yes)


def _paused_now() -> frozenset[str]:
    try:
        return hook_state.paused()
    except hook_state.Unreadable as error:
        raise InvalidInputError(str(error)) from error
