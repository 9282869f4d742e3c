"""The stores we are compared with, each used as its own documentation says."""

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from time import perf_counter
from typing import Any

import lmdb
from eventsourcing.application import Application
from eventsourcing.domain import Aggregate, event

SAVE_EVENTS = 1_000  # when a history is made, not measured


def append_lmdb(path: Path, batches: list[list[bytes]]) -> list[float]:
    """Put frames into a bare LMDB file, one synced transaction a batch; return seconds a batch."""
    times_s, position = [], 0
    env = lmdb.open(str(path), subdir=False, map_size=1 << 40, max_spare_txns=1, lib_version=0)
    with closing(env):
        for batch in batches:
            started_s = perf_counter()
            with env.begin(write=True) as txn:
                for data in batch:
                    position += 1
                    txn.put(position.to_bytes(8, "big"), data, append=True)
            times_s.append(perf_counter() - started_s)
    return times_s


def append_sqlite(path: Path, batches: list[list[bytes]]) -> list[float]:
    """Insert frames into SQLite, one synced transaction a batch; return seconds a batch."""
    times_s, position = [], 0
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("PRAGMA synchronous=FULL")
        db.execute(
            "CREATE TABLE events (position INTEGER PRIMARY KEY, stream TEXT NOT NULL, "
            "version INTEGER NOT NULL, frame BLOB NOT NULL, UNIQUE (stream, version))"
        )
        for batch in batches:
            started_s = perf_counter()
            db.execute("BEGIN IMMEDIATE")
            rows = [(position + n, f"user:{n}", position + n, f) for n, f in enumerate(batch, 1)]
            db.executemany("INSERT INTO events VALUES (?, ?, ?, ?)", rows)
            db.execute("COMMIT")
            position += len(batch)
            times_s.append(perf_counter() - started_s)
    return times_s


class Diary(Aggregate):
    """An aggregate of memories, with the events that an application of that library would have."""

    def __init__(self) -> None:
        self.notes: dict[str, str] = {}

    @event("Noted")
    def note(self, memory_id: str, content: str) -> None:
        """Keep a text under an id."""
        self.notes[memory_id] = content


def append_eventsourcing(path: Path, texts: list[list[str]]) -> list[float]:
    """Save each text as one event, a thread and an aggregate for each list; return seconds each."""
    with closing(_application(path)) as application:
        diaries = [Diary() for _ in texts]
        application.save(*diaries)
        with ThreadPoolExecutor(len(texts)) as threads:
            jobs = [
                threads.submit(_note_all, application, diary, mine)
                for diary, mine in zip(diaries, texts, strict=True)
            ]
            return [time_s for job in jobs for time_s in job.result()]


def _note_all(application: "Application[Any]", diary: Diary, texts: list[str]) -> list[float]:
    times_s = []
    for number, text in enumerate(texts):
        started_s = perf_counter()
        diary.note(str(number), text)
        application.save(diary)
        times_s.append(perf_counter() - started_s)
    return times_s


class DiaryHistory:
    """One aggregate with a long history, to be read again and again."""

    def __init__(self, path: Path, texts: list[str]):
        self._application = _application(path)
        diary = Diary()
        for number, text in enumerate(texts):
            diary.note(f"mem_{number:030x}", text)
            if number % SAVE_EVENTS == 0:
                self._application.save(diary)
        self._application.save(diary)
        self._id = diary.id

    def replay_s(self) -> float:
        """Return how long it takes to read the aggregate from its events."""
        started_s = perf_counter()
        self._application.repository.get(self._id)
        return perf_counter() - started_s

    def close(self) -> None:
        """Close the file."""
        self._application.close()


def _application(path: Path) -> "Application[Any]":
    env = {"PERSISTENCE_MODULE": "eventsourcing.sqlite", "SQLITE_DBNAME": str(path)}
    return Application(env)
