"""Taking words out of events that stay."""

from pathlib import Path
from typing import Any

import pytest
from contracts.stores import Noted, open_store

from eventlog import CorruptLog, EventLog, PayloadDropped, PgEventStore, Snapshot

pytestmark = pytest.mark.anyio
SECRET = "the secret word"


@pytest.fixture(params=["lmdb", "encrypted", "postgres", "encrypted postgres"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def hidden(fields: dict[str, Any]) -> dict[str, Any]:
    return {**fields, "text": str(fields["text"]).replace(SECRET, "[gone]")}


def files_with(path: Path, words: bytes) -> list[str]:
    return [one.name for one in path.rglob("*") if one.is_file() and words in one.read_bytes()]


async def test_no_byte_of_a_redacted_word_is_left_and_all_else_is_as_it_was(
    kind: str, tmp_path: Path
) -> None:
    async with open_store(kind, tmp_path) as log:
        assert isinstance(log, EventLog | PgEventStore)
        said = [f"{SECRET} {n} " * 200 if n % 2 else f"plain {n} " * 200 for n in range(6)]
        await log.append("s", [Noted(text, (f"k{n}",)) for n, text in enumerate(said)], 0)
        await log.append("t", [Noted("of another")], 0)
        await log.archive("s", [1, 2, 3])
        await log.save_snapshot("s", Snapshot(6, SECRET.encode()), "shape")
        before = await log.read_stream("s")
        heads = await log.heads()

        assert await log.redact("s", hidden) == 3
        assert await log.redact("s", hidden) == 0
        await log.append("s", [Noted("later")], 6)

        after = await log.read_stream("s")
        assert [one.data.text for one in after[:6]] == [
            text.replace(SECRET, "[gone]") for text in said
        ]
        for was, now in zip(before, after[:6], strict=True):
            assert (was.version, was.position, was.meta) == (now.version, now.position, now.meta)
            assert (was.stored_bytes, was.recorded_at_us) == (now.stored_bytes, now.recorded_at_us)
        assert await log.versions_about("s", "k1") == [2]
        assert await log.load_snapshot("s", "shape") is None
        report = await log.verify(against=heads)
        assert report.ok, report.findings
        assert report.redacted_events == 3
        assert report.archived_events in (2, 3), "a database keeps a redacted one there"
        await log.drop_archived(1 << 60)
        with pytest.raises(PayloadDropped):
            await log.read_stream("s")
    assert files_with(tmp_path, SECRET.encode()) == []
    if kind in ("lmdb", "encrypted"):  # a database is lent anew
        async with open_store(kind, tmp_path) as log:
            assert (await log.read_versions("s", [2]))[0].data.text.startswith("[gone]")


async def test_a_redacted_payload_that_is_damaged_is_found(tmp_path: Path) -> None:
    async with open_store("lmdb", tmp_path) as log:
        assert isinstance(log, EventLog)
        await log.append("s", [Noted(SECRET)], 0)
        await log.redact("s", hidden)
    (file,) = (one for one in tmp_path.rglob("*.mdb") if b"[gone]" in one.read_bytes())
    data = file.read_bytes()
    file.write_bytes(data.replace(b"[gone]", b"[gome]"))
    async with open_store("lmdb", tmp_path) as log:
        with pytest.raises(CorruptLog):
            await log.read_stream("s")
