"""A run as an episode of a user, and back.

The first step has the text as it was given; then there is a step for each round: its critique as
JSON is the observation, the revised text the outcome, and why there is none the error. The last
step has the end. An episode keeps some 50 of its steps; `recorded_run` reads all from the log.

A step takes 256 KB, so the limits of a recorded run are lower: see `check_fits`.
"""

import asyncio
import re
from collections import deque
from collections.abc import Awaitable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

import anyio
import msgspec

from eventlog.core.logs import get_logger
from eventlog.core.records import Returned
from memory_actors.base.errors import InvalidInputError, MemoryActorsError, NotFoundError
from memory_actors.base.privacy import reason
from memory_actors.base.records import JsonObject
from memory_actors.base.validation import CONTENT_BYTES_MAX
from memory_actors.improve import records
from memory_actors.improve.bounded import SNIPPET_CHARACTERS
from memory_actors.improve.limits import MemoryLimits
from memory_actors.sharing.system import UserMemory

if TYPE_CHECKING:
    from memory_actors.base.records import Receipt

STEP_BYTES_MAX: Final = CONTENT_BYTES_MAX - 1024
"""The room for the texts of a step, besides the words around them."""
END_S: Final = 10.0
"""The time that writing the end of a run that was cut off may take."""

ESCAPED: Final = 6
"""The most bytes that JSON makes of one, of a control character."""
_ACTION: Final = re.compile(r"given|round (?P<round>\d+)|finished")
_STARTED: Final = ("episodic.started", "episodic.restored")

_logger = get_logger("memory_actors.improve")


class RecordedRun(Returned, frozen=True, kw_only=True):
    """A run as the log has it, complete. Its size grows with the number of rounds."""

    episode_id: str
    text: str
    """The text as it was given."""
    rounds: tuple[records.Round, ...]
    status: str
    """running, done or failed."""
    stopped_because: str | None
    """None: it is running, or its end could not be written."""
    result: str | None
    """The best text, however long; of a run that failed, why."""

    def pair(self) -> tuple[records.Critic, records.Reviser]:
        """Return a critic and a reviser that say again what was said, in order, without a model.

        `improve` with them and the text of the run, and the same options, has the same result. They
        raise `NotFoundError` for a text that the run did not have there; where a revision was
        refused they give an empty one, which is refused again.
        """
        left, current = deque(self.rounds), self.text

        def the_round(text: str) -> records.Round:
            if not left or text != current:
                number = len(self.rounds) - len(left) + 1
                raise NotFoundError(
                    f"the recorded run has no such text as its number {number}: start with its "
                    "own, and with the same options"
                )
            return left[0]

        async def critic(text: str, /) -> records.Critique:
            return the_round(text).critique

        async def reviser(text: str, _critique: records.Critique, /) -> str:
            nonlocal current
            one = the_round(text)
            left.popleft()
            current = one.text or current
            return one.text or ""

        return critic, reviser


class _Outcome(msgspec.Struct, frozen=True, kw_only=True):
    stopped_because: str
    score: float | None


def check_fits(limits: MemoryLimits) -> None:
    """Check that the text and the critique of each round fit into one step of an episode.

    :raises InvalidInputError: the limits allow more.
    """
    if limits.max_text_length + ESCAPED * limits.max_critique_length > STEP_BYTES_MAX:
        raise InvalidInputError(
            f"record_to needs max_text_length + {ESCAPED} max_critique_length of at most "
            f"{STEP_BYTES_MAX:,}: lower one of them"
        )


