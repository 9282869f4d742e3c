"""Exchanges: a new value in the place of an older one: "from X to Y", "Y instead of X", "to Y"."""

import re
from collections.abc import Iterator
from typing import Final

from memory_actors.search.superseding.claims import Claim
from memory_actors.search.superseding.clauses import Clause, content
from memory_actors.search.superseding.frames import is_present
from memory_actors.search.superseding.lexicon import TASTES
from memory_actors.search.superseding.values import Value, changes, differ, value

_FROM: Final = re.compile(
    r"(?:has |have )?(?:switched|changed|moved|went|transferred|upgraded|migrated) from (?P<v>.+?)"
    r" to (?P<to>.+)|(?:has |have )?(?:replaced|swapped|traded|traded in|exchanged) (?P<v2>.+?)"
    r" (?:with|for|by) (?P<to2>.+)"
)
_RATHER: Final = re.compile(r"(?P<to>.+?) (?:instead of|rather than|over|and not) (?P<v>.+)")
_TO: Final = re.compile(
    r"(?:(?:has|have|was|were|been) )*(?:switched|upgraded|changed|migrated|converted|updated)"
    r" to (?P<to>.+)"
)


def exchanged(before: Clause, after: Clause, claims: list[Claim]) -> str:
    """Say what took the place of what the older clause says; "" for nothing."""
    if before.negated or before.ended or not _is_present_or_taste(before):
        return ""
    if named := _named(after):
        gone, fresh = named
        said = content(before.words) | content(before.noun)
        if fresh - gone <= said:
            return ""
        return f"instead of {' '.join(sorted(gone))}" if gone and gone <= said else ""
    matched = _TO.fullmatch(after.said)
    if matched and not (
        after.noun and [w.stem for w in after.noun] != [w.stem for w in before.noun]
    ):
        return _of_its_kind(before, after, matched, claims)
    return ""


def needed_to_exchange(after: Clause) -> Iterator[frozenset[str]]:
    """Yield the stems that a clause has, if this one says what took its place; none: any may."""
    if named := _named(after):
        yield named[0]
    elif _TO.fullmatch(after.said):
        yield frozenset(word.stem for word in after.noun)


def _named(after: Clause) -> tuple[frozenset[str], frozenset[str]] | None:
    """Return what held before and what took its place, where a clause names both."""
    matched = _FROM.fullmatch(after.said)
    if matched is None and (after.now or after.words[0].low in ("prefer", "prefers")):
        matched = _RATHER.fullmatch(after.said)
    if matched is None:
        return None
    groups = matched.groupdict()
    gone, fresh = groups["v"] or groups.get("v2"), groups["to"] or groups.get("to2")
    return content_of(gone or "", after), content_of(fresh or "", after)


def _shares_a_head(before: Clause, new: Value) -> bool:
    """Say whether a value is another one of the same: "the pro tier", "Ubuntu 24.04"."""
    words = [word for word in new.words if not changes(word)]
    return (
        bool(words)
        and words[-1].stem in content(before.words)
        and not (new.content <= content(before.words))
    )


def _is_present_or_taste(clause: Clause) -> bool:
    return is_present(clause) or clause.words[0].low in TASTES


def content_of(said: str, clause: Clause) -> frozenset[str]:
    """Return the stems of some words of a clause."""
    lows = set(said.split())
    return content([word for word in clause.words if word.low in lows])


def _of_its_kind(
    before: Clause, after: Clause, matched: "re.Match[str]", claims: list[Claim]
) -> str:
    """Say what was switched to, if the older fact says what something of that form is."""
    start = after.said[: matched.start("to")].count(" ")
    new = value(after.words[start:])
    uses = before.words[0].low in ("use", "uses") and new.kind in ("thing", "name")
    if uses or _shares_a_head(before, new):
        return f"{' '.join(w.raw for w in before.words[1:])} -> {new.text}"
    if not claims:
        return ""
    claim = claims[0]
    fits = claim.holds and claim.attribute != "residence" and differ(claim.value, new)
    return f"{claim.attribute}: {claim.value.text} -> {new.text}" if fits and before else ""
