"""Files of other programs, damaged in every way: a typed error, or memories and a report.

Whatever a file holds, reading it raises nothing but `InvalidInputError`, and adding what was read
adds each record whole or not at all.
"""

import asyncio
import json
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.fakes import FakeEmbedder
from support.foreign import SAMPLES

from memory_actors import InvalidInputError, MemorySystem
from memory_actors.interchange import ImportPlan, ImportReport, import_from, plan_import

every_sample = pytest.mark.parametrize("sample", SAMPLES)
some = settings(max_examples=15, suppress_health_check=list(HealthCheck))
few = settings(max_examples=4, suppress_health_check=list(HealthCheck))

STRANGE = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([1 << 63, -(1 << 200), 10**400, 1e308, float("nan"), float("-inf")])
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from(["\x00", "\ud800", "a" * 300_000, "2025-01-10", "9999999-01-01", "*", " "]),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=8,
)
"""JSON that no field expects."""


@contextmanager
def made(sample: str) -> Iterator[tuple[str, Path, Path]]:
    """Write a sample; yield its program, its path, and the directory it is in."""
    program, write = SAMPLES[sample]
    folder = Path(tempfile.mkdtemp())
    try:
        yield program, write(folder), folder
    finally:
        shutil.rmtree(folder)


def files_of(folder: Path) -> list[Path]:
    return sorted(one for one in folder.rglob("*") if one.is_file())


def planned(program: str, path: Path, **how: Any) -> ImportPlan | None:
    """Read files; return None where they are refused as they must be."""
    try:
        plan = asyncio.run(plan_import(program, path, **how))
    except InvalidInputError:
        return None
    report = plan.report()
    assert plan.records == plan.nobodys + plan.users.total()
    assert report.added + report.unchanged <= plan.records
    assert report.left_out <= sum(note.lines for note in report.notes)
    return plan


@every_sample
@some
@given(data=st.data())
def test_damaged_bytes(sample: str, data: st.DataObject) -> None:
    with made(sample) as (program, path, folder):
        one = data.draw(st.sampled_from(files_of(folder)))
        content = bytearray(one.read_bytes())
        for _ in range(data.draw(st.integers(1, 4))):
            at = data.draw(st.integers(0, len(content)))
            end = at + data.draw(st.sampled_from([0, 1, 8, 4096]))
            content[at:end] = data.draw(st.binary(max_size=16) | st.just(content[:200]))
        one.write_bytes(content)
        planned(program, path)


@every_sample
@some
@given(data=st.data())
def test_truncated_files(sample: str, data: st.DataObject) -> None:
    with made(sample) as (program, path, folder):
        one = data.draw(st.sampled_from(files_of(folder)))
        one.write_bytes(one.read_bytes()[: data.draw(st.integers(0, one.stat().st_size - 1))])
        planned(program, path)


@every_sample
@some
@given(content=st.binary(max_size=300) | st.text(max_size=300).map(lambda t: t.encode("utf-16")))
def test_files_of_anything(sample: str, content: bytes) -> None:
    with made(sample) as (program, path, folder):
        for one in files_of(folder):
            one.write_bytes(content)
        planned(program, path)


def replaced(value: Any, data: st.DataObject) -> Any:
    """Return JSON with one thing in it replaced by something strange."""
    places = list(value) if isinstance(value, dict) else []
    places = list(range(len(value))) if isinstance(value, list) else places
    if not places or data.draw(st.integers(0, 5)) == 0:
        return data.draw(STRANGE)
    chosen = data.draw(st.sampled_from(places))
    copy = value.copy()
    copy[chosen] = replaced(value[chosen], data)
    return copy


JSONS = ["mem0", "zep", "letta", "claude"]


def with_strange_json(path: Path, data: st.DataObject) -> None:
    target = path if path.is_file() else path / "conversations.json"
    value = json.loads(target.read_text())
    is_in_a_string = isinstance(value, str)
    value = json.loads(value) if is_in_a_string else value
    for _ in range(data.draw(st.integers(1, 3))):
        value = replaced(value, data)
    target.write_text(json.dumps(json.dumps(value) if is_in_a_string else value))


@pytest.mark.parametrize("sample", JSONS)
@some
@given(data=st.data())
def test_json_of_wrong_types(sample: str, data: st.DataObject) -> None:
    with made(sample) as (program, path, _):
        with_strange_json(path, data)
        how = data.draw(
            st.sampled_from([{}, {"user_field": "metadata.0"}, {"fields": {"id": "content"}}])
        )
        planned(program, path, **how)


TABLES = {
    "langgraph": ("store.sqlite", ["store"]),
    "chroma": ("chroma/chroma.sqlite3", ["collections", "embeddings", "embedding_metadata"]),
}
CELLS = (
    st.none()
    | st.integers(-(1 << 63), (1 << 63) - 1)
    | st.floats()
    | st.text(max_size=40)
    | st.binary(max_size=40)
    | STRANGE.map(lambda value: json.dumps(value))
)


def with_strange_cell(folder: Path, sample: str, data: st.DataObject) -> None:
    file, tables = TABLES[sample]
    with closing(sqlite3.connect(folder / file)) as database, database:
        database.execute("PRAGMA ignore_check_constraints = ON")
        table = data.draw(st.sampled_from(tables))
        names = [row[1] for row in database.execute(f"PRAGMA table_info({table})")]
        name = data.draw(st.sampled_from(names))
        value = data.draw(CELLS)
        value = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
        cast = data.draw(st.sampled_from(["?", "CAST(? AS TEXT)"]))
        try:
            database.execute(f"UPDATE OR IGNORE {table} SET {name} = {cast}", (value,))
        except sqlite3.Error:  # a column that does not take it
            return


@pytest.mark.parametrize("sample", TABLES)
@some
@given(data=st.data())
def test_tables_of_wrong_types(sample: str, data: st.DataObject) -> None:
    with made(sample) as (program, path, folder):
        with_strange_cell(folder, sample, data)
        planned(program, path)


@pytest.mark.parametrize("sample", [*JSONS, *TABLES])
@few
@given(data=st.data())
def test_what_was_read_is_added_whole_or_left_out(sample: str, data: st.DataObject) -> None:
    """An import adds each item whole or leaves it out; a second import adds nothing."""

    async def tried(memory: MemorySystem, program: str, path: Path) -> ImportReport:
        dry = await import_from(memory, program, path, user_id="me", dry_run=True)
        real = await import_from(memory, program, path, user_id="me")
        assert dry.users == real.users
        assert dry.added + dry.left_out == real.added + real.unchanged + real.left_out
        return real

    async def work(program: str, path: Path, folder: Path) -> None:
        store = MemorySystem.open(folder / "memory", embedder=FakeEmbedder(), share=False)
        async with store as memory:
            try:
                first = await tried(memory, program, path)
            except InvalidInputError:
                assert await memory.users() == []
                return
            users = await memory.users()
            count = sum([1 for user in users async for _ in memory.user(user).export()])
            assert count <= first.added  # a document that is said twice is one
            again = await tried(memory, program, path)
            assert again.added == 0 or count < first.added
            assert await memory.users() == users
            assert (await memory.verify()).ok

    with made(sample) as (program, path, folder):
        if sample in TABLES:
            with_strange_cell(folder, sample, data)
        else:
            with_strange_json(path, data)
        asyncio.run(work(program, path, folder))
