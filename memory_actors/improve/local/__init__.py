"""A critic and a reviser that need no model, no network and no data but what comes with them.

The same text gets the same critique and the same revision, always. They read English; of other
languages they judge repetition, length and known terms.
"""

from memory_actors.improve.local.critic import LocalCritic
from memory_actors.improve.local.reviser import LocalReviser

__all__ = ["LocalCritic", "LocalReviser"]
