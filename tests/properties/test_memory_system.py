"""Properties of a whole memory system: all kinds, clients that race, reopened at any moment."""

from hypothesis import settings
from support.clients import GLOBAL_LIMITS, USERS, Act
from support.system_machine import SystemMachine

TestMemorySystem = SystemMachine.TestCase
TestMemorySystem.settings = settings(max_examples=5, stateful_step_count=25, deadline=None)


def test_what_meets_the_limit_of_all_users_exactly_fits_and_a_byte_more_does_not() -> None:
    machine = SystemMachine()
    machine.start()
    try:
        for number, name in enumerate(USERS):
            machine.one_client_acts(name, Act("add", "long_term", f"{number} long", 0))
        (bytes_used, *_) = machine.run(machine.memory.usage()).quotas
        rest = "z" * (GLOBAL_LIMITS.long_term_bytes - bytes_used.used)
        for words, used in ((f"{rest}z", bytes_used.used), (rest, 5_000), ("z", 5_000)):
            machine.one_client_acts("ada", Act("add", "long_term", words, 0))
            (now, *_) = machine.run(machine.memory.usage()).quotas
            assert now.used == used
        machine.all_is_as_promised()
    finally:
        machine.teardown()
