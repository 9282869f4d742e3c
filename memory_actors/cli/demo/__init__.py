"""A demonstration: what is remembered, what is found, and that it is still there afterwards."""

from memory_actors.cli.demo.locomo import LocomoReport, run_locomo
from memory_actors.cli.demo.run import DemoReport, run_demo

__all__ = ["DemoReport", "LocomoReport", "run_demo", "run_locomo"]
