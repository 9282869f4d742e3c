"""Stores the turns, episodes, fixes and the summary of a session in the memory of its project.

All of it follows from the transcript, and ids are made of the ids there: reading it again adds
nothing. The source of everything is `<host>:<session>`, so `purge` takes a session out again.
"""

import asyncio
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from eventlog.core.records import Returned
from memory_actors.base import errors
from memory_actors.base.records import Episode, Item, Memory, Step
from memory_actors.integrations.coding_agents import FIX, SUMMARY
from memory_actors.integrations.coding_agents.hook_state import is_paused
from memory_actors.integrations.coding_agents.private import Cleaner
from memory_actors.integrations.coding_agents.projects import Project, project_of
from memory_actors.integrations.coding_agents.readers import reader_of, transcripts
from memory_actors.integrations.coding_agents.transcripts import Turn, turns
from memory_actors.sharing.system import MemorySystem, UserMemory

if TYPE_CHECKING:
    from memory_actors.compaction.summarizers import Summarizer

TURNS_AT_ONCE: Final = 25
STEPS_MAX: Final = 50
"""The limit for the steps of an episode, as memory has it: the last ones are kept."""
STEP_CHARACTERS_MAX: Final = 2_000
ERROR_CHARACTERS_MAX: Final = 300
SUMMARY_MEMORIES_MAX, SUMMARY_WORDS_MAX = 500, 150
COPIED_MAX: Final = 1_000
"""The limit for the memories in which turns are looked for: a server lists no more at once."""
LAST_TURN: Final = "last_turn"
NO_KIND: Final = {"exists": False}
REPLY: Final = ":reply"
CHAINED: Final = re.compile(r"&&|;|\n")
ASSIGNMENT: Final = re.compile(r"^(?:\w+=\S*\s+)+")


class HostSession(NamedTuple):
    """A session of a host."""

    host: str
    id: str

    @property
    def source(self) -> str:
        """The source of what it leaves."""
        return f"{self.host}:{self.id}"


class Fix(NamedTuple):
    """A command that failed, and passed later."""

    command: str
    error: str
    changed: list[str]
    """The files that were changed in between."""
    passed: str = ""


class Captured(NamedTuple):
    """The numbers of what was new."""

    turns: int = 0
    memories: int = 0
    episodes: int = 0


async def capture(
    memory: MemorySystem,
    project: Project,
    session: HostSession,
    turns: Sequence[Turn],
    *,
    summarise: bool = True,
    summarizer: "Summarizer | None" = None,
) -> Captured:
    """Store the turns of a session that are not stored yet, and a summary if there is none.

    The last stored turn may have gone on since: its reply is brought up to date. `summarise` brings
    the summary up to date. A `summarizer` writes what does not fit into one as it is.
    """
    user = memory.user(
        project.user_id, agent_id=session.host, session_id=session.id, source=session.source
    )
    cleaner = Cleaner(project.root)
    by_id: dict[str, Turn] = {}
    for turn in turns:
        by_id.setdefault(turn.prompt.id, turn)
    turns = [*by_id.values()]
    if not turns:
        return Captured()
    fixes = dict(_fixes(turns))
    stored = await _newest(user, session, NO_KIND)
    last = "" if stored is None else stored.memory_id.removesuffix(REPLY)
    known = next((n for n, turn in enumerate(turns) if _id(session, turn) == last), -1)
    copied = await _copied(user, session, turns, cleaner) if known < 0 else ()
    told = [(turn, fixes.get(n, [])) for n, turn in enumerate(turns) if n not in copied]
    memories = episodes = 0
    if known >= 0:
        memories += await _renewed(user, list(_items(session, turns[known], (), cleaner))[1:])
    for start in range(max(known, 0), len(told), TURNS_AT_ONCE):
        some = told[start : start + TURNS_AT_ONCE]
        items = [one for turn, fixed in some for one in _items(session, turn, fixed, cleaner)]
        worked = [_episode(session, turn, cleaner) for turn, _ in some if turn.runs]
        memories += await _added(user, items)
        episodes += sum(await asyncio.gather(*(_put(user, one) for one in worked)))
    summary = await _newest(user, session, SUMMARY)
    if summary is None or (
        summarise and (memories or summary.metadata.get(LAST_TURN) != turns[-1].prompt.id)
    ):
        await _summarise(user, session, turns[-1], summary, summarizer)
    return Captured(len(told) - known - 1, memories, episodes)


