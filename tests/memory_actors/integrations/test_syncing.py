"""A document and its file in step: what each side did, and who interferes when."""

import os
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import anyio
import pytest
from support.context import Entry, FakeDocument

from memory_actors import InvalidInputError, MemoryActorsError, UnavailableError
from memory_actors.base import text_files as files
from memory_actors.base.errors import ContextFileError
from memory_actors.integrations.context_files.merge import base_of
from memory_actors.integrations.context_files.syncing import label_of, sync

pytestmark = [pytest.mark.anyio, pytest.mark.user]

TEXT = (
    "# Memory\n\n## People\n\n- Ann likes tea\n- Bob plays chess on Sundays\n\n"
    "## Work\n\n- Uses uv\n"
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "MEMORY.md"


@pytest.fixture
def document() -> FakeDocument:
    return FakeDocument(TEXT)


async def test_a_missing_file_is_made_from_the_document(document, file) -> None:
    report = await sync(document, file)
    assert (file.read_text(), document.text) == (TEXT, TEXT)
    assert (report.changes, report.file_changed, report.conflicts) == (0, True, ())
    assert stat.S_IMODE(file.stat().st_mode) == 0o600  # it quotes memories


async def test_where_there_is_neither_nothing_is_made(file) -> None:
    document = FakeDocument()
    assert (await sync(document, file)).quiet
    assert (file.exists(), document.appends) == (False, 0)


async def test_an_empty_document_is_made_from_the_file(file) -> None:
    file.write_bytes(TEXT.encode())
    document = FakeDocument()
    report = await sync(document, file)
    assert (file.read_text(), document.text) == (TEXT, TEXT)
    assert (report.changes > 0, report.file_changed) == (True, False)
    assert document.appends == 1


async def test_a_sync_without_edits_changes_nothing(document, file) -> None:
    await sync(document, file)
    before, appends = file.stat(), document.appends
    report = await sync(document, file)
    assert report.quiet
    assert (file.stat(), document.appends) == (before, appends)


async def test_edits_of_both_sides_reach_the_other(document, file) -> None:
    await sync(document, file)
    ids = {block.raw: block.block_id for block in document.live}
    file.write_text(TEXT.replace("likes tea", "likes green tea").replace("- Uses uv\n", ""))
    document.set(TEXT.replace("on Sundays\n", "on Mondays\n- Cy is new\n"))
    report = await sync(document, file)
    merged = (
        "# Memory\n\n## People\n\n- Ann likes green tea\n- Bob plays chess on Mondays\n"
        "- Cy is new\n\n## Work\n\n"
    )
    assert (file.read_text(), document.text) == (merged, merged)
    assert report.conflicts == ()
    kept = {block.raw: block.block_id for block in document.live}
    assert kept["- Ann likes green tea\n"] == ids["- Ann likes tea\n"]


async def test_an_entry_edited_in_both_is_kept_twice(document, file) -> None:
    await sync(document, file)
    file.write_text(TEXT.replace("likes tea", "likes green tea"))
    document.set(TEXT.replace("likes tea", "likes black tea"))
    report = await sync(document, file)
    assert "- Ann likes black tea\n- Ann likes green tea\n" in document.text
    (conflict,) = report.conflicts
    assert (conflict.reason, conflict.document, conflict.file) == (
        "edited in both", "Ann likes black tea", "Ann likes green tea"
    )  # fmt: skip
    assert document.text == file.read_text()


async def test_an_entry_edited_alike_in_both_is_kept_once(document, file) -> None:
    await sync(document, file)
    edited = TEXT.replace("likes tea", "likes green tea")
    file.write_text(edited)
    document.set(edited)
    report = await sync(document, file)
    assert (report.conflicts, file.read_text(), document.text) == ((), edited, edited)


async def test_what_was_edited_here_and_removed_in_the_file_stays(document, file) -> None:
    await sync(document, file)
    file.write_text(TEXT.replace("- Ann likes tea\n", ""))
    document.set(TEXT.replace("likes tea", "likes black tea"))
    (conflict,) = (await sync(document, file)).conflicts
    assert conflict.reason == "edited here, removed in the file"
    assert "- Ann likes black tea\n" in file.read_text() == document.text


@pytest.mark.parametrize("archived", [True, False])
async def test_an_entry_edited_there_and_removed_here_stays(document, file, archived) -> None:
    """An entry that was edited in the file and has gone here stays."""
    await sync(document, file)
    ann = next(block.block_id for block in document.live if "Ann" in block.raw)
    if archived:
        document.archive(ann)
    else:
        document.set(TEXT.replace("- Ann likes tea\n", ""))
    file.write_text(TEXT.replace("likes tea", "likes green tea"))
    (conflict,) = (await sync(document, file)).conflicts
    assert (conflict.entry_id, conflict.reason) == (ann, "edited in the file, gone here")
    assert "- Ann likes green tea\n" in file.read_text() == document.text


async def test_archived_entries_move_into_the_mirror(document, file) -> None:
    """Entries that were archived go from the file and into its mirror."""
    await sync(document, file)
    for name in [block.block_id for block in document.live if block.raw.startswith("- ")]:
        document.archive(name)
    report = await sync(document, file)
    assert file.read_text() == "# Memory\n\n## People\n\n## Work\n\n"
    assert report.archive_path == str(file.with_name("MEMORY-archive.md"))
    assert Path(report.archive_path).read_text() == (
        "<!-- Generated by memory-actors: archived entries of MEMORY.md. Edits of this file are "
        "not read. -->\n\n## People\n\n- Ann likes tea\n- Bob plays chess on Sundays\n\n"
        "## Work\n\n- Uses uv\n"
    )


async def test_the_mirror_follows_the_archive_and_nothing_else(document, file) -> None:
    mirror = file.with_name("MEMORY-archive.md")
    assert (await sync(document, file)).archive_path is None
    assert not mirror.exists()
    document.archive(document.live[2].block_id)
    await sync(document, file)
    mirror.write_text(mirror.read_text() + "- mine\n")
    document.gone.clear()
    await sync(document, file)
    assert mirror.read_text().count("\n") == 1
    with pytest.raises(ContextFileError, match="mirrors an archive"):
        await sync(document, mirror)
    mirror.write_text("my own\n")
    document.set(TEXT)
    report = await sync(document, file)
    assert "rename it" in (report.warning or "")
    assert (mirror.read_text(), file.read_text()) == ("my own\n", TEXT)


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664])
async def test_a_mirror_takes_the_mode_of_the_file_it_mirrors(document, file, mode: int) -> None:
    mirror = file.with_name("MEMORY-archive.md")
    document.archive(document.live[2].block_id)
    await sync(document, file)
    assert [stat.S_IMODE(path.stat().st_mode) for path in (file, mirror)] == [0o600, 0o600]

    file.chmod(mode)
    await sync(document, file)

    assert stat.S_IMODE(mirror.stat().st_mode) == mode
    assert (await sync(document, file)).quiet


