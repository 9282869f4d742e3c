"""A run as an episode of a user, and back.

The first step has the text as it was given; then there is a step for each round: its critique as
JSON is the observation, the revised text the outcome, and why there is none the error. The last
step has the end. An episode keeps some 50 of its steps; `recorded_run` reads all from the log.

A step takes 256 KB. A round that takes more is written as JSON, in pieces; each piece stands
between brackets, since a step may not be blank and a piece might be.
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
from memory_actors.improve.bounded import SNIPPET_CHARACTERS, sha256
from memory_actors.sharing.system import UserMemory

if TYPE_CHECKING:
    from memory_actors.base.records import Receipt

PIECE_CHARACTERS: Final = 60_000
"""The limit for the JSON of one step: with up to four bytes a character it fits."""
STEP_BYTES_MAX: Final = CONTENT_BYTES_MAX - 1024
"""The room for the texts of a step, besides the words around them."""
END_S: Final = 10.0
"""The time that writing the end of a run that was cut off may take."""

_ACTION: Final = re.compile(
    r"(?P<what>given|round (?P<round>\d+)|finished)(?:, piece (?P<piece>\d+) of (?P<of>\d+))?"
)
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
    best_round: int
    score: float | None
    sha256: str
    """Of the result."""


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
        if records.utf8_bytes(text) > STEP_BYTES_MAX:
            await self._pieces("given", msgspec.json.encode(text).decode())
        else:
            await self._step("given", outcome=text)

    async def round(self, one: records.Round) -> None:
        """Write a round."""
        if self._user is None:
            return
        what = f"round {one.number}"
        critique = msgspec.json.encode(one.critique).decode()
        if records.utf8_bytes(critique) + one.size_bytes > STEP_BYTES_MAX:
            await self._pieces(what, msgspec.json.encode(one).decode())
        else:
            await self._step(what, observation=critique, outcome=one.text, error=one.error)

    async def finish(self, result: records.Result, best_round: int) -> None:
        """End the episode of a run that went as planned."""
        if self._user is None:
            return
        stats = result.metadata["memory_stats"]
        end = _Outcome(
            stopped_because=stats["stopped_because"],
            best_round=best_round,
            score=result.score,
            sha256=sha256(result.text),
        )
        await self._step("finished", observation=msgspec.json.encode(end).decode())
        fits = records.utf8_bytes(result.text) <= STEP_BYTES_MAX
        said = result.text if fits else f"the text of SHA-256 {end.sha256}, see the rounds"
        assert self.episode_id is not None
        await self._user.episodes.finish(self.episode_id, said)
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

    async def _pieces(self, what: str, document: str) -> None:
        starts = range(0, len(document), PIECE_CHARACTERS)
        for number, start in enumerate(starts, start=1):
            action = f"{what}, piece {number} of {len(starts)}"
            await self._step(action, outcome=f"[{document[start : start + PIECE_CHARACTERS]}]")

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
    if finished is not None and status == "done":
        # The text that was judged best: the episode's own result may be too long.
        before = [one.text for one in rounds if one.number < finished.best_round and one.text]
        said = before[-1] if before else given
    return RecordedRun(
        episode_id=episode_id,
        text=given,
        rounds=rounds,
        status=status,
        stopped_because=because,
        result=said,
    )


def _documents(steps: Iterable[JsonObject]) -> Iterator[tuple[str, Any]]:
    """Yield what each step, or each run of pieces, is about, and what it says."""
    pieces: list[str] = []
    for step in steps:
        found = _ACTION.fullmatch(step["action"])
        if found is None:
            raise InvalidInputError(f"step {step['number']} of the run is not one of improve's")
        what = found["what"]
        if found["piece"] is None:
            yield what, _whole(found, step)
            continue
        pieces.append(step["outcome"][1:-1])
        if found["piece"] == found["of"]:
            kind: Any = str if what == "given" else records.Round
            yield what, msgspec.json.decode("".join(pieces), type=kind)
            pieces.clear()


def _whole(found: re.Match[str], step: JsonObject) -> Any:
    if found["what"] == "given":
        return step["outcome"]
    if found["what"] == "finished":
        return msgspec.json.decode(step["observation"], type=_Outcome)
    return records.Round(
        number=int(found["round"]),
        critique=msgspec.json.decode(step["observation"], type=records.Critique),
        text=step.get("outcome"),
        error=step.get("error"),
    )
