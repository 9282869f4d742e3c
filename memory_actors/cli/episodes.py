"""episode start, step, finish, get, list."""

from collections.abc import Sequence
from typing import TypeAlias

import click

from memory_actors.api.user import UserMemory
from memory_actors.base.records import Episode, Memory, Receipt
from memory_actors.cli.deriving import mirrors
from memory_actors.cli.options import Group
from memory_actors.cli.output import counted, local, print_table, say, shortened, table, text
from memory_actors.cli.showing import (
    CONTENT_CHARACTERS_MAX,
    STATUS_STYLES,
    print_memory,
    say_added,
    short_id,
)
from memory_actors.users.handles.episodes import DEFAULT_AGENT

Stepped: TypeAlias = tuple[Receipt, Episode]

agent_of = click.option(
    "--agent", metavar="ID", help=f"Whose episodes.  [default: {DEFAULT_AGENT}]"
)


@click.group(cls=Group)
def episode() -> None:
    """Record what an agent wanted, did, and what came of it."""


@mirrors("episodes.start", episode, new=True, embeds=True, more=[agent_of], agent_id=None)
def start(receipt: Receipt) -> None:
    """Start an episode. The id that is printed is what step and finish take."""
    say_added(receipt, "episode")


async def _stepped(user: UserMemory, episode_id: str, action: str, **said: str | None) -> Stepped:
    receipt = await user.episodes.step(episode_id, action, **said)
    return receipt, await user.episodes.get(receipt.memory_id)


@mirrors("episodes.step", episode, embeds=True, work=_stepped, as_json=lambda done: done[0])
def step(done: Stepped) -> None:
    """Add a step to the running episode ID."""
    now = done[1]
    say(f"Step {now.steps[-1].number} of {now.memory_id}")


@mirrors(
    "episodes.finish", episode, embeds=True,
    result=click.argument("result", required=False),
    success=click.option(
        "--failed", "success", is_flag=True, help="It did not reach its goal.",
        callback=lambda _context, _option, failed: not failed,
    ),
)  # fmt: skip
def finish(receipt: Receipt, success: bool) -> None:
    """End the running episode ID, with words about what came of it or without."""
    say(f"{'Done' if success else 'Failed'}: {receipt.memory_id}")


async def _found(user: UserMemory, episode_id: str) -> tuple[Episode, Memory]:
    return await user.episodes.get(episode_id), await user.get(episode_id)


@mirrors("episodes.get", episode, work=_found, as_json=lambda found: found[0])
def get(found: tuple[Episode, Memory]) -> None:
    """Show the episode ID with its steps."""
    print_memory(found[1])


@mirrors("episodes.recent", episode, "list", more=[agent_of], agent_id=None)
def list_(found: Sequence[Episode], agent: str | None) -> None:
    """List an agent's episodes, newest first."""
    shown = table("when", "status", "steps", "goal", right=("steps",))
    for one in found:
        goal = text(shortened(one.goal, CONTENT_CHARACTERS_MAX))
        steps = len(one.steps) + one.steps_evicted
        shown.add_row(
            local(one.occurred_at), text(one.status, STATUS_STYLES[one.status]), f"{steps:,}",
            goal + text(f"\n{short_id(one.memory_id)}", "dim"),
        )  # fmt: skip
    print_table(shown, f"No episodes of agent {agent or DEFAULT_AGENT}: --agent names another.")
    if found:
        say(f"{counted(len(found), 'episode')} of agent {found[0].agent_id}", "dim")