async def test_another_file_is_a_first_sync(document, file, tmp_path) -> None:
    """An entry that one file lacks was not removed from another."""
    await sync(document, file)
    other = tmp_path / "other" / "MEMORY.md"
    other.parent.mkdir()
    other.write_text("# Memory\n\n## People\n\n- Dora\n")
    await sync(document, other)
    assert "- Ann likes tea\n- Bob plays chess on Sundays\n\n- Dora\n" in document.text
    assert other.read_text() == document.text


# --- files


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda file: file.mkdir(), "is not a file"),
        (lambda file: os.mkfifo(file), "is not a file"),
        (lambda file: file.write_bytes(b"caf\xe9"), r"not UTF-8 \(byte 3\)"),
        (lambda file: file.write_bytes(b"x" * (files.FILE_BYTES_MAX + 1)), "larger than"),
    ],
)
async def test_a_file_that_is_no_text_is_refused(document, file, make, message: str) -> None:
    make(file)
    with pytest.raises(ContextFileError, match=message):
        await sync(document, file)
    assert (document.text, document.appends) == (TEXT, 0)


async def test_a_missing_directory_is_refused(document, tmp_path) -> None:
    with pytest.raises(ContextFileError, match="no directory"):
        await sync(document, tmp_path / "nowhere" / "MEMORY.md")


