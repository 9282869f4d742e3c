"""Files of JSON lines, in and out."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from support.fakes import FakeEmbedder
from support.given import pro

from memory_actors import EmbedderError, InvalidInputError, Limits, QuotaExceededError
from memory_actors.interchange import export_jsonl, export_lines, exporting, import_jsonl
from memory_actors.interchange import jsonl as module

pytestmark = pytest.mark.anyio

TESTS = Path(__file__).parents[2]
FIRST = '{"role": "user", "content": "likes tea", "timestamp": "2024-05-01", "session": "s1"}'
SECOND = '{"role": "bot", "content": "noted", "timestamp": "2024-05-02", "session": "s1"}'


def chat(count: int) -> list[str]:
    """Return lines with a few equal ones among them."""
    return [
        f'{{"role": "user", "content": "line {n // 2 if n % 50 < 2 else n}", '
        f'"timestamp": {1_700_000_000 + n // 2}, "session": "s{n % 7}"}}'
        for n in range(count)
    ]


async def exported(user) -> list[bytes]:
    return [line async for line in export_lines(user)]


# --- import


async def test_windows_files_and_blank_lines_are_fine(memory, tmp_path) -> None:
    """Windows files, blank lines and a last line without an end are fine."""
    path = tmp_path / "f.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + FIRST.encode() + b"\r\n\r\n  \n" + SECOND.encode())
    assert (await import_jsonl(memory.user("u"), path)).added == 2


@pytest.mark.parametrize("before", [0, 3, 200, 250])
@pytest.mark.parametrize("bad", ["{", "[1]", '{"content": 7}', "\x00"])
async def test_a_bad_line_costs_that_line_alone(memory, file, before: int, bad: str) -> None:
    path = file(*chat(before), bad, '{"content": "behind"}')
    report = await import_jsonl(memory.user("u"), path)
    held = await memory.user("u").list_memories(limit=1000)
    assert (report.added, report.left_out) == (len(held), 1) == (before + 1, 1)
    assert "behind" in {m.content for m in held}
    (note,) = report.notes
    assert note.says.startswith("left out: ")
    assert f"chat.jsonl, line {before + 1})" in note.says


async def test_a_bad_character_costs_itself_alone(memory, file) -> None:
    path = file(
        b'{"content": "cut \\ud83d"}', b'{"content": "\\uDE00\\uD83D"}', b'{"content": "caf\xe9"}',
        b'{"content": "\\ud83d\\ude00"}', b'{"content": "\\\\ud83d"}', b'{"content": "a\tb"}',
    )  # fmt: skip
    report = await import_jsonl(memory.user("u"), path)
    held = {m.content for m in await memory.user("u").list_memories()}
    assert report.left_out == 0
    assert held == {"cut \ufffd", "\ufffd\ufffd", "caf\ufffd", "\U0001f600", "\\ud83d", "a\tb"}


async def test_nothing_understood_is_a_failure_that_names_the_format(memory, tmp_path) -> None:
    message = {"author": {"role": "user"}, "content": {"content_type": "text", "parts": ["hi"]}}
    conversation = {"id": "c", "mapping": {"a": {"id": "a", "message": message}}}
    path = tmp_path / "conversations.json"
    path.write_bytes(msgspec.json.encode([conversation]))
    with pytest.raises(InvalidInputError, match=r"nothing in .* It reads with --from chatgpt$"):
        await import_jsonl(memory.user("u"), path)


async def test_a_full_memory_names_the_first_line_refused(store, file) -> None:
    """A full memory takes the lines that fit, and names the first one that does not."""
    async with store(tiers=pro(Limits(long_term_memories=5))) as memory:
        with pytest.raises(QuotaExceededError, match=r"chat\.jsonl, line 6: .*max: 5") as caught:
            await import_jsonl(memory.user("u"), file(*chat(9)))
        assert len(await memory.user("u").list_memories()) == 5
    assert (caught.value.used, caught.value.limit) == (5, 5)


async def test_an_id_of_another_content_is_left_out(memory, file) -> None:
    path = file('{"id": "a", "content": "x"}', '{"content": "y"}', '{"id": "a", "content": "z"}')
    report = await import_jsonl(memory.user("u"), path)
    assert "'a' stands for another memory" in report.notes[0].says
    assert "line 3)" in report.notes[0].says
    assert {m.content for m in await memory.user("u").list_memories()} == {"x", "y"}


async def test_a_failing_embedder_keeps_imported_memories(
    memory, file, embedder: FakeEmbedder
) -> None:
    """Memories are kept when the embedder fails, and the report says so."""
    embedder.failure = EmbedderError("no model")
    report = await import_jsonl(memory.user("u"), file(FIRST, SECOND))
    assert (report.added, report.unindexed) == (2, 2)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("missing.jsonl", "there is no file"),
        (".", "is a directory"),
        ("binary", r"nothing in .*binary is understood"),
        ("endless", r"endless, line 1 is longer than 4,096 bytes"),
    ],
)
async def test_what_is_no_such_file_is_refused(
    store, tmp_path: Path, monkeypatch, name: str, said: str
) -> None:
    monkeypatch.setattr(module, "LINE_BYTES_MAX", 4096)
    (tmp_path / "binary").write_bytes(b"\x80\x02}q\x00X\x04" * 50)
    (tmp_path / "endless").write_bytes(b"a" * 5000)
    async with store() as memory:
        with pytest.raises(InvalidInputError, match=said):
            await import_jsonl(memory.user("u"), tmp_path / name)


@pytest.mark.user
@pytest.mark.skipif(os.geteuid() == 0, reason="root may read anything")
async def test_a_file_that_may_not_be_read_is_refused(memory, file) -> None:
    path = file(FIRST)
    path.chmod(0)
    with pytest.raises(InvalidInputError, match="cannot be read"):
        await import_jsonl(memory.user("u"), path)


# --- an import that is killed

CHILD = """
import sys
import anyio
from memory_actors import MemorySystem
from memory_actors.interchange import import_jsonl
from support.fakes import FakeEmbedder

