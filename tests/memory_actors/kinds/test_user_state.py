"""The joined kinds and their public names agree."""

import msgspec

from memory_actors import MemoryType
from memory_actors.kinds import long_term
from memory_actors.kinds.snapshots import SNAPSHOT_FINGERPRINT, fingerprint_of
from memory_actors.kinds.user_state import KINDS


def test_every_kind_is_a_memory_type_in_the_same_order() -> None:
    assert [kind.NAME for kind in KINDS] == [*MemoryType]


def test_a_field_more_of_a_packed_row_makes_another_fingerprint() -> None:
    """A snapshot holds long-term rows as bytes, which load with the default of a new field."""
    wider = msgspec.defstruct(
        "Row", [("noticed", int, 0)], bases=(long_term.MemoryRow,), frozen=True, kw_only=True
    )
    assert fingerprint_of(wider) != SNAPSHOT_FINGERPRINT
    assert fingerprint_of(long_term.MemoryRow) == SNAPSHOT_FINGERPRINT