async def _copied(
    user: UserMemory, session: HostSession, turns: Sequence[Turn], cleaner: Cleaner
) -> set[int]:
    """Return the numbers of the turns that another session has: one that was forked from it.

    A copy of a prompt has the same text and time, and may have another id.
    """
    times = [turn.prompt.time for turn in turns]
    there = await user.list_memories(
        ["long_term"],
        filters={"kind": NO_KIND},
        since=min(times),
        until=max(times),
        limit=COPIED_MAX,
    )
    others = {(one.content, one.occurred_at) for one in there if one.session_id != session.id}
    said = enumerate(turn.prompt for turn in turns)
    return {n for n, one in said if (cleaner.clean(one.text), one.time) in others}


async def _newest(user: UserMemory, session: HostSession, kind: object) -> Memory | None:
    found = await user.list_memories(
        ["long_term"], filters={"kind": kind}, sources=[session.source], limit=1
    )
    return found[0] if found else None


async def _added(user: UserMemory, items: Sequence[Item]) -> int:
    """Return how many items were new. One whose id says something else costs itself alone."""
    try:
        receipts = await user.add_many(items, auto_prune=True)
    except errors.InvalidInputError:
        return sum([await _added(user, [item]) for item in items]) if len(items) > 1 else 0
    return sum(receipt.operation not in ("unchanged", "forgotten") for receipt in receipts)


async def _put(user: UserMemory, episode: Episode) -> bool:
    """Return whether an episode was new; one that is refused is not.

    It may be there in other words, or find no room; and a server takes no whole episodes.
    """
    try:
        return (await user.episodes.put(episode)).operation != "unchanged"
    except (errors.InvalidInputError, errors.NotOfferedError, errors.QuotaExceededError):
        return False


async def _renewed(user: UserMemory, items: Sequence[Item]) -> int:
    """Return how many of some stored items said something else, and say this now."""
    changed = 0
    for item in items:
        with suppress(errors.NotFoundError, errors.QuotaExceededError, errors.ForgottenError):
            receipt = await user.update(str(item.memory_id), content=item.content)
            changed += receipt.operation != "unchanged"
    return changed


async def _summarise(
    user: UserMemory,
    session: HostSession,
    last: Turn,
    known: Memory | None,
    summarizer: "Summarizer | None",
) -> None:
    """Store what a session was about, in place of a known summary.

    Few words are kept as they are. Otherwise the summarizer writes it; without one, or if it fails,
    it is sentences of the stored messages.
    """
    from memory_actors.compaction.summarizers import Cluster, ExtractiveSummarizer, count_words

    said = await user.list_memories(
        ["long_term"],
        filters={"kind": NO_KIND},
        sources=[session.source],
        limit=SUMMARY_MEMORIES_MAX,
    )
    if not said:
        return
    said.reverse()  # the oldest first
    who = {"user": "user", "assistant": "agent"}
    texts = tuple(f"{who.get(one.role or '', 'agent')}: {one.content}" for one in said)
    summary = "\n".join(texts)
    if count_words(summary) > SUMMARY_WORDS_MAX:
        cluster = Cluster(texts=texts, times=tuple(one.occurred_at for one in said))
        extractive = ExtractiveSummarizer(words_max=SUMMARY_WORDS_MAX)
        try:
            summary = await (summarizer or extractive).summarize(cluster)
        except errors.SummarizerError:
            summary = await extractive.summarize(cluster)
    metadata = {"kind": SUMMARY, LAST_TURN: last.prompt.id}
    if known is not None:
        await user.update(known.memory_id, content=summary, metadata=metadata)
        return
    item = Item(
        content=summary,
        memory_id=f"{session.source}:summary:{last.prompt.id}",
        session_id=session.id,
        occurred_at=last.prompt.time,
        metadata=metadata,
    )
    await _added(user, [item])


def _id(session: HostSession, turn: Turn) -> str:
    return f"{session.source}:{turn.prompt.id}"


def _items(
    session: HostSession, turn: Turn, fixes: Sequence[Fix], cleaner: Cleaner
) -> Iterator[Item]:
    its_id = _id(session, turn)
    item = partial(Item, session_id=session.id, occurred_at=turn.prompt.time)
    yield item(content=cleaner.clean(turn.prompt.text), role="user", memory_id=its_id)
    if (reply := turn.reply) is not None:
        text, its_own = cleaner.clean(reply.text), f"{its_id}{REPLY}"
        yield item(content=text, role="assistant", memory_id=its_own, occurred_at=reply.time)
    for number, fix in enumerate(fixes):
        parts = (fix.command, fix.passed, ", ".join(fix.changed))
        command, passed, changed = (cleaner.clean(one, STEP_CHARACTERS_MAX) for one in parts)
        after = f"changes to {changed}" if changed else "another attempt"
        if passed != command:
            after = f"{after}, as `{passed}`" if changed else f"`{passed}`"
        said = f"`{command}` failed: {_failure(fix.error, cleaner)}\nIt worked after {after}."
        yield item(content=said, memory_id=f"{its_id}:fix {number}", metadata={"kind": FIX})


