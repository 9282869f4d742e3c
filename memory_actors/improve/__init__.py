"""Improving a text in rounds, in memory that does not grow with them.

    result = await improve(text)  # by the local pair: LocalCritic(), LocalReviser()
    async for event in improve_stream(text, critic=..., reviser=...):
        ...

`loop` is the way in, `limits` the bounds and the end of a run, `recording` its episode; `local` is
a pair that needs nothing, `llm` one that asks a model. `bounded` holds the collections that the
history is kept in.
"""

from memory_actors.improve.limits import MemoryLimits, Stop
from memory_actors.improve.llm import OpenAICritic, OpenAIReviser
from memory_actors.improve.local import LocalCritic, LocalReviser
from memory_actors.improve.loop import Improver, improve, improve_stream
from memory_actors.improve.recording import RecordedRun, recorded_run
from memory_actors.improve.records import (
    Critic,
    Critique,
    Critiqued,
    CritiqueFinding,
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
)

__all__ = [
    "Critic",
    "Critique",
    "CritiqueFinding",
    "Critiqued",
    "Event",
    "Evicted",
    "Failed",
    "Finished",
    "Improver",
    "LocalCritic",
    "LocalReviser",
    "MemoryLimits",
    "OpenAICritic",
    "OpenAIReviser",
    "RecordedRun",
    "Result",
    "Revised",
    "Reviser",
    "Round",
    "Scored",
    "Started",
    "State",
    "Stop",
    "StoppedBecause",
    "Warned",
    "improve",
    "improve_stream",
    "recorded_run",
]