@pytest.mark.parametrize(
    "junk", ["\x00", "\ufeff# T\r\n\r\n- a\r\n", "```\n", "\n\n\n", "\r", "-\n-"]
)
async def test_any_text_is_taken_over_as_it_is(file, junk: str) -> None:
    file.write_bytes(junk.encode())
    document = FakeDocument()
    await sync(document, file)
    assert (document.text, file.read_bytes()) == (junk, junk.encode())


async def test_a_replaced_file_keeps_its_mode_and_its_symbolic_link(document, tmp_path) -> None:
    real, link = tmp_path / "real.md", tmp_path / "link.md"
    real.write_text("- mine\n")
    real.chmod(0o600)
    link.symlink_to(real)
    await sync(document, link)
    assert link.is_symlink()
    assert (real.read_text(), stat.S_IMODE(real.stat().st_mode)) == (document.text, 0o600)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.md", "real.md"]


async def test_what_is_over_the_limit_leaves_both_as_they_are(document, file) -> None:
    await sync(document, file)
    document.limit = len(TEXT)
    larger = TEXT + "- more\n"
    file.write_text(larger)
    with pytest.raises(InvalidInputError, match="hard limit"):
        await sync(document, file)
    assert (document.text, file.read_text()) == (TEXT, larger)


async def test_auto_archive_makes_room_and_the_file_follows(document, file) -> None:
    await sync(document, file)
    document.limit = len(TEXT)
    file.write_text(TEXT + "- more\n")
    report = await sync(document, file, auto_archive=True)
    assert len(report.archived) == 1
    assert "Ann" not in file.read_text() == document.text
    assert "Ann" in file.with_name("MEMORY-archive.md").read_text()


# --- at the same time


async def test_a_write_between_reading_and_appending_is_merged(document, file) -> None:
    await sync(document, file)
    file.write_text(TEXT + "- from the file\n")
    document.before_append = [lambda: document.set(TEXT.replace("Uses uv", "Uses uv daily"))]
    await sync(document, file)
    assert file.read_text() == document.text == TEXT.replace("uv", "uv daily") + "- from the file\n"


def interfere(monkeypatch: pytest.MonkeyPatch, name: str, action: Callable[[], None]) -> None:
    """Do something once, right before a step of the replacement."""
    step, left = getattr(files, name), [action]

    def interfered(*arguments):
        if left:
            left.pop()()
        return step(*arguments)

    monkeypatch.setattr(files, name, interfered)


