"""A claim: an attribute of somebody, and its value. How one is read out of a clause."""

from re import Match
from typing import Final, NamedTuple

from memory_actors.search.superseding.clauses import Clause, Token
from memory_actors.search.superseding.values import Value


class Claim(NamedTuple):
    """An attribute of somebody, and what it is."""

    who: tuple[str, ...]
    attribute: str
    value: Value
    holds: bool = True
    """False: it says that this is no longer so, or not so."""
    changed: bool = False
    """It says that it was otherwise before."""
    stems: frozenset[str] = frozenset()
    """Of the noun, where the attribute is one."""
    many: bool = False
    """There may be several of it: only what says that it has changed means the same one."""


NOTHING: Final = Value((), "none")


def rest(clause: Clause, matched: Match[str], group: str = "v") -> list[Token]:
    """Return the words of a group of a match in what a clause says."""
    start, end = matched.span(group)
    found, at = [], 0
    for word in clause.words:
        if start <= at < end:
            found.append(word)
        at += len(word.low) + 1
    return found


def claim_of(clause: Clause, attribute: str, words: Value, **more: bool) -> Claim:
    """Return what a clause claims; it `holds` and is `changed` as the clause says, unless given."""
    holds = more.get("holds", not (clause.negated or clause.ended))
    changed = more.get("changed", False) or clause.now or clause.again
    return Claim(clause.who, attribute, words, holds, changed)
