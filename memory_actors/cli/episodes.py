"""episode start, step, finish, get, list."""

from collections.abc import Sequence
from typing import Any

import click

from memory_actors.api.user import UserMemory
from memory_actors.base.records import Episode, Memory, Receipt
from memory_actors.cli import options
from memory_actors.cli.options import App, Command, Group, pass_app
from memory_actors.cli.output import (
    counted,
    local,
    print_json,
    print_table,
    say,
    shortened,
    table,
    text,
)
from memory_actors.cli.running import ensure_model, whole_id, with_user
from memory_actors.cli.showing import (
    CONTENT_CHARACTERS_MAX,
    STATUS_STYLES,
    print_memory,
    say_added,
    short_id,
)
from memory_actors.users.handles.episodes import DEFAULT_AGENT

agent_of = click.option(
    "--agent", metavar="ID", help=f"Whose episodes.  [default: {DEFAULT_AGENT}]"
)


@click.group(cls=Group)
def episode() -> None:
    """Record what an agent wanted, did, and what came of it."""


@episode.command("start", cls=Command, shared=options.OF_NEW)
@click.argument("goal")
@agent_of
@click.option("--session", help="The session it belongs to.")
@options.metadata
@options.at
@options.pin
@options.prune
@options.said_by
@pass_app
def start(app: App, /, goal: str, agent: str | None, session: str | None, **given: Any) -> None:
    """Start an episode. The id that is printed is what step and finish take."""
    ensure_model(app)

    async def work(user: UserMemory) -> Receipt:
        return await user.episodes.start(
            goal,
            session_id=session,
            metadata=given["metadata"],
            occurred_at=given["at"],
            pinned=given["pin"],
            auto_prune=given["prune"],
        )

    receipt = with_user(app, work, create=True, agent=agent)
    if app.json:
        print_json(receipt)
    else:
        say_added(receipt, "episode")


@episode.command("step", cls=Command)
@click.argument("episode_id", metavar="ID")
@click.argument("action")
@click.option("--observation", metavar="TEXT", help="What the agent saw.")
@click.option("--outcome", metavar="TEXT", help="What it led to.")
@click.option("--error", metavar="TEXT", help="What went wrong. Such steps are kept longest.")
@options.said_by
@pass_app
def step(app: App, /, episode_id: str, action: str, **said: str | None) -> None:
    """Add a step to the running episode ID."""
    ensure_model(app)

    async def work(user: UserMemory) -> tuple[Receipt, Episode]:
        receipt = await user.episodes.step(await whole_id(user, episode_id), action, **said)
        return receipt, await user.episodes.get(receipt.memory_id)

    receipt, now = with_user(app, work)
    if app.json:
        print_json(receipt)
    else:
        say(f"Step {now.steps[-1].number} of {now.memory_id}")


@episode.command("finish", cls=Command)
@click.argument("episode_id", metavar="ID")
@click.argument("result", required=False)
@click.option("--failed", is_flag=True, help="It did not reach its goal.")
@options.said_by
@pass_app
def finish(app: App, /, episode_id: str, result: str | None, failed: bool) -> None:
    """End the running episode ID, with words about what came of it or without."""
    ensure_model(app)

    async def work(user: UserMemory) -> Receipt:
        return await user.episodes.finish(
            await whole_id(user, episode_id), result, success=not failed
        )

    receipt = with_user(app, work)
    if app.json:
        print_json(receipt)
    else:
        say(f"{'Failed' if failed else 'Done'}: {receipt.memory_id}")


@episode.command("get", cls=Command)
@click.argument("episode_id", metavar="ID")
@pass_app
def get(app: App, /, episode_id: str) -> None:
    """Show the episode ID with its steps."""

    async def work(user: UserMemory) -> tuple[Episode, Memory]:
        found = await user.episodes.get(await whole_id(user, episode_id))
        return found, await user.get(found.memory_id)

    found, memory = with_user(app, work)
    if app.json:
        print_json(found)
    else:
        print_memory(memory)


@episode.command("list", cls=Command)
@agent_of
@options.limit
@pass_app
def list_(app: App, /, agent: str | None, limit: int) -> None:
    """List an agent's episodes, newest first."""

    async def work(user: UserMemory) -> list[Episode]:
        return await user.episodes.recent(limit=limit)

    found = with_user(app, work, agent=agent)
    if app.json:
        print_json(found)
    elif found:
        _print_episodes(found)
    else:
        say(f"No episodes of agent {agent or DEFAULT_AGENT}: --agent names another.")


def _print_episodes(found: Sequence[Episode]) -> None:
    shown = table("when", "status", "steps", "goal", right=("steps",))
    for one in found:
        goal = text(shortened(one.goal, CONTENT_CHARACTERS_MAX))
        steps = len(one.steps) + one.steps_evicted
        shown.add_row(
            local(one.occurred_at), text(one.status, STATUS_STYLES[one.status]), f"{steps:,}",
            goal + text(f"\n{short_id(one.memory_id)}", "dim"),
        )  # fmt: skip
    print_table(shown)
    say(f"{counted(len(found), 'episode')} of agent {found[0].agent_id}", "dim")