async def main():
    async with MemorySystem.open(sys.argv[1], embedder=FakeEmbedder()) as memory:
        told = lambda done, total: print(done, flush=True)
        await import_jsonl(memory.user("u"), sys.argv[2], progress=told)

anyio.run(main)
"""


def kill_after(batches: int, directory: Path, path: Path) -> None:
    """Import in another process and kill it when so many batches are in."""
    command = [sys.executable, "-c", CHILD, str(directory), str(path)]
    environment = {**os.environ, "PYTHONPATH": f"{TESTS}:{TESTS.parent}"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as child:
        assert child.stdout is not None
        for _ in range(batches):
            assert child.stdout.readline()
        child.send_signal(signal.SIGKILL)
    assert child.returncode == -signal.SIGKILL


async def test_a_killed_import_can_be_repeated(store, file, tmp_path: Path) -> None:
    """An import that was killed and run again gives the same as one clean run."""
    path = file(*chat(1600))
    kill_after(1, tmp_path / "killed", path)
    async with store("killed") as memory:
        held = len(await exported(memory.user("u")))
    kill_after(2, tmp_path / "killed", path)
    async with store("killed") as memory, store("clean") as clean:
        report = await import_jsonl(memory.user("u"), path)
        await import_jsonl(clean.user("u"), path)
        assert await exported(memory.user("u")) == await exported(clean.user("u"))
        assert (await memory.verify()).ok
    assert 200 <= held < 1600  # it was killed in the middle
    assert 0 < report.added < 1600 - held


# --- export


async def test_a_failed_export_leaves_the_file_that_was_there(
    store, tmp_path: Path, monkeypatch
) -> None:
    path = tmp_path / "out.jsonl"
    path.write_text("precious")

    def crash(_done: int, _total: int) -> None:
        raise RuntimeError

    monkeypatch.setattr(exporting, "PROGRESS_MEMORIES", 1)
    async with store() as memory:
        await memory.user("u").add("x")
        with pytest.raises(RuntimeError):
            await export_jsonl(memory.user("u"), path, progress=crash)
    assert path.read_text() == "precious"
    assert {p.name for p in tmp_path.iterdir()} == {"memory", "out.jsonl"}


async def test_an_export_is_readable_by_its_owner_only(store, tmp_path: Path) -> None:
    async with store() as memory:
        await export_jsonl(memory.user("u"), tmp_path / "out.jsonl")
    assert (tmp_path / "out.jsonl").stat().st_mode & 0o077 == 0


async def test_a_pipe_is_written_as_it_is(store, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    async with store() as memory:
        await memory.user("u").add("x")
        assert await export_jsonl(memory.user("u"), pipe) == 1
    assert msgspec.json.decode(os.read(reader, 4096))["content"] == "x"
    os.close(reader)
    assert pipe.is_fifo()
