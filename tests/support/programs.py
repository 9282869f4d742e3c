"""The real program in a process of its own."""

import sys

_MAIN = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from memory_actors.cli import main
main(prog_name="memory-actors")
"""

INTERRUPTIBLE = (sys.executable, "-c", _MAIN)
"""Heeds an interrupt also where whoever runs the tests ignores it, as jobs in the background do."""

_WITH_FAKE = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from memory_actors.cli import App, main
from support.fakes import FakeEmbedder
main(prog_name="memory-actors", obj=App(embedder=FakeEmbedder()))
"""

WITH_FAKE_MODEL = (sys.executable, "-c", _WITH_FAKE)
"""The same with the embedder of the tests: for a store that is indexed with it."""
