"""Improving a text in rounds, in memory that does not grow with them.

    result = await improve(text)  # by the local pair: LocalCritic(), LocalReviser()
    async for event in improve_stream(text, critic=..., reviser=...):
        ...

`loop` is the way in, `run` is one run step by step, `stopping` says when it is over; `limits` and
`watching` bound what it may hold; `recording` keeps its episode; `local` is a pair that needs
nothing, `llm` one that asks a model.
"""

from memory_actors.improve.events import (
    Critiqued,
    Event,
    Evicted,
    Failed,
    Finished,
    Revised,
    Scored,
    Started,
    Warned,
)
from memory_actors.improve.limits import MemoryLimits
from memory_actors.improve.llm import OpenAICritic, OpenAIReviser
from memory_actors.improve.local import LocalCritic, LocalReviser
from memory_actors.improve.loop import Improver, improve, improve_stream
from memory_actors.improve.protocol import Critic, Critique, CritiqueFinding, Reviser
from memory_actors.improve.recording import RecordedRun, recorded_run
from memory_actors.improve.records import Result, Round, State, StoppedBecause
from memory_actors.improve.stopping import Stop

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