def _episode(session: HostSession, turn: Turn, cleaner: Cleaner) -> Episode:
    evicted = max(0, len(turn.runs) - STEPS_MAX)
    steps = []
    for number, run in enumerate(turn.runs[evicted:], evicted + 1):
        used = f"changed {run.file}" if run.file else f"used {run.tool or 'a tool'}"
        action = cleaner.clean(run.command.strip() or used, STEP_CHARACTERS_MAX)
        steps.append(Step(number=number, action=action, error=_failure(run.error, cleaner) or None))
    return Episode(
        memory_id=f"{_id(session, turn)}:episode",
        agent_id=session.host,
        goal=cleaner.clean(turn.prompt.text),
        status="failed" if turn.runs[-1].error else "done",
        result=cleaner.clean(turn.reply.text) if turn.reply else None,
        steps=tuple(steps),
        evicted=(),
        steps_evicted=evicted,
        metadata={},
        session_id=session.id,
        created_at=turn.prompt.time,
        occurred_at=turn.prompt.time,
        pinned=False,
    )


def _failure(output: str, cleaner: Cleaner) -> str:
    lines = map(str.strip, cleaner.clean(output).splitlines())
    shown = "\n".join(line for line in lines if line)
    return shown if len(shown) <= ERROR_CHARACTERS_MAX else f"…{shown[-ERROR_CHARACTERS_MAX:]}"


def _fixes(turns: Sequence[Turn]) -> Iterator[tuple[int, list[Fix]]]:
    failed: dict[str, Fix] = {}
    for number, turn in enumerate(turns):
        found = []
        for run in turn.runs:
            if run.file:
                for fix in failed.values():
                    fix.changed.extend([run.file] * (run.file not in fix.changed))
            if not run.command:
                continue
            last = CHAINED.split(run.command.strip())[-1].strip()
            program = " ".join(ASSIGNMENT.sub("", last).split()[:2])  # of a command line
            if run.error:
                failed.setdefault(program, Fix(run.command, run.error, []))
            elif (known := failed.pop(program, None)) is not None:
                found.append(known._replace(passed=run.command))
        if found:
            yield number, found


# --- backfill: the transcripts that a host has kept, each message once

UNREADABLE: Final = (OSError, ValueError, RecursionError)


class Backfilled(Returned, frozen=True, kw_only=True):
    """The counts of sessions and turns that a backfill read, and of memories that were new."""

    sessions: int
    turns: int
    memories: int
    episodes: int
    projects: tuple[str, ...]
    skipped: tuple[str, ...]
    """Transcripts that could not be read, or whose directory is not known."""


async def backfill(
    memory: MemorySystem | None,
    hosts: list[str],
    progress: Callable[[int, int], object] = lambda _done, _total: None,
) -> Backfilled:
    """Capture all transcripts of some hosts. Without a memory, only say what there is.

    It can be stopped and run again: what is stored is not stored twice.
    """
    found = list[tuple[str, Path]]()
    for host in hosts:
        with suppress(OSError):  # of one file that has them all
            found += [(host, path) for path in transcripts(host)]
    captured: list[Captured] = []
    projects, skipped = set(), []
    for done, (host, path) in enumerate(found):
        progress(done, len(found))
        try:
            reader = reader_of(host)
            directory = reader.working_directory(path)
            said = list(turns(reader.entries(path)))
            project = None if directory is None else project_of(directory)
            session = HostSession(host, reader.session_id(path))
        except UNREADABLE:
            project = None
        if project is None:
            skipped.append(str(path))
        elif said and not is_paused(project.user_id):
            new = Captured(len(said))
            try:
                if memory is not None:
                    new = await capture(memory, project, session, said)
            except (
                errors.InvalidInputError
            ):  # a session or a directory whose name no memory can have
                skipped.append(str(path))
            else:
                captured.append(new)
                projects.add(project.user_id)
    progress(len(found), len(found))
    sums = [sum(each) for each in zip(*captured, strict=True)] or [0, 0, 0]
    return Backfilled(
        sessions=len(captured),
        turns=sums[0],
        memories=sums[1],
        episodes=sums[2],
        projects=tuple(sorted(projects)),
        skipped=tuple(skipped),
    )
