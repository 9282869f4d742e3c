"""Watching: both sides stay in step while an agent runs."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
import structlog
from support.context import FakeDocument

from memory_actors import InvalidInputError, SystemClosedError
from memory_actors.integrations.context_files import syncing
from memory_actors.integrations.context_files.syncing import SyncReport, watch

pytestmark = pytest.mark.anyio
TEXT = "# T\n\n- a\n"


@asynccontextmanager
async def watched(document: FakeDocument, file: Path) -> AsyncIterator[list[SyncReport]]:
    reports: list[SyncReport] = []

    async def run() -> None:
        async for report in watch(document, file, interval_s=0.001):
            reports.append(report)  # noqa: PERF401 - as they come

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run)
        yield reports
        tasks.cancel_scope.cancel()


async def until(condition) -> None:
    with anyio.fail_after(10):
        while not condition():
            await anyio.sleep(0.001)


async def test_edits_of_either_side_reach_the_other(tmp_path) -> None:
    document, file = FakeDocument(TEXT), tmp_path / "MEMORY.md"
    async with watched(document, file) as reports:
        await until(file.exists)
        file.write_text(TEXT + "- from the file\n")
        await until(lambda: "from the file" in document.text)
        document.set(document.text + "- from the document\n")
        await until(lambda: "from the document" in file.read_text())
        await until(lambda: reports and file.read_text() == document.text)


async def test_what_stands_still_is_not_synced_again(tmp_path, monkeypatch) -> None:
    syncs = []
    sync = syncing.sync

    async def counted(*arguments, **options):
        syncs.append(arguments)
        return await sync(*arguments, **options)

    monkeypatch.setattr(syncing, "sync", counted)
    watched_one = syncing._Watched(FakeDocument(TEXT), tmp_path / "MEMORY.md", auto_archive=False)
    first = await watched_one.step()
    assert first is not None
    assert first.file_changed
    for _ in range(5):
        assert await watched_one.step() is None
    assert len(syncs) == 2, "one that made the file, one that saw that all is well"


async def test_a_file_being_written_is_left_alone(tmp_path) -> None:
    """A file that is being written is left until it stands still."""
    document, file = FakeDocument(TEXT), tmp_path / "MEMORY.md"
    step = syncing._Watched(document, file, auto_archive=False).step
    for _ in range(3):
        await step()
    file.write_text("")
    await step()
    assert document.text == TEXT
    file.write_text(TEXT + "- b\n")
    await step()
    assert document.text == TEXT
    await step()
    assert document.text == TEXT + "- b\n"


async def test_it_survives_errors_and_warns_once(tmp_path) -> None:
    document, file = FakeDocument(TEXT), tmp_path / "MEMORY.md"
    file.write_bytes(b"\xff")
    with structlog.testing.capture_logs() as logs:
        async with watched(document, file) as reports:
            await until(lambda: logs)
            await anyio.sleep(0.02)
            assert len(logs) == 1
            assert "UTF-8" in logs[0]["error"]
            file.write_text("- mine\n")
            await until(lambda: reports)
    assert "- mine\n" in document.text


async def test_a_failure_is_tried_again_by_itself_after_a_while(tmp_path, monkeypatch) -> None:
    document, file = FakeDocument(TEXT), tmp_path / "MEMORY.md"
    file.write_text("- mine\n")
    now = [0.0]
    monkeypatch.setattr(syncing, "monotonic", lambda: now[0])

    def full() -> None:
        raise InvalidInputError("no room")

    document.before_append = [full]
    step = syncing._Watched(document, file, auto_archive=False).step
    assert (await step(), await step()) == (None, None)
    now[0] += syncing.RETRY_S
    report = await step()
    assert report is not None
    assert report.changes


async def test_it_ends_when_the_memory_closes(tmp_path, monkeypatch) -> None:
    async def closed(*_arguments, **_options):
        raise SystemClosedError("closed")

    monkeypatch.setattr(syncing, "sync", closed)
    async for _ in watch(FakeDocument(TEXT), tmp_path / "MEMORY.md", interval_s=0):
        pytest.fail("nothing was synced")
