"""Collections that never hold more than they may: `BoundedList`, `BoundedDict`."""

from memory_actors.improve.bounded.eviction import Eviction
from memory_actors.improve.bounded.mapping import BoundedDict
from memory_actors.improve.bounded.marker import Marker
from memory_actors.improve.bounded.sequence import BoundedList

__all__ = ["BoundedDict", "BoundedList", "Eviction", "Marker"]
