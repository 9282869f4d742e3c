"""What a run tells while it goes on. The tag of an event is its `type` as JSON.

The order is: started; for each round critiqued, scored, and mostly revised; finished or error at
the end. Evicted and warning come in between.
"""

from typing import TypeAlias

from eventlog.core.records import Returned
from memory_actors.improve.protocol import Critique
from memory_actors.improve.records import Result


class Started(Returned, frozen=True, kw_only=True, tag="started"):
    """A run began."""

    text_bytes: int
    max_iterations: int
    episode_id: str | None = None
    """Where it is recorded."""


class Critiqued(Returned, frozen=True, kw_only=True, tag="critiqued"):
    """The critic judged the text."""

    round: int
    critique: Critique
    cut: bool
    """It was longer than `max_critique_length`."""


class Scored(Returned, frozen=True, kw_only=True, tag="scored"):
    """The score of the text that was just judged, beside the best so far."""

    round: int
    score: float
    best_score: float
    best_round: int


class Revised(Returned, frozen=True, kw_only=True, tag="revised"):
    """The reviser gave a text; it is judged in the next round."""

    round: int
    text: str
    changed: bool


class Evicted(Returned, frozen=True, kw_only=True, tag="evicted"):
    """A round left the history."""

    round: int
    sha256: str
    """Hex, of its revised text as UTF-8."""
    size_bytes: int


class Warned(Returned, frozen=True, kw_only=True, tag="warning"):
    """Something is not as it should be; the run goes on."""

    round: int
    message: str


class Failed(Returned, frozen=True, kw_only=True, tag="error"):
    """The run ends with an error, which is raised next."""

    error: str
    """Its type."""
    message: str
    result: Result
    """What was reached."""


class Finished(Returned, frozen=True, kw_only=True, tag="finished"):
    """The run came to its end."""

    result: Result


Event: TypeAlias = Started | Critiqued | Scored | Revised | Evicted | Warned | Failed | Finished