class Recorder:
    """Writes one run into the episodes of a user; without a user nowhere."""

    def __init__(self, user: UserMemory | None):
        self._user = user
        self._ended = user is None
        self._begun: asyncio.Task[Receipt] | None = None

    @property
    def episode_id(self) -> str | None:
        """The episode, once it is there."""
        begun = self._begun
        if begun is None or not begun.done() or begun.cancelled() or begun.exception() is not None:
            return None
        return begun.result().memory_id

    async def start(self, text: str) -> None:
        """Begin an episode."""
        if self._user is None:
            return
        about = " ".join(text[: 2 * SNIPPET_CHARACTERS].split())[:SNIPPET_CHARACTERS]
        start = self._user.episodes.start(f"Improve a text: {about}", metadata={"run": "improve"})
        self._begun = asyncio.create_task(start)  # goes on if we are cancelled: `fail` ends it
        await asyncio.shield(self._begun)
        await self._step("given", outcome=text)

    async def round(self, one: records.Round) -> None:
        """Write a round."""
        if self._user is None:
            return
        critique, what = msgspec.json.encode(one.critique).decode(), f"round {one.number}"
        await self._step(what, observation=critique, outcome=one.text, error=one.error)

    async def finish(self, result: records.Result) -> None:
        """End the episode of a run that went as planned."""
        if self._user is None:
            return
        because = result.metadata["memory_stats"]["stopped_because"]
        end = _Outcome(stopped_because=because, score=result.score)
        await self._step("finished", observation=msgspec.json.encode(end).decode())
        assert self.episode_id is not None
        await self._user.episodes.finish(self.episode_id, result.text)
        self._ended = True

    async def fail(
        self, because: records.StoppedBecause, message: str, last: records.Round | None = None
    ) -> None:
        """End the episode of a run that was cut off, if it has begun and not ended.

        Not even a cancelled caller can cancel it; it gives up after 10 s. `last` is the round in
        which it failed.
        """
        if self._ended or self._begun is None:
            return
        self._ended = True
        with anyio.move_on_after(END_S, shield=True):
            await asyncio.wait([self._begun])
            if self.episode_id is None or self._user is None:
                return
            if last is not None:
                await _or_log(self.round(last))
            said = message if because == "closed_early" else f"{because}: {message}"
            await _or_log(self._user.episodes.finish(self.episode_id, said, success=False))

    async def _step(self, action: str, **said: str | None) -> None:
        assert self._user is not None
        assert self.episode_id is not None
        await self._user.episodes.step(self.episode_id, action, **said)


async def _or_log(write: Awaitable[object]) -> None:
    try:
        await write
    except MemoryActorsError as error:  # there is another error already, and it matters more
        _logger.warning("the end of a run is not in the log", error=reason(error))


# --- back


async def recorded_run(user: UserMemory, episode_id: str) -> RecordedRun:
    """Return a run from the log: all its rounds, also those that the episode does not keep.

    :raises NotFoundError: no event names the episode.
    :raises InvalidInputError: it is no run of `improve`, or retention has dropped some of it.
    """
    events = await user.history(episode_id)
    if any("dropped_since" in event.data for event in events):
        raise InvalidInputError(f"retention has dropped texts of run {episode_id!r}")
    begun = next((one for one in reversed(events) if one.event in _STARTED), None)
    if begun is None or begun.data.get("metadata", {}).get("run") != "improve":
        raise InvalidInputError(f"episode {episode_id!r} is no run of improve: see user.episodes")
    # By number: a restored episode tells its steps again.
    steps = {one.data["number"]: one.data for one in events if one.event == "episodic.step_added"}
    documents = dict(_documents([steps[number] for number in sorted(steps)]))
    given, finished = documents.pop("given", ""), documents.pop("finished", None)
    rounds = tuple(documents.values())
    ends = [event.data for event in events if event.event == "episodic.finished"]
    status = "running" if not ends else "failed" if ends[-1]["failed"] else "done"
    said, because = ends[-1].get("result") if ends else None, None
    if finished is not None:
        because = finished.stopped_because
    elif status == "failed":
        because = "closed_early" if said == "closed early" else str(said).partition(":")[0]
    return RecordedRun(
        episode_id=episode_id,
        text=given,
        rounds=rounds,
        status=status,
        stopped_because=because,
        result=said,
    )


def _documents(steps: Iterable[JsonObject]) -> Iterator[tuple[str, Any]]:
    """Yield what each step is about, and what it says."""
    for step in steps:
        what = step["action"]
        found = _ACTION.fullmatch(what)
        if found is None:
            raise InvalidInputError(f"step {step['number']} of the run is not one of improve's")
        if what == "given":
            yield what, step["outcome"]
        elif what == "finished":
            yield what, msgspec.json.decode(step["observation"], type=_Outcome)
        else:
            yield (
                what,
                records.Round(
                    number=int(found["round"]),
                    critique=msgspec.json.decode(step["observation"], type=records.Critique),
                    text=step.get("outcome"),
                    error=step.get("error"),
                ),
            )
