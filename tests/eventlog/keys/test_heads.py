"""Heads: what was published of a log proves that its past is the same."""

import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from contracts.stores import Noted, registry

from eventlog import (
    ANY_VERSION,
    CorruptLog,
    EventLog,
    Heads,
    LogUnavailable,
    MissingExtra,
    load_heads,
    write_heads,
)
from eventlog.keys import cryptography

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def opened(path: Path) -> AsyncIterator[EventLog]:
    async with EventLog.open(path, registry) as log:
        yield log


async def fill(log: EventLog, streams: str = "abab") -> None:
    for n, stream in enumerate(streams):
        await log.append(stream, [Noted(f"{stream} {n}")], ANY_VERSION)


async def messages(log: EventLog, heads: Heads) -> list[str]:
    return [found.message for found in (await log.verify(against=heads)).findings]


async def test_another_past_shows(tmp_path: Path):
    """The other log is whole in itself, so that nothing but the heads can tell."""
    async with opened(tmp_path / "one") as log:
        await fill(log)
        heads = await log.heads()
    async with opened(tmp_path / "other") as log:
        await fill(log)
        found = await messages(log, heads)
    assert "the log up to the published head is not the one that was published" in found
    assert found.count("version 2 is not the one that was published") == 2


async def test_a_past_that_was_cut_off_shows(tmp_path: Path):
    async with opened(tmp_path) as log:
        await fill(log, "ab")
        await log.backup(tmp_path / "earlier")
        await fill(log, "ab")
        heads = await log.heads()
    async with opened(tmp_path / "earlier") as log:
        found = await messages(log, heads)
    assert "the log has 2 events of the 4 that were published" in found
    assert "version 2 was published and is not there" in found


async def test_heads_hold_no_names_and_no_content(tmp_path: Path):
    async with opened(tmp_path / "log") as log:
        await log.append("canary-stream", [Noted("canary-text")], 0)
        write_heads(tmp_path / "heads.json", await log.heads())
    assert b"canary" not in (tmp_path / "heads.json").read_bytes()


# --- signatures


@pytest.fixture
def keys(tmp_path: Path) -> tuple[Path, Path]:
    paths = tmp_path / "private.pem", tmp_path / "public.pem"
    cryptography.new_key(*paths)
    return paths


def some_heads() -> Heads:
    return msgspec.convert(
        {"format": 1, "published_at_us": 5, "position": 7, "digest": "ab",
         "streams": {"00" * 16: {"version": 7, "chain": "cd"}}}, Heads,
    )  # fmt: skip


def test_signed_heads_are_read_with_the_public_key(tmp_path: Path, keys: tuple[Path, Path]):
    path = tmp_path / "heads.json"
    write_heads(path, some_heads(), keys[0])

    assert load_heads(path, keys[1]) == some_heads() == load_heads(path)
    assert keys[0].stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data.replace(b'"position": 7', b'"position": 6'),
        lambda data: data.replace(b'"chain": "cd"', b'"chain": "ce"'),
        lambda data: data.replace(b'"signature": "', b'"signature": "00'),
        lambda data: data.replace(b'"signature"', b'"unsigned"'),
    ],
)
def test_heads_that_were_changed_are_not_relied_on(
    tmp_path: Path, keys: tuple[Path, Path], change: Callable[[bytes], bytes]
):
    path = tmp_path / "heads.json"
    write_heads(path, some_heads(), keys[0])
    before = path.read_bytes()
    path.write_bytes(change(before))
    assert path.read_bytes() != before

    with pytest.raises(CorruptLog, match="not signed by the owner"):
        load_heads(path, keys[1])


def test_heads_signed_by_somebody_else_are_not_relied_on(tmp_path: Path, keys: tuple[Path, Path]):
    cryptography.new_key(tmp_path / "other.pem", tmp_path / "other.pub")
    write_heads(tmp_path / "heads.json", some_heads(), tmp_path / "other.pem")

    with pytest.raises(CorruptLog):
        load_heads(tmp_path / "heads.json", keys[1])


def test_a_key_is_never_written_over(keys: tuple[Path, Path], tmp_path: Path):
    with pytest.raises(LogUnavailable, match="cannot make"):
        cryptography.new_key(keys[0], tmp_path / "new.pub")


@pytest.mark.parametrize("data", [b"", b"{}", b"\xff", b'{"heads": {"format": 2}}', b"[1]"])
def test_what_is_no_file_of_heads_is_refused(tmp_path: Path, data: bytes):
    (tmp_path / "heads.json").write_bytes(data)
    with pytest.raises(LogUnavailable):
        load_heads(tmp_path / "heads.json")


def test_without_the_extra_it_is_said_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives", None)
    with pytest.raises(MissingExtra, match="crypto"):
        cryptography.new_key(tmp_path / "a", tmp_path / "b")
