"""The loop of a run: critique, score, revision, again.

A step returns its events, which are yielded before the next one: a slow consumer slows the run.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import Any, Final, Self, TypedDict, TypeVar, Unpack
from weakref import WeakSet

import anyio
from msgspec.structs import replace

from memory_actors.base.errors import (
    ImprovementError,
    InvalidInputError,
    MemoryActorsError,
    MemoryLimitError,
)
from memory_actors.base.validation import check_count, plain, text_bytes
from memory_actors.improve import limits, records
from memory_actors.improve.bounded import BoundedList, Eviction, sha256
from memory_actors.improve.local import LocalCritic, LocalReviser
from memory_actors.improve.recording import Recorder, check_fits
from memory_actors.improve.records import Critic, Event, Finished, Result, Reviser
from memory_actors.observing.monitor import MemoryMonitor
from memory_actors.sharing.system import UserMemory

T = TypeVar("T")

PATIENCE: Final = 3
CALL_TIMEOUT_S: Final = 600.0
"""A language model that is asked three times, with two minutes each and pauses between, is done."""


class Options(TypedDict, total=False):
    """Settings of a run, besides its critic and its reviser."""

    memory_limits: limits.MemoryLimits | Mapping[str, Any] | None
    """Limits of what it holds. The defaults apply to missing names."""
    stop: limits.Stop
    """A target score beside the other ends of a run, or a function of the `State` after each
    critique, which decides alone but for `max_iterations`."""
    patience: int
    """Rounds without a better score after which it ends; 3."""
    monitor: MemoryMonitor | None
    """Of the process; in place of the soft and the hard limit in `memory_limits`."""
    record_to: UserMemory | None
    """The user whose episode the run becomes. None: nothing is stored."""
    call_timeout_s: float
    """The time that one answer of critic or reviser may take; 600."""


_KINDS: Final[Mapping[str, type]] = {"monitor": MemoryMonitor, "record_to": UserMemory}


class Improver:
    """A critic, a reviser and the limits of their runs; closes what they hold.

    By default both are the local ones, which need no model. `async with` calls `cleanup` at the
    end.

    :raises InvalidInputError: an option makes no sense, or there is none of its name.
    """

    def __init__(
        self,
        critic: Critic | None = None,
        reviser: Reviser | None = None,
        **options: Unpack[Options],
    ):
        self.critic: Critic = LocalCritic() if critic is None else critic
        self.reviser: Reviser = LocalReviser() if reviser is None else reviser
        _check_given(self.critic, self.reviser, options)
        self.limits = limits.memory_limits(options.get("memory_limits"))
        self.options = options
        self._streams: WeakSet[AsyncGenerator[Event, None]] = WeakSet()
        _Run("", self)  # refuses what makes no sense

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.cleanup()

    def stream(self, text: str) -> AsyncGenerator[Event, None]:
        """Return the events of a run, which goes on only as they are taken. See `improve_stream`.

        :raises InvalidInputError: the text is blank, or over the limit.
        """
        text_bytes(text, "the text", self.limits.max_text_length)
        stream = _Run(plain(text), self).events()
        self._streams.add(stream)
        return stream

    async def improve(self, text: str) -> Result:
        """Improve a text and return the result. See `improve`."""
        result: Result | None = None
        async with aclosing(self.stream(text)) as events:
            async for event in events:
                if isinstance(event, Finished):
                    result = event.result
        assert result is not None, "a run that raises nothing finishes"
        return result

    async def cleanup(self) -> None:
        """Close the streams that stand at an event, and a critic or reviser that can be closed.

        First cancel any other task that awaits an event.
        """
        for stream in list(self._streams):
            await stream.aclose()
        for part in (self.critic, self.reviser):
            aclose = getattr(part, "aclose", None)
            if aclose is not None:
                await aclose()


async def improve(
    text: str,
    *,
    critic: Critic | None = None,
    reviser: Reviser | None = None,
    **options: Unpack[Options],
) -> Result:
    """Improve a text in rounds of critique and revision; return the best text that was judged.

    Holds the present text, the best one and a bounded history, whatever the number of rounds. The
    text need not be the last one: a revision that scores lower does not count. Critic and reviser
    stay open; None is `LocalCritic()`, `LocalReviser()`.

    :raises InvalidInputError: a blank or over-long text, or an option that makes no sense: at once.
    :raises ImprovementError: the critic or the reviser failed, or the run could not be recorded;
        `result` has what was reached, `__cause__` why.
    :raises MemoryLimitError: the process is over its hard limit; `result` as well.
    """
    return await Improver(critic, reviser, **options).improve(text)


def improve_stream(
    text: str,
    *,
    critic: Critic | None = None,
    reviser: Reviser | None = None,
    **options: Unpack[Options],
) -> AsyncGenerator[Event, None]:
    """Return the events of a run as they happen: started, critiqued, scored, revised, … finished.

    The run pauses until the caller asks for the next event. To end early, close it: `aclose()`, or
    `contextlib.aclosing` around it. When a run fails the last event is an `error`, and then the
    error is raised. Otherwise as `improve`.

    :raises InvalidInputError: a blank or over-long text, or an option that makes no sense: at once.
    """
    return Improver(critic, reviser, **options).stream(text)


def _check_given(critic: object, reviser: object, options: Mapping[str, object]) -> None:
    """Check what no other part of a run checks."""
    known = Options.__annotations__
    unknown = sorted(name for name in options if name not in known)
    if unknown:
        raise InvalidInputError(f"improve has no {', '.join(unknown)}: it takes {', '.join(known)}")
    for what, part in (("critic", critic), ("reviser", reviser)):
        if not callable(part):
            raise InvalidInputError(f"{what} must be an async function, not {part!r:.80}")
    for name, kind in _KINDS.items():
        if not isinstance(options.get(name), kind | None):
            raise InvalidInputError(f"{name} must be a {kind.__name__}, not {options[name]!r:.80}")
    seconds = options.get("call_timeout_s", CALL_TIMEOUT_S)
    if not isinstance(seconds, int | float) or isinstance(seconds, bool) or not seconds > 0:
        raise InvalidInputError(f"call_timeout_s must be a number above 0, not {seconds!r:.80}")


class _Run:
    def __init__(self, text: str, improver: Improver):
        options = improver.options
        self._text, self._by, self._limits = text, improver, improver.limits
        self._stop = limits.checked_stop(options.get("stop"))
        self._patience = check_count(options.get("patience", PATIENCE), "patience", 1)
        self._watch = limits.Watch(self._limits, options.get("monitor"))
        self._recorder = Recorder(options.get("record_to"))
        if options.get("record_to") is not None:
            check_fits(self._limits)
        self._round = self._revisions = self._read_bytes = self._unkept = 0
        self._state: records.State | None = None
        self._open: records.Critique | None = None
        """The critique of a round that is not in the history yet."""
        self._because: records.StoppedBecause | None = None
        self._news: list[Event] = []
        self._history: BoundedList[records.Round] = BoundedList(
            self._limits.max_history_size,
            lambda one: one.size_bytes,
            eviction=Eviction.KEEP_FIRST_LAST_ERRORS,
            is_error=lambda one: one.error is not None,
            text_fn=lambda one: one.text,
            on_evict=self._left,
        )

    async def events(self) -> AsyncGenerator[Event, None]:
        """Carry the run out, one step each time that its events were taken."""
        step: Callable[[], Awaitable[list[Event]]] = self._start
        try:
            while True:
                for event in await step():
                    yield event
                if step == self._finish:
                    return
                if self._because is not None:
                    step = self._finish
                else:
                    step = self._revise if step == self._critique else self._critique
        except (ImprovementError, MemoryLimitError) as error:
            for event in await self._fail(error):
                yield event
            raise
        finally:  # of a run that was given up; of one that has ended nothing
            await self._recorder.fail("closed_early", "closed early")

    # --- steps

    async def _start(self) -> list[Event]:
        self._look()
        await self._recording(self._recorder.start(self._text))
        started = records.Started(
            text_bytes=records.utf8_bytes(self._text),
            max_iterations=self._limits.max_iterations,
            episode_id=self._recorder.episode_id,
        )
        return [started, *self._told()]

    async def _critique(self) -> list[Event]:
        self._look()
        self._round += 1
        given: object = await self._ask("critic", self._by.critic, self._text)
        if not isinstance(given, records.Critique):
            problem = f"the critic gave no Critique: it is of type {type(given).__name__}"
            raise ImprovementError(problem, result=None)
        if given.problem is not None:
            raise ImprovementError(f"the critic gave no Critique: {given.problem}", result=None)
        critique = limits.within_limit(given, self._limits.max_critique_length)
        self._open = critique
        self._read_bytes += records.utf8_bytes(self._text)
        self._state = state = self._judged(critique)
        self._look()
        self._because = self._decided(state)
        if self._because is not None:
            await self._note(records.Round(number=self._round, critique=critique))
        scored = records.Scored(
            round=self._round,
            score=critique.score,
            best_score=state.best_score,
            best_round=state.best_round,
        )
        critiqued = records.Critiqued(
            round=self._round, critique=critique, cut=critique is not given
        )
        return [critiqued, scored, *self._told()]

    async def _revise(self) -> list[Event]:
        assert self._open is not None, "a critique comes first"
        revised = await self._ask("reviser", self._by.reviser, self._text, self._open)
        self._revisions += 1
        try:
            text_bytes(revised, "the revised text", self._limits.max_text_length)
        except InvalidInputError as error:
            refused = f"revision refused: {error}"
            await self._note(records.Round(number=self._round, critique=self._open, error=refused))
            return [records.Warned(round=self._round, message=refused), *self._told()]
        changed = revised != self._text
        self._text = revised = plain(revised)
        self._because = None if changed or callable(self._stop) else "unchanged"
        await self._note(records.Round(number=self._round, critique=self._open, text=revised))
        return [records.Revised(round=self._round, text=revised, changed=changed), *self._told()]

    async def _finish(self) -> list[Event]:
        assert self._because is not None, "there is a reason to end"
        result = self._result(self._because)
        await self._recording(self._recorder.finish(result))
        return [Finished(result=result)]

    async def _fail(self, error: MemoryActorsError) -> list[Event]:
        because: records.StoppedBecause = (
            "error" if isinstance(error, ImprovementError) else "memory_limit"
        )
        failed = None
        if self._open is not None:
            failed = records.Round(number=self._round, critique=self._open, error=str(error))
            self._keep(failed)
        result = self._result(because)
        error.result = result  # type: ignore[attr-defined]  # both kinds have it
        await self._recorder.fail(because, str(error), failed)
        failed_event = records.Failed(error=type(error).__name__, message=str(error), result=result)
        return [*self._told(), failed_event]

    # --- parts of a step

    async def _ask(self, who: str, ask: Callable[..., Awaitable[T]], *about: object) -> T:
        limit_s = self._by.options.get("call_timeout_s", CALL_TIMEOUT_S)
        try:
            with anyio.move_on_after(limit_s):
                return await ask(*about)
        except Exception as error:
            said = f": {error}" if isinstance(error, MemoryActorsError) else ""
            what = f"the {who} raised {type(error).__name__}{said}"
            raise ImprovementError(f"{what}; see its cause, and mend it", result=None) from error
        raise ImprovementError(
            f"the {who} gave no answer within {limit_s:g} s: "
            "look why it hangs, or raise call_timeout_s",
            result=None,
        )

    def _judged(self, critique: records.Critique) -> records.State:
        if self._state is not None and self._state.best_score >= critique.score:
            return replace(self._state, round=self._round, text=self._text, critique=critique)
        return records.State(
            round=self._round,
            text=self._text,
            critique=critique,
            best_text=self._text,
            best_score=critique.score,
            best_round=self._round,
        )

    def _decided(self, state: records.State) -> records.StoppedBecause | None:
        try:
            most = self._limits.max_iterations
            return limits.ended_because(self._stop, self._patience, most, state)
        except Exception as error:
            raise ImprovementError(
                f"stop raised {type(error).__name__}; see its cause, and mend it", result=None
            ) from error

    def _look(self) -> None:
        warning = self._watch.look()
        if warning is not None:
            self._news.append(records.Warned(round=self._round, message=warning))

    async def _note(self, one: records.Round) -> None:
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

    def _keep(self, one: records.Round) -> None:
        try:
            self._history.append(one)
        except InvalidInputError:  # larger than the whole history may be
            self._unkept += 1
            self._left(one)

    def _left(self, one: records.Round) -> None:
        digest = sha256(one.text or "")
        self._news.append(
            records.Evicted(round=one.number, sha256=digest, size_bytes=one.size_bytes)
        )

    def _told(self) -> list[Event]:
        news, self._news = self._news, []
        return news

    # --- the result

    def _result(self, because: records.StoppedBecause) -> Result:
        state = self._state
        stats = {
            "peak_usage_mb": self._watch.peak_mb,
            "history_entries_evicted": self._history.evicted + self._unkept,
            "total_text_processed": self._read_bytes,
            "iterations": self._revisions,
            "stopped_because": because,
        }
        metadata: dict[str, object] = {"memory_stats": stats}
        if self._recorder.episode_id is not None:
            metadata["episode_id"] = self._recorder.episode_id
        return Result(
            text=state.best_text if state else self._text,
            score=state.best_score if state else None,
            history=tuple(self._history.entries()),
            metadata=metadata,
        )
