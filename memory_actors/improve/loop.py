"""The loop: critique, score, revision, again, and what may be watched of it."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any, Final, Self, TypedDict, Unpack
from weakref import WeakSet

from memory_actors.base.errors import ImprovementError, InvalidInputError, MemoryLimitError
from memory_actors.base.validation import plain, text_bytes
from memory_actors.improve.limits import Ends, MemoryLimits, Stop, Watch, memory_limits
from memory_actors.improve.local import LocalCritic, LocalReviser
from memory_actors.improve.recording import Recorder
from memory_actors.improve.records import Critic, Event, Finished, Result, Reviser
from memory_actors.improve.run import Run
from memory_actors.observing.monitor import MemoryMonitor
from memory_actors.sharing.system import UserMemory

PATIENCE: Final = 3
CALL_TIMEOUT_S: Final = 600.0
"""A language model that is asked three times, with two minutes each and pauses between, is done."""


class Options(TypedDict, total=False):
    """Settings of a run, besides its critic and its reviser."""

    memory_limits: MemoryLimits | Mapping[str, Any] | None
    """Limits of what it holds. The defaults apply to missing names."""
    stop: Stop
    """A target score, or a function of the `State` after each critique. None: see `limits`."""
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
        self._critic: Critic = LocalCritic() if critic is None else critic
        self._reviser: Reviser = LocalReviser() if reviser is None else reviser
        _check_given(self._critic, self._reviser, options)
        self._limits = memory_limits(options.get("memory_limits"))
        self._stop = options.get("stop")
        self._patience = options.get("patience", PATIENCE)
        self._monitor = options.get("monitor")
        self._user = options.get("record_to")
        self._call_timeout_s = options.get("call_timeout_s", CALL_TIMEOUT_S)
        self._streams: WeakSet[AsyncGenerator[Event, None]] = WeakSet()
        self._ends()  # refuses what makes no sense, as the next line does
        Watch(self._limits, self._monitor)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.cleanup()

    def stream(self, text: str) -> AsyncGenerator[Event, None]:
        """Return the events of a run, which goes on only as they are taken. See `improve_stream`.

        :raises InvalidInputError: the text is blank, or over the limit.
        """
        text_bytes(text, "the text", self._limits.max_text_length)
        run = Run(
            plain(text),
            self._critic,
            self._reviser,
            self._limits,
            self._ends(),
            Watch(self._limits, self._monitor),
            Recorder(self._user),
            self._call_timeout_s,
        )
        stream = _events(run)
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
        for part in (self._critic, self._reviser):
            aclose = getattr(part, "aclose", None)
            if aclose is not None:
                await aclose()

    def _ends(self) -> Ends:
        return Ends(self._stop, self._patience, self._limits.max_iterations)


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


def _check_given(critic: object, reviser: object, options: Mapping[str, Any]) -> None:
    """Check what no other part of a run checks.

    :raises InvalidInputError: something makes no sense.
    """
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


async def _events(run: Run) -> AsyncGenerator[Event, None]:
    try:
        for event in await run.start():
            yield event
        while not run.over:
            for event in await run.critique():
                yield event
            if not run.over:
                for event in await run.revise():
                    yield event
        for event in await run.finish():
            yield event
    except (ImprovementError, MemoryLimitError) as error:
        for event in await run.fail(error):
            yield event
        raise
    finally:
        await run.close()
