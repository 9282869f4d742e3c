"""Sentences, words, cuts; and samples that are spread over what they are taken from."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_actors.compaction.summarizers.sentences import (
    MARKER,
    clip,
    count_words,
    sentences,
)


@pytest.mark.parametrize(
    "expected",
    [
        ["Hi there!", "How are you?", "Fine."],
        ["Dr. Ada Wong met J. Smith at 10 a.m. in St. Ives.", "They talked."],
        ["It costs 2.50 euros, e.g. for v1.2.3.", "Cheap!"],
        ["1. Buy milk.", "Then go home."],
        ["Well... maybe not.", "She said “Stop!”", "He did."],
        ["Wait?!", "What (really?)", "Yes :)"],
        ["See https://example.com/a.b?c=d. now", "ok"],
        ["昨日は東京で会議がありました。", "「本当です。」", "はい。"],
        ["这是第一句。", "这是第二句\uff01"],
        ["यह पहला वाक्य है।", "यह दूसरा है।"],
        ["هل أنت بخير؟", "نعم."],
        ["commit abc123: fix login bug", "commit def456: add tests"],
    ],
)
def test_a_text_falls_into_its_sentences(expected: list[str]) -> None:
    unspaced = expected[0].endswith("。")
    ended = all(sentence[-1] in ".!?…।؟)”" for sentence in expected[:-1])
    joint = "" if unspaced else " " if ended else "\n"
    assert sentences(joint.join(expected)) == expected
    assert sentences("\n\n ".join(expected)) == expected


@given(st.text())
def test_sentences_stand_in_order_and_lose_only_space(text: str) -> None:
    """Sentences stand in the text in order, and lose nothing but space."""
    place = 0
    for sentence in sentences(text):
        place = text.index(sentence, place) + len(sentence)
    assert "".join("".join(sentences(text)).split()) == "".join(text.split())


@pytest.mark.parametrize("text", ["." * 50_000, ". " * 25_000, ".)" * 25_000, "a" * 50_000])
def test_no_text_takes_long(text: str) -> None:
    began = time.thread_time()
    sentences(text)
    assert time.thread_time() - began < 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", 0), ("one", 1), (" two  words\n", 2), ("x" * 24, 1), ("x" * 25, 2), ("Łódź", 1),
        ("東京", 1), ("東京都", 2), ("東京 2024", 2), ("AIを使う", 3), ("สวัสดี", 3),
        ("안녕 하세요", 2),
    ],
)  # fmt: skip
def test_words_are_counted_in_any_script(text: str, words: int) -> None:
    assert count_words(text) == words


@given(st.text(), st.integers(1, 10), st.integers(8, 60))
def test_a_clip_keeps_the_limits_and_says_that_it_cut(text: str, words: int, size: int) -> None:
    cut = clip(text, words, size)
    assert len(cut.encode()) <= size
    assert count_words(cut) <= words
    assert cut in (text, "") or (cut[-1] == MARKER and text.startswith(cut[:-1]))
