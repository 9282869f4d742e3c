"""Memories to files and back: our own lines, the files of other programs, LoCoMo conversations."""

from eventlog.core.lazy import import_lazily

import_lazily(__name__)
