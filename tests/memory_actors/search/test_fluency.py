"""Foreignness of a text to a model, by the pieces that its tokenizer makes."""

import numpy as np
import pytest

from memory_actors.search.query import foreign_share

UNKNOWN = 100


def share(text: str, pieces: int, unknown: int = 0) -> float:
    ids = np.array([UNKNOWN] * unknown + [7] * (pieces - unknown), np.uint16)
    return foreign_share(text, ids, UNKNOWN)


def test_english_in_few_pieces_is_not_foreign() -> None:
    assert share("where does the user live", 6) == 0.0


def test_in_between_a_text_is_foreign_in_part() -> None:
    assert share("¿dónde vive la usuaria?", 9) == pytest.approx(0.65)


def test_unknown_tokens_make_a_text_foreign() -> None:
    """Unknown tokens make a text foreign, however few pieces it has."""
    assert share("用户住在哪里", 6, unknown=4) == 1.0
    assert share("用户住在哪里", 6) == 0.0


def test_characters_count_as_words_in_unspaced_text() -> None:
    """A character counts as a word where words are not parted."""
    assert share("ผู้ใช้อาศัยอยู่ที่ไหน", 21) == 0.0
