"""JSON, archives and Markdown of any size, in bounded memory."""

import io
import json
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_actors import InvalidInputError
from memory_actors.interchange import files, plan_import
from memory_actors.interchange.files import files_in
from memory_actors.interchange.sources import json_items as module
from memory_actors.interchange.sources.json_items import json_items, json_lines
from memory_actors.interchange.sources.markdown import front_matter, passages
from memory_actors.interchange.sources.port import SourceReading

MIB = 1 << 20
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 63), (1 << 63) - 1) | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)  # fmt: skip


def items(data: bytes | str) -> list[tuple[str, Any]]:
    raw = data if isinstance(data, bytes) else data.encode()
    return list(json_items(io.BytesIO(raw), "x.json"))


def expected(value: Any) -> list[tuple[str, Any]]:
    if isinstance(value, list):
        return [("", one) for one in value]
    if isinstance(value, dict):
        return [
            (name, one)
            for name, member in value.items()
            for one in (member if isinstance(member, list) else [member])
        ]
    return [("", value)]


@given(
    value=JSON.filter(lambda value: not isinstance(value, str)),
    indent=st.sampled_from([None, 0, 2]),
    ascii_=st.booleans(),
    chunk=st.sampled_from([1, 2, 7, 64 << 10]),
)
def test_values_one_by_one_are_those_of_the_whole(
    value: Any, indent: int | None, ascii_: bool, chunk: int
) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_)
    before, module.CHUNK_BYTES = module.CHUNK_BYTES, chunk
    try:
        assert items(f"\ufeff {text} \n") == expected(value)
    finally:
        module.CHUNK_BYTES = before


@pytest.mark.parametrize(
    ("data", "why"),
    [
        ("", "expecting value"),
        ("[1, 2", "']' is missing"),
        ("[1 2]", "']' is missing"),
        ('{"a" 1}', "':' is missing"),
        ("{1: 2}", "a name is missing"),
        ('{"a": [1, 2}', "']' is missing"),
        ("[1] 2", "there is more behind its end"),
        ('["a', "unterminated string"),
        ("[1,]", "expecting value"),
        ("[" * 200_000, "nested too deeply"),
        ("[" + '{"a":' * 200_000, "nested too deeply"),
        (b"\xff\xfe[1]", "expecting value"),
    ],
)
def test_what_is_no_json_is_told(data: bytes | str, why: str) -> None:
    with pytest.raises(InvalidInputError, match=why.lower()) as raised:
        items(data)
    assert "Nothing was added" in str(raised.value) or "parts" in str(raised.value)


