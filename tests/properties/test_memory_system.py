"""Properties of a whole memory system: all kinds, clients that race, reopened at any moment."""

from hypothesis import settings
from support.system_machine import SystemMachine

TestMemorySystem = SystemMachine.TestCase
TestMemorySystem.settings = settings(max_examples=10, stateful_step_count=25, deadline=None)
