"""One run: what it holds, and one step after the other.

It holds the present text, its critique, the best text and a bounded history, whatever the number of
rounds. A step returns the events that it led to; who drives it (`loop`) hands them on before the
next one, so that a slow consumer slows the run.

A revision that cannot stand (not a text, blank, over the limit) is refused: a warning, the text
stays as it was, and the round counts as one without a rise. An answer that is no critique ends the
run.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import anyio
from msgspec.structs import replace

from memory_actors.base.errors import ImprovementError, InvalidInputError, MemoryActorsError
from memory_actors.base.validation import plain, text_bytes
from memory_actors.improve.bounded import BoundedList, Eviction, Marker, sha256
from memory_actors.improve.limits import Ends, MemoryLimits, Watch, within_limit
from memory_actors.improve.recording import Recorder
from memory_actors.improve.records import (
    Critic,
    Critique,
    Critiqued,
    Event,
    Evicted,
    Failed,
    Finished,
    Result,
    Revised,
    Reviser,
    Round,
    Scored,
    Started,
    State,
    StoppedBecause,
    Warned,
    utf8_bytes,
)

T = TypeVar("T")


@dataclass(eq=False)
class Run:
    """The improvement of one text."""

    _text: str
    _critic: Critic
    _reviser: Reviser
    _limits: MemoryLimits
    _ends: Ends
    _watch: Watch
    _recorder: Recorder
    _call_timeout_s: float
    _round: int = 0
    _revisions: int = 0
    _read_bytes: int = 0
    _state: State | None = None
    _open: Critique | None = None
    """The critique of a round that is not in the history yet."""
    _because: StoppedBecause | None = None
    _news: list[Event] = field(default_factory=list)
    _unkept: int = 0

    def __post_init__(self) -> None:
        self._history: BoundedList[Round] = BoundedList(
            self._limits.max_history_size,
            lambda one: one.size_bytes,
            eviction=Eviction.KEEP_FIRST_LAST_ERRORS,
            is_error=lambda one: one.error is not None,
            text_fn=lambda one: one.text,
            on_evict=self._left,
        )

    @property
    def over(self) -> bool:
        """True when no rounds are to come."""
        return self._because is not None

    # --- steps

    async def start(self) -> list[Event]:
        """Begin."""
        self._look()
        await self._recording(self._recorder.start(self._text))
        started = Started(
            text_bytes=utf8_bytes(self._text),
            max_iterations=self._limits.max_iterations,
            episode_id=self._recorder.episode_id,
        )
        return [started, *self._told()]

    async def critique(self) -> list[Event]:
        """Have the text judged, and see whether that is the end."""
        self._look()
        self._round += 1
        given: object = await self._ask("critic", self._critic, self._text)
        if not isinstance(given, Critique):
            problem = f"the critic gave no Critique: it is of type {type(given).__name__}"
            raise ImprovementError(problem, result=None)
        if given.problem is not None:
            raise ImprovementError(f"the critic gave no Critique: {given.problem}", result=None)
        critique = within_limit(given, self._limits.max_critique_length)
        self._open = critique
        self._read_bytes += utf8_bytes(self._text)
        self._state = state = self._judged(critique)
        self._look()
        self._because = self._decided(state)
        if self.over:
            await self._note(Round(number=self._round, critique=critique))
        scored = Scored(
            round=self._round,
            score=critique.score,
            best_score=state.best_score,
            best_round=state.best_round,
        )
        cut = critique is not given
        return [Critiqued(round=self._round, critique=critique, cut=cut), scored, *self._told()]

    async def revise(self) -> list[Event]:
        """Have the text revised."""
        assert self._open is not None, "a critique comes first"
        revised = await self._ask("reviser", self._reviser, self._text, self._open)
        self._revisions += 1
        try:
            text_bytes(revised, "the revised text", self._limits.max_text_length)
        except InvalidInputError as error:
            refused = f"revision refused: {error}"
            await self._note(Round(number=self._round, critique=self._open, error=refused))
            return [Warned(round=self._round, message=refused), *self._told()]
        changed = revised != self._text
        self._text = revised = plain(revised)
        self._because = self._ends.after_revision(changed=changed)
        await self._note(Round(number=self._round, critique=self._open, text=revised))
        return [Revised(round=self._round, text=revised, changed=changed), *self._told()]

    async def finish(self) -> list[Event]:
        """End as planned."""
        assert self._because is not None, "there is a reason to end"
        result = self._result(self._because)
        best_round = self._state.best_round if self._state else 0
        await self._recording(self._recorder.finish(result, best_round))
        return [Finished(result=result)]

    async def fail(self, error: MemoryActorsError) -> list[Event]:
        """End with an error, in which the result so far is left."""
        because: StoppedBecause = "error" if isinstance(error, ImprovementError) else "memory_limit"
        open_ = self._open
        if open_ is not None:
            failed = Round(number=self._round, critique=open_, error=str(error))
            self._keep(failed)
            await self._recorder.last_round(failed)
        result = self._result(because)
        error.result = result  # type: ignore[attr-defined]  # both kinds have it
        await self._recorder.fail(because, str(error))
        failed_event = Failed(error=type(error).__name__, message=str(error), result=result)
        return [*self._told(), failed_event]

    async def close(self) -> None:
        """Leave a record of a run that was given up; of one that has ended nothing."""
        await self._recorder.fail("closed_early", "closed early")

    # --- parts of a step

    async def _ask(self, who: str, ask: Callable[..., Awaitable[T]], *about: Any) -> T:
        """Await the critic or the reviser, with a time limit.

        :raises ImprovementError: the critic or reviser raised an error (also before its first
            await), or timed out.
        """
        try:
            with anyio.move_on_after(self._call_timeout_s):
                return await ask(*about)
        except Exception as error:
            said = f": {error}" if isinstance(error, MemoryActorsError) else ""
            what = f"the {who} raised {type(error).__name__}{said}"
            raise ImprovementError(f"{what}; see its cause, and mend it", result=None) from error
        raise ImprovementError(
            f"the {who} gave no answer within {self._call_timeout_s:g} s: "
            "look why it hangs, or raise call_timeout_s",
            result=None,
        )

    def _judged(self, critique: Critique) -> State:
        if self._state is not None and self._state.best_score >= critique.score:
            return replace(self._state, round=self._round, text=self._text, critique=critique)
        return State(
            round=self._round,
            text=self._text,
            critique=critique,
            best_text=self._text,
            best_score=critique.score,
            best_round=self._round,
        )

    def _decided(self, state: State) -> StoppedBecause | None:
        try:
            return self._ends.after_critique(state)
        except Exception as error:
            raise ImprovementError(
                f"stop raised {type(error).__name__}; see its cause, and mend it", result=None
            ) from error

    def _look(self) -> None:
        warning = self._watch.look()
        if warning is not None:
            self._news.append(Warned(round=self._round, message=warning))

    async def _note(self, one: Round) -> None:
        """Put a round into the record and into the history."""
        await self._recording(self._recorder.round(one))
        self._open = None
        self._keep(one)

    async def _recording(self, write: Awaitable[None]) -> None:
        try:
            await write
        except MemoryActorsError as error:
            raise ImprovementError(
                f"the run could not be recorded: {error}", result=None
            ) from error

    def _keep(self, one: Round) -> None:
        try:
            self._history.append(one)
        except InvalidInputError:  # larger than the whole history may be
            self._unkept += 1
            self._left(one)

    def _left(self, one: Round) -> None:
        digest = sha256(one.text or "")
        self._news.append(Evicted(round=one.number, sha256=digest, size_bytes=one.size_bytes))

    def _told(self) -> list[Event]:
        news, self._news = self._news, []
        return news

    # --- the result

    def _result(self, because: StoppedBecause) -> Result:
        state = self._state
        stats = {
            "peak_usage_mb": self._watch.peak_mb,
            "history_entries_evicted": self._history.evicted + self._unkept,
            "total_text_processed": self._read_bytes,
            "iterations": self._revisions,
            "stopped_because": because,
        }
        episode_id = self._recorder.episode_id
        recorded = {} if episode_id is None else {"episode_id": episode_id}
        entries: list[Round | Marker] = self._history.entries()
        return Result(
            text=state.best_text if state else self._text,
            score=state.best_score if state else None,
            history=tuple(entries),
            metadata={"memory_stats": stats, **recorded},
        )
