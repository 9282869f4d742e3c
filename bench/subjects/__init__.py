"""The kinds of memory at work: what `quota` measures."""

from bench.subjects.base import Subject
from bench.subjects.documents import Documents, LargeDocuments
from bench.subjects.episodes import Episodes, Steps
from bench.subjects.graph import Entities, Relationships
from bench.subjects.memories import Memories
from bench.subjects.messages import Messages
from bench.subjects.working import WorkingKeys

__all__ = [
    "Documents",
    "Entities",
    "Episodes",
    "LargeDocuments",
    "Memories",
    "Messages",
    "Relationships",
    "Steps",
    "Subject",
    "WorkingKeys",
]
