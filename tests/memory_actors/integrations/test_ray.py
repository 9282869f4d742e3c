"""A function for every user of a store, on a Ray cluster of this machine."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.fakes import FakeEmbedder
from support.pages import blocks, check_printed, printed_by
from support.postgres import lent_url

from memory_actors import InvalidInputError, MemorySystem, ModelMismatchError

pytest.importorskip("ray", reason="Ray is not installed: pip install -e '.[ray]'")

import ray

from memory_actors.integrations.ray import UserDone, each_user

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300), pytest.mark.xdist_group("ray")]
ROOT = Path(__file__).parents[3]
NAMES = [f"user {n}" for n in range(7)]


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    folder = tempfile.mkdtemp(prefix="ray", dir="/tmp")  # paths of sockets are short
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(map(str, (ROOT, ROOT / "tests"))))
        patch.setenv("XDG_CACHE_HOME", f"{folder}/cache")
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, _temp_dir=folder)
        yield
        ray.shutdown()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(params=["directory", pytest.param("database", marks=pytest.mark.slow)])
def store(request: pytest.FixtureRequest, tmp_path: Path, cluster: None) -> Iterator[str]:
    if request.param == "directory":
        yield str(tmp_path / "memory")
        return
    pytest.importorskip("psycopg", reason="PostgreSQL is not installed: pip install -e '.[dev]'")
    with lent_url() as url:
        yield url


def opened(store: str) -> Any:
    return MemorySystem.open(store, embedder=FakeEmbedder())


async def fill(store: str) -> None:
    async with opened(store) as memory:
        for name in NAMES:
            await memory.user(name).add(f"{name} likes tea")


async def run(store: str, work: Any, **options: Any) -> dict[str, UserDone]:
    options.setdefault("embedder", FakeEmbedder())
    return {done.user_id: done async for done in each_user(store, work, batch=2, **options)}


async def note(memory: Any, user_id: str) -> tuple[str, int]:
    user = memory.user(user_id)
    await user.add("was visited")
    return (await user.retrieve("tea"))[0].content, os.getpid()


async def test_a_function_is_called_for_every_user_in_other_processes(store) -> None:
    await fill(store)

    done = await run(store, note)

    assert sorted(done) == NAMES
    assert {name: one.value[0] for name, one in done.items()} == {
        n: f"{n} likes tea" for n in NAMES
    }
    assert os.getpid() not in {one.value[1] for one in done.values()}
    async with opened(store) as memory:
        assert {await memory.user(name).count() for name in NAMES} == {2}


async def test_a_journal_passes_over_the_users_that_are_done(store, tmp_path: Path) -> None:
    """Users that failed, and one whose line was cut off in the middle, are done again."""
    await fill(store)
    is_mended, journal = tmp_path / "mended", tmp_path / "journal"

    async def work(_memory: Any, user_id: str) -> str:
        if user_id == NAMES[3] and not is_mended.exists():
            raise ValueError("not yet")
        return user_id

    first = await run(store, work, journal=journal)
    assert [one.error for one in first.values() if one.error] == ["ValueError: not yet"]
    is_mended.touch()
    lines = journal.read_bytes().splitlines(keepends=True)
    cut_off = lines[-1].decode().strip().strip('"')
    journal.write_bytes(b"".join(lines)[:-3])
    assert sorted(await run(store, work, journal=journal)) == sorted([NAMES[3], cut_off])
    assert await run(store, work, journal=journal) == {}
    with pytest.raises(InvalidInputError, match="no journal of"):
        await run(store, note, journal=journal)
    assert journal.stat().st_mode & 0o077 == 0
    with pytest.raises(InvalidInputError, match="cannot be opened"):
        await run(store, work, journal=tmp_path / "missing" / "journal")


async def test_users_whose_process_dies_are_done_in_another_one(store, tmp_path: Path) -> None:
    await fill(store)
    has_died = tmp_path / "died"

    async def work(_memory: Any, user_id: str) -> str:
        if user_id == NAMES[0] and not has_died.exists():
            has_died.touch()
            os._exit(1)
        return user_id

    done = await run(store, work)
    assert {one.user_id: one.value for one in done.values()} == {name: name for name in NAMES}


async def test_another_model_embeds_every_user_again(store) -> None:
    await fill(store)

    async def search(memory: Any, user_id: str) -> str:
        return str((await memory.user(user_id).retrieve("tea"))[0].content)

    done = await run(store, search, embedder=FakeEmbedder("fake/2"), reindex=True)

    assert [one.error for one in done.values()] == [None] * len(NAMES)
    async with MemorySystem.open(store, embedder=FakeEmbedder("fake/2")) as memory:
        assert len(await memory.user(NAMES[0]).retrieve("tea")) == 1


async def test_a_store_that_a_task_cannot_open_ends_the_run(tmp_path: Path, cluster: None) -> None:
    path = str(tmp_path / "memory")
    await fill(path)
    with pytest.raises(ModelMismatchError):
        await run(path, note, embedder=FakeEmbedder("other/1"))


async def test_work_that_cannot_be_pickled_is_refused(tmp_path: Path, cluster: None) -> None:
    path, file = str(tmp_path / "memory"), (tmp_path / "open").open("w")
    await fill(path)

    async def work(_memory: Any, user_id: str) -> str:
        file.write(user_id)
        return user_id

    with pytest.raises(InvalidInputError, match="cannot be sent to Ray"):
        await run(path, work)
    file.close()


def test_the_code_of_the_page_prints_what_it_says(
    tmp_path: Path, cluster: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", ray.get_runtime_context().gcs_address)
    (program,) = blocks("docs/integrations/ray.md")
    check_printed(program, printed_by(tmp_path, "-c", program))
