"""Memories to files and back: our own lines, the files of other programs, LoCoMo conversations."""

from memory_actors.interchange.exporting import (
    TARGETS,
    ExportReport,
    export_jsonl,
    export_lines,
    export_to,
)
from memory_actors.interchange.files import open_file
from memory_actors.interchange.importing import ImportPlan, import_from, plan_import
from memory_actors.interchange.jsonl import import_jsonl
from memory_actors.interchange.locomo import (
    LocomoConversation,
    LocomoTurn,
    Question,
    import_conversation,
    import_locomo,
    questions,
    read_locomo,
)
from memory_actors.interchange.noting import ImportNote, ImportReport
from memory_actors.interchange.records import Line, Progress
from memory_actors.interchange.sources import SOURCES

__all__ = [
    "SOURCES",
    "TARGETS",
    "ExportReport",
    "ImportNote",
    "ImportPlan",
    "ImportReport",
    "Line",
    "LocomoConversation",
    "LocomoTurn",
    "Progress",
    "Question",
    "export_jsonl",
    "export_lines",
    "export_to",
    "import_conversation",
    "import_from",
    "import_jsonl",
    "import_locomo",
    "open_file",
    "plan_import",
    "questions",
    "read_locomo",
]