@pytest.mark.parametrize(
    ("beginning", "more"),
    [('["', "a"), ('[{"a": [', "[],"), ("[-", "1"), ("[", "\n"), ("[0,", "[],")],
)
def test_a_large_file_takes_little_memory(
    tmp_path: Path, monkeypatch: Any, beginning: str, more: str
) -> None:
    """A file is refused before one value of it has grown; many small ones are one at a time."""
    monkeypatch.setattr(module, "ITEM_CHARACTERS_MAX", 4 * MIB)
    monkeypatch.setattr(module, "ITEM_PARTS_MAX", 200_000)
    path = tmp_path / "x.json"
    size = MIB // 4 if beginning == "[0," else 12 * MIB
    path.write_text(beginning + more * (size // len(more)))
    tracemalloc.start()
    try:
        with path.open("rb") as file, pytest.raises(InvalidInputError):
            for _ in json_items(file, "x.json"):
                pass
        assert tracemalloc.get_traced_memory()[1] < (2 if beginning == "[0," else 50) * MIB
    finally:
        tracemalloc.stop()


def test_a_value_that_is_too_large_is_refused(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(module, "ITEM_CHARACTERS_MAX", 100_000)
    monkeypatch.setattr(module, "ITEM_PARTS_MAX", 50_000)
    for value in ("a" * 200_000, [0] * 80_000):
        text = json.dumps([value])
        with pytest.raises(InvalidInputError, match=r"a value in x\.json is larger than"):
            items(text)
        (tmp_path / "x.jsonl").write_text(f"[]\n{text}\n")
        with pytest.raises(InvalidInputError, match="line 2 is larger than"):
            list(json_lines(tmp_path / "x.jsonl", SourceReading()))


@pytest.mark.parametrize("line", [b"{", b"\xff", b"[" * 100_000, b'{"a": nul}'])
def test_a_line_that_is_no_json_costs_itself_alone(tmp_path: Path, line: bytes) -> None:
    (tmp_path / "x.jsonl").write_bytes(b"\xef\xbb\xbf{}\n\n" + line + b"\n[2]\n")
    reading = SourceReading()
    assert [value for _, value in json_lines(tmp_path / "x.jsonl", reading)] == [{}, [2]]
    (note,) = reading.notes()
    assert "no JSON" in note.says
    assert "x.jsonl, line 3)" in note.says


# --- archives


def archive(path: Path, **files: bytes) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        for name, data in files.items():
            made.writestr(f"export/{name}.json", data)
    return path


@pytest.mark.anyio
@pytest.mark.parametrize("filling", [b" ", b"0,", b"{},", b'"a"'])
async def test_an_archive_that_unpacks_without_end_is_refused(
    tmp_path: Path, monkeypatch: Any, filling: bytes
) -> None:
    monkeypatch.setattr(files, "UNPACKED_BYTES_MIN", 2 * MIB)
    data = b"[" + filling * (4 * MIB // len(filling))
    path = archive(tmp_path / "x.zip", conversations=data)
    assert path.stat().st_size < MIB // 10
    tracemalloc.start()
    try:
        with pytest.raises(InvalidInputError, match=r"unpacks to over|none of 10,000|as JSON"):
            await plan_import("chatgpt", path)
        assert tracemalloc.get_traced_memory()[1] < 20 * MIB
    finally:
        tracemalloc.stop()


@pytest.mark.anyio
async def test_the_files_of_an_archive_have_one_bound_together(
    tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr(files, "UNPACKED_BYTES_MIN", 2 * MIB)
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        for number in range(20):
            made.writestr(f"{number}/conversations.json", b"[" + b" " * MIB + b"]")
    with pytest.raises(InvalidInputError, match="unpacks to over 100 times its size"):
        await plan_import("chatgpt", path)


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_an_archive_packed_in_an_unusual_way_is_refused(tmp_path: Path, method: int) -> None:
    """3 KB of bzip2 are gigabytes before the first byte of them can be counted."""
    with zipfile.ZipFile(tmp_path / "x.zip", "w", method) as made:
        made.writestr("conversations.json", b"[" + b" " * 64 * MIB + b"]")
    with pytest.raises(InvalidInputError, match=r"conversations\.json' is packed in an unusual"):
        next(iter(files_in(tmp_path / "x.zip", lambda _name: True)))


@pytest.mark.anyio
async def test_a_conversation_that_is_a_file_has_one_bound_for_all_its_messages(
    tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr(module, "ITEM_PARTS_MAX", 100_000)
    said = {"sender": "human", "text": "hello", "more": [[]] * 30_000}
    path = tmp_path / "conversations.json"
    path.write_text(json.dumps({"uuid": "1", "chat_messages": [said]}))
    assert (await plan_import("claude", path)).records == 1
    path.write_text(json.dumps({"uuid": "1", "chat_messages": [said, said]}))
    with pytest.raises(InvalidInputError, match="or has over 100,000 parts"):
        await plan_import("claude", path)


def test_an_archive_with_a_false_size_is_refused(tmp_path: Path) -> None:
    """What an archive says of its sizes is not believed."""
    path = archive(tmp_path / "x.zip", conversations=b"[" + b" " * 5_000 + b"]")
    data = path.read_bytes()
    path.write_bytes(data.replace((5_002).to_bytes(4, "little"), (10).to_bytes(4, "little")))
    ((_, file),) = (one for one in files_in(path, lambda _name: True))
    with pytest.raises(InvalidInputError, match="cannot be read"):
        file.read()


# --- Markdown


@given(text=st.text())
def test_any_text_is_markdown(text: str) -> None:
    _, body = front_matter(text, SourceReading())
    for passage in passages(body):
        assert passage.text.strip()


@pytest.mark.parametrize("unit", ["`` ", r"\`", "<!--a-->"])
def test_markdown_of_many_small_codes_takes_few_times_its_size(unit: str) -> None:
    text = unit * (2 * MIB // len(unit))
    tracemalloc.start()
    try:
        assert len(list(passages(text))) <= 1
        assert tracemalloc.get_traced_memory()[1] < 10 * len(text)
    finally:
        tracemalloc.stop()
