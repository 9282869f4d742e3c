"""Markdown as blocks: what is one, and what an entry says."""

import pytest

from memory_actors.kinds.context.markdown import (
    entry_raw,
    entry_text,
    heading_raw,
    parse,
    render,
    reworded,
    title_of,
)


def raws(text: str) -> list[str]:
    return [block.raw for block in parse(text)]


@pytest.mark.parametrize(
    ("text", "blocks"),
    [
        ("", []),
        ("\n\n", ["\n\n"]),
        ("\n- a\n", ["\n- a\n"]),
        ("# T\n\n- a\n- b\n", ["# T\n\n", "- a\n", "- b\n"]),
        ("- a\n  more\n- b", ["- a\n  more\n", "- b"]),
        ("- a\nlazy\n\nnot\n", ["- a\nlazy\n\n", "not\n"]),
        ("- a\n\n  still a\n\nnot\n", ["- a\n\n  still a\n\n", "not\n"]),
        ("- a\n  - in\n  # in\n* b\n+ c\n", ["- a\n  - in\n  # in\n", "* b\n", "+ c\n"]),
        ("  - a\n  - b\n", ["  - a\n", "  - b\n"]),
        ("1. a\n2) b\n10. c\n", ["1. a\n", "2) b\n", "10. c\n"]),
        ("one\ntwo\n\n\nthree", ["one\ntwo\n\n\n", "three"]),
        ("text\n- a\n# T\ntext\n", ["text\n", "- a\n", "# T\n", "text\n"]),
        ("```\n# no\n\n- no\n```\nout\n", ["```\n# no\n\n- no\n```\n", "out\n"]),
        ("~~~~ py\n~~~\n```\n~~~~~\nout", ["~~~~ py\n~~~\n```\n~~~~~\n", "out"]),
        ("- a\n  ```\n  # no\n\n  ```\n- b\n", ["- a\n  ```\n  # no\n\n  ```\n", "- b\n"]),
        ("``` `no fence`\n- a\n", ["``` `no fence`\n", "- a\n"]),
        ("```\nnever closed\n\n# no\n", ["```\nnever closed\n\n# no\n"]),
        ("#tag\n-no item\n**bold**\n", ["#tag\n-no item\n**bold**\n"]),
        ("# T\r\n\r\n- a\r\n  b\r\n", ["# T\r\n\r\n", "- a\r\n  b\r\n"]),
        ("a\x0cb\u2028c\rd\n", ["a\x0cb\u2028c\rd\n"]),
    ],
)  # fmt: skip
def test_a_text_is_taken_apart(text: str, blocks: list[str]) -> None:
    assert raws(text) == blocks


@pytest.mark.parametrize(
    ("line", "title"),
    [
        ("# T\n", "T"),
        ("###### T ##\r\n", "T"),
        ("## C#\n", "C#"),
        ("##\tT", "T"),
        ("####### T\n", None),
        ("#T\n", None),
        ("# \n", None),
        ("# ##\n", None),
        (" # T\n", None),
    ],
)
def test_a_heading_has_a_title(line: str, title: str | None) -> None:
    assert title_of(line) == title
    assert [block.heading for block in parse(line)] == [title]


def test_joined_blocks_never_run_together() -> None:
    assert render(["a", "b\n", "c"]) == "a\n\nb\n\nc"
    assert render(["- a", "- b\n", "c"]) == "- a\n- b\n\nc"
    assert render(["```\na", "- b"]) == "```\na\n```\n- b"
    assert render(["- a\n", "  b\n"]) == "- a\n\nb\n"
    assert render(["- a\n\n", "    - b\n"]) == "- a\n\n\\- b\n"
    assert render(["- a", "\n\n- b"]) == "- a\n- b"
    assert render([]) == ""
    assert parse(heading_raw("People"))[0].heading == "People"


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("- a\n", "a"),
        ("\n* a\n  b\n\n   c\n\n\n", "a\nb\n\n c"),
        ("12. a\n    b\n", "a\nb"),
        ("- a\nlazy\n", "a\nlazy"),
        ("- [x] done\r\n  so\r\n", "[x] done\nso"),
        ("```\n  code\n```\n\n", "```\n  code\n```"),
        ("plain\n  text", "plain\n  text"),
        ("-\n", ""),
        ("\n\n", ""),
    ],
)
def test_an_entry_says_its_text(raw: str, text: str) -> None:
    assert entry_text(raw) == text


def test_a_text_becomes_an_item() -> None:
    assert entry_raw("a") == "- a\n"
    assert entry_raw("\na\nb\n\nc  \n") == "- a\n  b\n\n  c\n"
    assert entry_raw("# no heading\n- no item") == "- # no heading\n  - no item\n"


@pytest.mark.parametrize(
    ("raw", "again"),
    [
        ("- a\n\n\n", "- x\n  y\n\n\n"),
        ("10. a\r\n    b\r\n\r\n", "10. x\r\n    y\r\n\r\n"),
        ("\n  * a", "\n  * x\n    y"),
        ("para\ngraph\n\n", "x\ny\n\n"),
    ],
)
def test_a_reworded_entry_keeps_its_form(raw: str, again: str) -> None:
    """A reworded entry keeps its marker, line ends and blank lines."""
    assert reworded(raw, "x\ny") == again


def test_a_long_line_takes_no_longer_than_its_length() -> None:
    for line in ("# " + " #" * 500_000 + "x", "`" * 1_000_000 + " `", "- " + " " * 1_000_000):
        assert raws(line) == [line]
