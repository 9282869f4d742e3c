"""The joined kinds and their public names agree."""

from memory_actors import MemoryType
from memory_actors.kinds.user_state import KINDS


def test_every_kind_is_a_memory_type_in_the_same_order() -> None:
    assert [kind.NAME for kind in KINDS] == [*MemoryType]
