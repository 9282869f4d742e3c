"""mcp: the memory as tools for models, and clients that know of it."""

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from memory_actors.base.errors import InvalidInputError
from memory_actors.cli import options
from memory_actors.cli.options import App, Group
from memory_actors.cli.output import note, print_json, say
from memory_actors.cli.running import (
    chosen_user,
    ensure_model,
    has_store,
    in_data_directory,
    opened,
    opening,
    run,
)
from memory_actors.integrations.coding_agents import projects
from memory_actors.integrations.mcp import TOOL_SETS, check_installed, clients
from memory_actors.sharing.address import has_password

if TYPE_CHECKING:
    from memory_actors.integrations.coding_agents.installing import Change

OF_SERVER = (*options.OF_NEW, *options.OF_NODE)

tools_option = click.option(
    "--tools",
    "tool_sets",
    type=click.Choice(TOOL_SETS),
    multiple=True,
    default=TOOL_SETS[:1],
    show_default=True,
    help="Which tools; may be repeated.",
)
project_option = click.option(
    "--project", is_flag=True, help="In this directory's configuration, not in yours."
)
yes_option = click.option("--yes", is_flag=True, help="Write without asking.")
dry_run_option = click.option("--dry-run", is_flag=True, help="Only show the change.")


def carried_out(
    app: App, title: str, changes: Sequence["Change"], *, dry_run: bool, yes: bool
) -> bool:
    """Show changes of somebody's configuration, ask, and make them; say whether they are in force.

    `title` names what is configured.
    """
    due = [change for change in changes if not change.is_none]
    shown = [change.diff for change in due]
    if not app.json:
        say("\n".join(shown) or f"{title} is so already.")
    written, failures = bool(due) and not dry_run, list[str]()
    if written:
        if not yes and not app.json:
            click.confirm("Do this?", abort=True)
        failures = [failure for change in due for failure in change.write()]
    if app.json:
        told = {"changes": shown, "written": written, "failures": failures}
        print_json({"configured": title, **told})
    elif written:
        for failure in failures:
            note(failure, "yellow")
        note(f"{title}: done.")
    return written or not (due or dry_run)


def place_in_configuration(app: App) -> str:
    """Return the URL or the directory of the store as a configuration has it.

    :raises InvalidInputError: it has a password.
    """
    if app.url is not None and has_password(app.url):
        raise InvalidInputError(
            "the command line of a server or a hook can be seen by others: leave the password out "
            "of the URL, and keep it in ~/.pgpass"
        )
    return app.url or str(app.directory.absolute())


@click.group(cls=Group, invoke_without_command=True, shared=OF_SERVER)
@tools_option
@options.reads
@options.speaks_for
@click.option(
    "--reads-project",
    is_flag=True,
    help="Search the memory of the project in this directory, too, as hooks store it; mask what "
    "they mask.",
)
@click.option("--team", metavar="URL", help="The server that has the memory of that project.")
@click.pass_context
def mcp(
    context: click.Context,
    /,
    tool_sets: tuple[str, ...],
    reads_project: bool,
    team: str | None,
) -> None:
    """Serve the memory over MCP, on stdin and stdout: a client starts this by itself.

    Needs the extra `mcp`. Several may run on one directory. `install` tells a client of it. Without
    --data the memory is in your data directory.
    """
    if context.invoked_subcommand is not None:
        return
    check_installed()
    from memory_actors.integrations.mcp.serving import serve_stdio

    app = context.ensure_object(App)
    in_data_directory(app)
    its, scopes = dict[str, Any](), list(app.reads)
    if reads_project:
        from memory_actors.integrations.coding_agents.private import Cleaner
        from memory_actors.integrations.coding_agents.team import WithProject

        project = projects.project_of(".")
        its["masked"] = Cleaner(project.root).masked
        if team is None:
            scopes.append(project.user_id)
        else:
            its["beside"] = partial(WithProject, url=team, project_id=project.user_id)

    async def whole() -> None:
        async with opening(app, keeps=True) as memory:
            user_id = await chosen_user(app, memory)
            await serve_stdio(memory, user_id, tool_sets, by=app.by, reads=scopes, **its)

    run(whole)


