"""Memories to files and back: our own lines and the files of other programs."""

from eventlog.core.lazy import import_lazily

import_lazily(__name__)
