"""Words: one word for all its forms, identifiers whole, every script."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_actors.kinds.passages import composed
from memory_actors.search.indexes.words import CHARACTERS_MAX, WORD_CHARACTERS_MAX, words


@pytest.mark.parametrize(
    "forms",
    ["школа школе школы", "ξενοδοχείο ξενοδοχεία", "किताब किताबें", "मुझे मुझ", "كتاب كتابا"],
)
def test_words_get_the_stemmer_of_their_script(forms: str):
    assert len({tuple(words(form)) for form in forms.split()}) == 1


def test_stop_words_and_question_words_go():
    assert words("What did they do to her, and why?") == []


@pytest.mark.parametrize("text", ["Ada's", "Ada\u2019s", "ADA"])
def test_a_possessive_and_capitals_make_no_difference(text: str):
    assert words(text) == ["ada"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("abc123", {"abc123"}),
        ("OAuth 2.1", {"oauth", "2.1", "2", "1"}),
        ("ticket abc-123", {"ticket", "abc-123", "abc", "123"}),
        ("v1.2.3", {"v1.2.3", "v1", "2", "3"}),
        ("at 14:30", {"14:30", "14", "30"}),
        ("user_id", {"user_id", "user", "id"}),
        ("10.0.0.1:8080", {"10.0.0.1:8080", "10", "0", "1", "8080"}),
    ],
)
def test_identifiers_are_kept_whole_and_found_by_their_parts(text: str, expected: set[str]):
    assert set(words(text)) == expected


@pytest.mark.parametrize(
    "spellings",
    [
        ("\uff21\uff22\uff23", "abc"),
        ("of\ufb01ce", "office", "of\u00adfice"),
        ("٤٥٦٧", "४५६७", "4567", "\uff14\uff15\uff16\uff17"),
        ("Łódź", "lodz"),
        ("São Paulo", "sao paulo", "sa\u0303o paulo"),
        ("Straße", "STRASSE"),
        ("Ærø", "aero"),
        ("İzmir", "izmir"),
        ("👍🏽", "👍", "👍🏿"),
        ("❤\ufe0f", "❤"),
        ("👩\u200d💻", "👩💻"),
        ("🇩🇪", "(🇩🇪)"),
        ("⬅\ufe0f", "⬅"),
        ("#\ufe0f\u20e3", "#\u20e3"),
        ("JIRA\u20111234", "JIRA-1234", "JIRA\u22121234"),
        ("\u0663\u066b\u0664", "3.4"),
        ("ǿre", "ore"),
        ("super\u200bnova", "supernova", "super\u200dnova"),
        ("葛\U000e0100城", "葛城"),
        ("приста\u0301нь", "пристань"),
        ("п'ять", "п\u2019ять", "п\u02bcять"),
        ("שָׁבַת", "שבת", "ש\u05c1בת"),
        ("هٰذا", "هذا"),
        ("کتابی", "كتابي"),
        ("क्\u200dष", "क्ष"),
        ("v\u20d7ector", "vector"),
    ],
)
def test_spellings_of_the_same_word_are_one_word(spellings: tuple[str, ...]):
    first, *others = map(words, spellings)
    assert first
    assert others == [first] * len(others)


def test_marks_that_are_letters_of_their_script_stay():
    assert words("йод") != words("иод")
    assert words("हिन्दी") != words("हनद")


def test_a_full_stop_behind_a_number_is_none_of_it():
    assert words("It was 5. Then 6.") == ["5", "6"]


def test_chinese_becomes_pairs_and_single_characters():
    assert words("去上海") == ["去上", "上海", "去", "上", "海"]


def test_kana_hangul_and_thai_become_pairs():
    assert words("すし") == ["すし"]
    assert words("한국어 문장") == ["한국", "국어", "문장"]
    assert words("ไทย") == ["ไท", "ทย"]


def test_marks_belong_to_their_letter():
    assert words("हिन्दी में लिखो।") == ["हिन्द", "म", "लिख"]


def test_compatible_forms_are_the_same_word():
    assert words("\uff46\uff55\uff4c\uff4c \ufb01ne Straße cafe\u0301") == words(
        "full fine STRASSE café"
    )


def test_long_runs_and_texts_are_cut():
    assert [len(word) for word in words("x" * 500)] == [WORD_CHARACTERS_MAX]
    assert words("a1 " + " " * CHARACTERS_MAX + "lost") == ["a1"]


@given(st.text(max_size=200))
def test_a_text_in_one_spelling_stays_as_it_is(text: str):
    assert composed(composed(text)) == composed(text)


@given(st.text(max_size=200))
def test_any_text_has_words_that_are_not_empty(text: str):
    assert all(0 < len(word) <= WORD_CHARACTERS_MAX for word in words(text))
