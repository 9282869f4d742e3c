"""Memories to files and back: JSON lines of our own and of others, and LoCoMo conversations."""

from memory_actors.interchange.files import open_file
from memory_actors.interchange.jsonl import export_jsonl, export_lines, import_jsonl
from memory_actors.interchange.locomo import (
    Conversation,
    Question,
    Turn,
    import_conversation,
    import_locomo,
    questions,
    read_locomo,
)
from memory_actors.interchange.noting import ImportNote, ImportReport
from memory_actors.interchange.records import Line, Progress

__all__ = [
    "Conversation",
    "ImportNote",
    "ImportReport",
    "Line",
    "Progress",
    "Question",
    "Turn",
    "export_jsonl",
    "export_lines",
    "import_conversation",
    "import_jsonl",
    "import_locomo",
    "open_file",
    "questions",
    "read_locomo",
]
