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
