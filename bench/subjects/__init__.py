"""The kinds of memory at work: what `quota` and `fill` measure."""

from bench.subjects.base import Subject
from bench.subjects.documents import Documents, LargeDocuments
from bench.subjects.episodes import Episodes, Steps
from bench.subjects.graph import Entities, Relationships
from bench.subjects.memories import Memories
from bench.subjects.messages import Messages, Sessions
from bench.subjects.working import WorkingKeys

__all__ = [
    "Documents",
    "Entities",
    "Episodes",
    "LargeDocuments",
    "Memories",
    "Messages",
    "Relationships",
    "Sessions",
    "Steps",
    "Subject",
    "WorkingKeys",
]
