"""Backfill: the transcripts that a host has kept are captured, each message once."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from eventlog.core.records import Returned
from memory_actors.base.errors import InvalidInputError
from memory_actors.integrations.coding_agents.capturing import Captured, Session, capture
from memory_actors.integrations.coding_agents.pausing import is_paused
from memory_actors.integrations.coding_agents.projects import project_of
from memory_actors.integrations.coding_agents.readers import reader_of, transcripts
from memory_actors.integrations.coding_agents.transcripts import turns
from memory_actors.sharing.system import MemorySystem

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
    found = [(host, path) for host in hosts for path in _transcripts(host)]
    captured: list[Captured] = []
    projects, skipped = set(), []
    for done, (host, path) in enumerate(found):
        progress(done, len(found))
        try:
            reader = reader_of(host)
            directory = reader.working_directory(path)
            said = list(turns(reader.entries(path)))
            project = None if directory is None else project_of(directory)
            session = Session(host, reader.session_id(path))
        except UNREADABLE:
            project = None
        if project is None:
            skipped.append(str(path))
        elif said and not is_paused(project.user_id):
            new = Captured(len(said))
            try:
                if memory is not None:
                    new = await capture(memory, project, session, said)
            except InvalidInputError:  # a session or a directory whose name no memory can have
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


def _transcripts(host: str) -> list[Path]:
    try:
        return list(transcripts(host))
    except OSError:  # one file that has them all
        return []
