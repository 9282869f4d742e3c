"""Stores the turns, episodes, fixes and the summary of a session in the memory of its project.

All of it follows from the transcript, and ids are made of the ids there: reading it again adds
nothing. The source of everything is `<host>:<session>`, so `purge` takes a session out again.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from memory_actors.base.records import Episode, Item, Step
from memory_actors.integrations.coding_agents import FIX, SUMMARY
from memory_actors.integrations.coding_agents.private import Cleaner
from memory_actors.integrations.coding_agents.projects import Project
from memory_actors.integrations.coding_agents.transcripts import Turn
from memory_actors.sharing.system import MemorySystem, UserMemory

TURNS_AT_ONCE: Final = 100
STEPS_MAX: Final = 100
"""Of an episode: the first ones."""
TEXT_CHARACTERS_MAX: Final = 20_000
"""The limit for a prompt or a reply; longer ones are pasted files."""
SUMMARY_TURNS_MAX, SUMMARY_WORDS_MAX = 1_000, 150
POSITION: Final = "captured turns of "
"""A key of working memory begins so: its value says how many turns of a session are stored."""
CHAINED: Final = re.compile(r"&&|;|\n")
ASSIGNMENT: Final = re.compile(r"^(?:\w+=\S*\s+)+")


class Session(NamedTuple):
    """A session of a host."""

    host: str
    id: str

    @property
    def source(self) -> str:
        """The source of what it leaves."""
        return f"{self.host}:{self.id}"


class Captured(NamedTuple):
    """The numbers of what was new."""

    turns: int = 0
    memories: int = 0
    episodes: int = 0


async def capture(
    memory: MemorySystem, project: Project, session: Session, turns: Sequence[Turn]
) -> Captured:
    """Store the turns of a session that are not stored yet, and its summary if there are any."""
    user = memory.user(
        project.user_id, agent_id=session.host, session_id=session.id, source=session.source
    )
    cleaner = Cleaner(project.root)
    captured = await _store(user, session, turns, cleaner)
    if captured.turns:
        await _summarise(user, session, turns, cleaner)
    return captured


async def _store(
    project: UserMemory, session: Session, turns: Sequence[Turn], cleaner: Cleaner
) -> Captured:
    key = f"{POSITION}{session.source}"
    known = await project.working.get(key, 0)
    first = min(known, len(turns)) if isinstance(known, int) else 0
    fixed = dict(_fixes(turns))
    memories = episodes = 0
    for start in range(first, len(turns), TURNS_AT_ONCE):
        end = min(start + TURNS_AT_ONCE, len(turns))
        items = [
            item
            for number in range(start, end)
            for item in _items(session, turns[number], fixed.get(number, ()), cleaner)
        ]
        receipts = await project.add_many(items, auto_prune=True)
        memories += sum(receipt.operation != "unchanged" for receipt in receipts)
        for turn in turns[start:end]:
            if turn.runs:
                episode = _episode(session, turn, cleaner)
                receipt = await project.episodes.put(episode)
                episodes += receipt.operation != "unchanged"
        await project.working.set(key, end)
    return Captured(len(turns) - first, memories, episodes)


async def _summarise(
    project: UserMemory, session: Session, turns: Sequence[Turn], cleaner: Cleaner
) -> None:
    """Store what a session was about, in sentences of its own; a later summary replaces it."""
    from memory_actors.compaction.summarizers import Cluster, ExtractiveSummarizer

    said = [
        (turn.prompt.time, f"{who}: {cleaner.clean(text)[:TEXT_CHARACTERS_MAX]}")
        for turn in turns[-SUMMARY_TURNS_MAX:]
        for who, text in (("user", turn.prompt.text), ("agent", turn.reply and turn.reply.text))
        if text
    ]
    if not said:
        return
    said.sort(key=lambda one: one[0])
    times, texts = zip(*said, strict=True)
    summary = "\n".join(texts)
    if len(summary.split()) > SUMMARY_WORDS_MAX:
        cluster = Cluster(texts=texts, times=times)
        summary = await ExtractiveSummarizer(words_max=SUMMARY_WORDS_MAX).summarize(cluster)
    its_id = f"{session.source}:summary"
    receipt = await project.add(
        summary,
        memory_id=its_id,
        metadata={"kind": SUMMARY},
        occurred_at=times[-1],
        auto_prune=True,
    )
    if receipt.operation == "unchanged":
        await project.update(its_id, content=summary)


def _items(session: Session, turn: Turn, fixes: Sequence[str], cleaner: Cleaner) -> Iterator[Item]:
    its_id = f"{session.source}:{turn.prompt.id}"
    said = [(its_id, "user", turn.prompt.text, turn.prompt.time)]
    if turn.reply is not None:
        reply = turn.reply
        said.append((f"{session.source}:{reply.id}:reply", "assistant", reply.text, reply.time))
    for memory_id, role, text, time in said:
        yield Item(
            content=cleaner.clean(text)[:TEXT_CHARACTERS_MAX],
            role=role,
            memory_id=memory_id,
            session_id=session.id,
            occurred_at=time,
        )
    for number, text in enumerate(fixes):
        yield Item(
            content=cleaner.clean(text),
            memory_id=f"{its_id}:fix {number}",
            session_id=session.id,
            occurred_at=turn.prompt.time,
            metadata={"kind": FIX},
        )


def _episode(session: Session, turn: Turn, cleaner: Cleaner) -> Episode:
    """Return a turn as an episode: the prompt, each file and command, and the reply."""
    done = [
        (f"changed {run.file}" if run.file else run.command or f"used {run.tool}", run.error)
        for run in turn.runs
    ]
    steps = tuple(
        Step(
            number=number,
            action=cleaner.clean(action)[:TEXT_CHARACTERS_MAX],
            error=cleaner.clean(error) if error else None,
        )
        for number, (action, error) in enumerate(done[:STEPS_MAX], 1)
    )
    result = cleaner.clean(turn.reply.text)[:TEXT_CHARACTERS_MAX] if turn.reply else None
    return Episode(
        memory_id=f"{session.source}:{turn.prompt.id}:episode",
        agent_id=session.host,
        goal=cleaner.clean(turn.prompt.text)[:TEXT_CHARACTERS_MAX],
        status="failed" if turn.runs[-1].error else "done",
        result=result,
        steps=steps,
        evicted=(),
        steps_evicted=0,
        metadata={},
        session_id=session.id,
        created_at=turn.prompt.time,
        occurred_at=turn.prompt.time,
        pinned=False,
    )


def _fixes(turns: Sequence[Turn]) -> Iterator[tuple[int, list[str]]]:
    """Yield the turns in which a command passed that had failed, each with what fixed it."""
    failed: dict[str, tuple[str, str, list[str]]] = {}
    for number, turn in enumerate(turns):
        found = []
        for run in turn.runs:
            if run.file:
                for _, _, changed in failed.values():
                    changed.extend([run.file] * (run.file not in changed))
            if not run.command:
                continue
            program = _program(run.command)
            if run.error:
                failed.setdefault(program, (run.command, run.error, []))
            elif (known := failed.pop(program, None)) is not None:
                found.append(_fix(*known, run.command))
        if found:
            yield number, found


def _program(command: str) -> str:
    """Return the first two words of the last command in a command line."""
    last = CHAINED.split(command.strip())[-1].strip()
    return " ".join(ASSIGNMENT.sub("", last).split()[:2])


def _fix(command: str, error: str, changed: Sequence[str], passed: str) -> str:
    after = f"changes to {', '.join(changed)}" if changed else "another attempt"
    if passed != command:
        after = f"{after}, as `{passed}`" if changed else f"`{passed}`"
    return f"`{command}` failed: {error}\nIt worked after {after}."
