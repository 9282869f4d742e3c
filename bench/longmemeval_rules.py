"""The parts of a LongMemEval question that become memories, and those that count as found.

The rules are those of the retrieval code in the benchmark's repository (`src/retrieval`, at commit
b60a5b7: `run_retrieval.py` and `eval_utils.py`):

- memories are the user's turns; we can add the assistant's, which the official figures lack
- a turn is evidence if it says `has_answer`, a session if one of its memories does
- left out are abstention questions (`_abs` in the id) and those without a marked turn of the user;
  of the 500 these are 30 and 51, so 419 are left

That is "official". "all" leaves nothing out: its evidence are all marked turns, memories or not,
and all `answer_session_ids` that the haystack has. A question that has none counts 0 in every
measure, so "all" says too little rather than too much.

Levels. A session ranks by its best turn. "session by evidence" is what the official code makes of a
ranking of turns (`evaluate_retrieval_turn2session`): a session is found where its evidence turn
stands, and its other turns together take a place of their own that is of no use.
"""

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Literal, NamedTuple

from bench.longmemeval_file import USER, Question, date
from bench.measures import groups
from memory_actors import Item

Whose = Literal["user", "all"]

COUNTED = OFFICIAL, EVERYTHING = ("official", "all")
LEVELS = SESSION, BY_EVIDENCE, TURN = ("session", "session by evidence", "turn")
_OTHER_TURNS = "\0"  # in front of a session's id: no id has it


class Said(NamedTuple):
    """One turn of a haystack."""

    session: str
    marked: bool
    """It is evidence."""
    item: Item


Haystack = Mapping[str, Said]
"""Turns by memory id, in their order."""


def haystack_of(question: Question) -> dict[str, Said]:
    """Return all turns of a question's sessions, but for blank ones."""
    sessions = zip(
        question.haystack_session_ids,
        question.haystack_dates,
        question.haystack_sessions,
        strict=True,
    )
    return {
        f"{place}:{number}": Said(
            session,
            bool(turn.has_answer),
            Item(
                content=turn.content,
                memory_id=f"{place}:{number}",
                role=turn.role,
                session_id=session,
                occurred_at=date(began) + timedelta(seconds=number),  # keeps the order
            ),
        )
        for place, (session, began, turns) in enumerate(sessions)
        for number, turn in enumerate(turns)
        if turn.content.strip()
    }


def memories_of(haystack: Haystack, whose: Whose) -> dict[str, Said]:
    """Return the turns that become memories."""
    return {
        memory_id: said
        for memory_id, said in haystack.items()
        if whose == "all" or said.item.role == USER
    }


def left_out(question: Question, haystack: Haystack) -> str | None:
    """Return why the official rules leave a question out, None if they do not."""
    if question.abstains:
        return "abstention"
    if not any(said.marked and said.item.role == USER for said in haystack.values()):
        return "no marked user turn"
    return None


def evidence(
    question: Question, haystack: Haystack, memories: Haystack, counted: str, level: str
) -> set[str]:
    """Return the evidence at a level: the names that `ranked` gives."""
    searched = memories if counted == OFFICIAL else haystack
    marked = [memory_id for memory_id, said in searched.items() if said.marked]
    if level == TURN:
        return set(marked)
    if level == SESSION and counted == EVERYTHING:
        return set(question.answer_session_ids).intersection(question.haystack_session_ids)
    return {searched[memory_id].session for memory_id in marked}


def ranked(ranking: Iterable[str], memories: Haystack, level: str) -> list[str]:
    """Return a ranking of memory ids as one of a level."""
    if level == TURN:
        return list(ranking)
    turns = [memories[memory_id] for memory_id in ranking]
    if level == SESSION:
        return groups(said.session for said in turns)
    return groups(said.session if said.marked else _OTHER_TURNS + said.session for said in turns)
