"""Claims of a clause: an attribute of somebody, and its value. English.

An attribute is a name that two clauses share where they speak of the same thing: "residence",
"employer", "is manager", "cost rent". Only attributes that have one value at a time are here: who
likes tea may like coffee, too, but who lives in Glasgow no longer lives in Bristol.
"""

from collections.abc import Callable, Iterator
from typing import Final

from memory_actors.search.superseding.claim import Claim
from memory_actors.search.superseding.clauses import Clause
from memory_actors.search.superseding.people import (
    alcohol,
    diet,
    one_at_a_time,
    partner,
    partner_noun,
    profession,
    residence,
    work,
)
from memory_actors.search.superseding.things import changed_by, noun, price

__all__ = ["Claim", "claims"]

Reader = Callable[[Clause], Iterator[Claim]]
_READERS: Final[tuple[Reader, ...]] = (
    residence,
    work,
    profession,
    partner,
    partner_noun,
    diet,
    alcohol,
    one_at_a_time,
    price,
    noun,
    changed_by,
)


def claims(clause: Clause) -> list[Claim]:
    """Return what a clause claims of attributes that have one value at a time."""
    if clause.besides:
        return []
    if clause.who == ("they",):
        return list(changed_by(clause))
    found: list[Claim] = []
    for reader in _READERS:
        found += reader(clause)
    return found