@options.command(group=mcp, shared=OF_SERVER)
@click.argument("client", type=click.Choice(list(clients.CLIENTS)))
@tools_option
@options.reads
@options.speaks_for
@project_option
@click.option("--replace", is_flag=True, help="Change a server of this name that is there.")
@dry_run_option
@yes_option
def install(
    app: App,
    /,
    client: str,
    tool_sets: tuple[str, ...],
    project: bool,
    replace: bool,
    dry_run: bool,
    yes: bool,
) -> None:
    """Tell CLIENT of the memory: show the change to its configuration, then write it.

    Without --data the memory is in your data directory. With --project no absolute path is written,
    so that the file can be shared: each who works on the project has a memory of their own.
    """
    check_installed()
    directory, is_named = Path.cwd() if project else None, app.data is not None
    in_data_directory(app)
    command = _command(app, tool_sets, directory, is_named=is_named)
    change = clients.installing(
        client, clients.config_path(client, directory), command, replace=replace
    )
    if carried_out(app, str(change.path), [change], dry_run=dry_run, yes=yes):
        ensure_model(app)
        if not app.json:
            note(f"The memory is in {app.shown}.")
            note(f"{clients.CLIENTS[client].next_step}.")


@options.command(group=mcp, shared=options.OF_NOTHING)
@click.argument("client", type=click.Choice(list(clients.CLIENTS)))
@project_option
@dry_run_option
@yes_option
def uninstall(app: App, /, client: str, project: bool, dry_run: bool, yes: bool) -> None:
    """Undo `install`: show the change to the configuration of CLIENT, then write it."""
    change = clients.removing(client, clients.config_path(client, Path.cwd() if project else None))
    carried_out(app, str(change.path), [change], dry_run=dry_run, yes=yes)


def _command(
    app: App, tool_sets: tuple[str, ...], project: Path | None, *, is_named: bool
) -> list[str]:
    """Return the command line that serves what this one names, wherever it is run.

    In a `project` it is run in its directory, by whoever has it: it names nothing of this machine.
    """
    place = place_in_configuration(app)
    named = [*(clients.program() if project is None else ["memory-actors"]), "mcp"]
    if project is None or is_named:
        named += ["--data", place if app.url else _place(app.directory, project)]
    if project is None or app.user is not None:
        named += ["--user", _user_id(app)]
    if app.keys is not None:
        named += ["--key-file", _place(app.keys, project)]
    if app.encrypt_new:
        named.append("--encrypt")
    if isinstance(app.embedder, str):
        named += ["--embedder", app.embedder]
    others = (app.redact, app.node_host, app.node_port)
    for option, given in zip(("--redact", "--node-host", "--node-port"), others, strict=True):
        if given is not None:
            named += [option, str(given)]
    named += [] if app.by is None else ["--as", app.by]
    named += [part for scope in app.reads for part in ("--reads", scope)]
    if tool_sets != TOOL_SETS[:1]:
        named += [part for name in tool_sets for part in ("--tools", name)]
    return named


def _place(path: Path, project: Path | None) -> str:
    """Return a path as a configuration has it: one of a project is relative to it."""
    if project is None:
        return str(path.absolute())
    place = Path(os.path.relpath(path.absolute(), project))
    if ".." in place.parts:
        raise InvalidInputError(
            f"{path} is outside of the project, and the file of a project has no absolute paths: "
            "name a place in it, or leave it out"
        )
    return str(place)


def _user_id(app: App) -> str:
    """Return the user id to serve: the one named, the only one there is, or the default one."""
    if app.user is not None or not has_store(app):
        return app.user_id

    async def whole() -> str:
        async with opened(app) as memory:
            return await chosen_user(app, memory)

    return run(whole)