def no_exchange(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_exchange", lambda *_: False)


@pytest.mark.parametrize("exchange", [True, False])
@pytest.mark.parametrize("step", ["replace", "_write", "_swap", "_is_still"])
@pytest.mark.parametrize("atomic", [True, False])
async def test_an_edit_made_meanwhile_is_never_overwritten(
    document, file, monkeypatch, exchange: bool, step: str, atomic: bool
) -> None:
    def edit() -> None:
        text = file.read_text() + "- meanwhile\n"
        if atomic:
            file.with_name("editor").write_text(text)
            file.with_name("editor").replace(file)
        else:
            file.write_text(text)

    if not exchange:
        no_exchange(monkeypatch)
    await sync(document, file)
    document.set(TEXT + "- from the document\n")
    interfere(monkeypatch, step, edit)
    await sync(document, file)
    assert "- meanwhile\n" in file.read_text() == document.text
    assert "- from the document\n" in document.text
    assert [path.name for path in file.parent.iterdir()] == ["MEMORY.md"]


async def test_a_file_that_is_being_written_is_waited_for(document, file) -> None:
    """An editor that has it open, and has written nothing yet, is not cut off from its file."""
    await sync(document, file)
    document.set(TEXT + "- from the document\n")
    editor = file.open("a")
    with pytest.raises(ContextFileError, match="open for writing in another program"):
        await sync(document, file)
    editor.write("- late\n")
    editor.close()
    await sync(document, file)
    assert "- late\n" in file.read_text() == document.text


async def test_a_file_that_goes_meanwhile_is_made_again(document, file, monkeypatch) -> None:
    await sync(document, file)
    document.set(TEXT + "- from the document\n")
    interfere(monkeypatch, "_swap", file.unlink)
    await sync(document, file)
    assert file.read_text() == document.text == TEXT + "- from the document\n"


async def test_a_file_that_comes_meanwhile_is_merged(document, file, monkeypatch) -> None:
    interfere(monkeypatch, "_create", lambda: file.write_text("- mine\n"))
    await sync(document, file)
    assert "- mine\n" in file.read_text() == document.text
    assert "Ann" in document.text


async def test_two_edits_in_one_instant_are_both_kept(document, file, monkeypatch) -> None:
    await sync(document, file)
    document.set(TEXT + "- from the document\n")
    contents = iter([lambda: False, lambda: False])
    monkeypatch.setattr(files, "_is_still", lambda *_: next(contents)())
    with pytest.raises(ContextFileError, match="edited twice"):
        await sync(document, file)
    kept = next(path for path in file.parent.iterdir() if path.suffix == ".kept")
    assert {file.read_text(), kept.read_text()} == {TEXT, document.text}


async def test_leftovers_of_a_dead_sync_are_swept(document, file, monkeypatch) -> None:
    """The leftovers of a dead sync are swept, unless they are somebody's."""
    await sync(document, file)
    seen = files.read(file)
    ours, theirs = files._scratch(seen, b"ours"), files._scratch(seen, b"ours")
    ours.write_bytes(b"ours")
    theirs.write_bytes(b"an edit made meanwhile")
    half = ours.with_suffix(".new")
    half.write_bytes(b"ou")
    others = [file.with_name(name) for name in (".MEMORY.md.backup.new", ".MEMORY.md.mine.tmp")]
    for other in others:
        other.write_text("precious")
    (file.parent / "link").hardlink_to(others[1])
    await sync(document, file)
    assert ours.exists(), "its process may live"
    monkeypatch.setattr(files, "LEFT_BEHIND_S", -1)
    await sync(document, file)
    left = [theirs.name, file.name, "link", *(other.name for other in others)]
    assert sorted(path.name for path in file.parent.iterdir()) == sorted(left)


async def test_a_read_only_file_is_not_replaced(document, file, monkeypatch) -> None:
    """Its directory may be writable, and root may write to anything."""
    file.write_text("- mine\n")
    monkeypatch.setattr(files.os, "access", lambda *_arguments, **_options: False)
    with pytest.raises(ContextFileError, match="read-only"):
        await sync(document, file)
    assert file.read_text() == "- mine\n"


async def test_lines_that_end_in_carriage_returns_alone_are_refused(document, file) -> None:
    file.write_bytes(b"# T\r- x\r")
    with pytest.raises(ContextFileError, match="carriage returns"):
        await sync(document, file)


async def test_a_file_of_too_many_entries_is_refused(document, file) -> None:
    file.write_text("-\n" * 10_001)
    with pytest.raises(ContextFileError, match="10,001 entries"):
        await sync(document, file)


async def test_what_came_out_unseen_is_not_thrown_away(document, file, monkeypatch) -> None:
    """The disk fails between the swap and the look at what came out."""
    await sync(document, file)
    document.set(TEXT + "- from the document\n")

    def fails(*_arguments):
        raise OSError("input/output error")

    monkeypatch.setattr(files, "_is_still", fails)
    interfere(monkeypatch, "_swap", lambda: file.write_text("an edit made meanwhile"))
    with pytest.raises(ContextFileError, match="input/output error"):
        await sync(document, file)
    texts = {path.read_text() for path in file.parent.iterdir()}
    assert texts == {document.text, "an edit made meanwhile"}


async def test_a_large_archive_is_mirrored(document, file) -> None:
    document.gone = [Entry(f"e{n}", "S", f"- {'x' * 1000} {n}\n") for n in range(1_200)]
    for _ in range(2):
        assert (await sync(document, file)).warning is None
    assert file.with_name("MEMORY-archive.md").stat().st_size > files.FILE_BYTES_MAX


async def test_two_syncs_at_once_end_in_step(document, file) -> None:
    file.write_text(TEXT + "- from the file\n")
    document.set(TEXT.replace("tea", "mint tea"))
    async with anyio.create_task_group() as tasks:
        for _ in range(4):
            tasks.start_soon(sync, document, file)
    assert file.read_text() == document.text
    assert document.text.count("- from the file\n") == 1
    assert (await sync(document, file)).quiet


async def test_a_sync_that_another_overtook_notes_nothing_of_its_own(document, file) -> None:
    """It would say that the file lacks what the other has put there."""

    def overtake() -> None:
        document.set(document.text + "- from another sync\n")
        file.write_text(document.text)
        document.base = (label_of(file.resolve()), base_of(document.live))

    document.before_append = [overtake]
    await sync(document, file)
    file.write_text(file.read_text().replace("- from another sync\n", ""))
    await sync(document, file)
    assert file.read_text() == document.text == TEXT


# --- cut off


class Cut(BaseException):
    """The process dies."""


@pytest.mark.parametrize("before", ["_note_synced", "replace", "_write", "_swap", "sync_to_disk"])
@pytest.mark.parametrize("times", [1, 2])
async def test_the_next_sync_finishes_one_cut_off(
    document, file, monkeypatch, before: str, times: int
) -> None:
    """A sync that is cut off is finished by the next.

    Wherever it was cut off: nothing is lost, nothing stands twice.
    """
    await sync(document, file)
    file.write_text(TEXT.replace("likes tea", "likes green tea") + "- from the file\n")
    document.set(
        TEXT.replace("on Sundays\n", "on Mondays\n- Cy is new\n").replace("- Uses uv\n", "")
    )
    target = document if before == "_note_synced" else files
    with monkeypatch.context() as patch:
        step, left = getattr(target, before), [times]

        def cut(*arguments, **options):
            left[0] -= 1
            if left[0] <= 0:
                raise Cut
            return step(*arguments, **options)

        patch.setattr(target, before, cut)
        with suppress(Cut):
            await sync(document, file)
    report = await sync(document, file)
    merged = (
        "# Memory\n\n## People\n\n- Ann likes green tea\n- Bob plays chess on Mondays\n"
        "- Cy is new\n\n## Work\n\n- from the file\n"
    )
    assert (file.read_text(), document.text) == (merged, merged)
    assert report.conflicts == ()
    assert (await sync(document, file)).quiet
    assert [path.name for path in file.parent.iterdir()] == ["MEMORY.md"]


async def test_an_edit_behind_a_cut_off_sync_stays(document, file, monkeypatch) -> None:
    """A file edited behind a cut-off sync keeps both sides."""
    await sync(document, file)
    file.write_text(TEXT.replace("likes tea", "likes green tea"))
    document.set(TEXT + "- from the document\n")
    with monkeypatch.context() as patch:
        patch.setattr(files, "replace", lambda *_: (_ for _ in ()).throw(Cut))
        with pytest.raises(Cut):
            await sync(document, file)
    file.write_text(file.read_text() + "- later\n")
    report = await sync(document, file)
    for line in ("- Ann likes green tea\n", "- from the document\n", "- later\n"):
        assert document.text.count(line) == 1
    assert (file.read_text(), report.conflicts) == (document.text, ())


async def test_who_writes_without_end_is_told_to_come_back(document, file, monkeypatch) -> None:
    file.write_text("- mine\n")
    document.before_append = [
        lambda n=n: document.set(f"{TEXT}- {n}\n") for n in range(100)
    ]  # fmt: skip
    with pytest.raises(UnavailableError, match="keep changing"):
        await sync(document, file)
    assert file.read_text() == "- mine\n"


async def test_the_log_does_not_learn_where_a_file_is(document, file) -> None:
    await sync(document, file)
    assert document.base[0] == label_of(file.resolve())
    assert str(file) not in document.base[0]
    assert issubclass(ContextFileError, MemoryActorsError)
