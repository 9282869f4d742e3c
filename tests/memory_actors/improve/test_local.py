"""The pair that needs no model: what it finds, what it mends, what it leaves alone."""

import socket
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_actors import InvalidInputError, LocalCritic, LocalReviser, improve

NOTE = Path(__file__).with_name("note.txt").read_text("utf-8")
TERMS = ("Harbourmaster", "Tideline", "PostgreSQL")
CODE = """\
Run it in order to test it.

```sh
run in order to test  # in order to test
```

Use `in order to`, see https://in.order/in-order-to in PostgrSQL.
\tindented in order to
| in order to | cell |
"""


def kinds(text: str, *terms: str, **more: Any) -> list[str]:
    return [finding.kind for finding in LocalCritic(terms, **more).judge(text).findings]


def revised(text: str, *terms: str, rounds: int = 8, **more: Any) -> str:
    critic, reviser = LocalCritic(terms, **more), LocalReviser(terms, **more)
    for _ in range(rounds):
        text = reviser.revise(text, critic.judge(text))
    return text


# --- together


@pytest.mark.anyio
async def test_a_real_note_gets_better_until_nothing_safe_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def no_network(*_: Any) -> None:
        raise AssertionError("no network")

    monkeypatch.setattr(socket.socket, "connect", no_network)
    result = await improve(NOTE, critic=LocalCritic(TERMS), reviser=LocalReviser(TERMS))
    assert result.metadata["memory_stats"]["stopped_because"] == "unchanged"
    scores = [one.critique.score for one in result.history]
    assert scores == sorted(scores)
    assert result.score > scores[0] + 0.2
    assert "PostgrSQL" not in result.text
    assert NOTE.count("The positions of the ferries are read by") == 2
    assert result.text.count("The positions of the ferries are read by") == 1
    assert len(result.text.split()) < len(NOTE.split()) - 35


TEXTS = st.text(alphabet=st.sampled_from("aeT.;, \n`|é\u4e2d\u0301"), max_size=120)


@settings(max_examples=200, deadline=None)
@given(st.one_of(TEXTS, st.text(max_size=200)))
def test_any_text_is_judged_and_revised_to_a_fixed_point(text: str) -> None:
    critic, reviser = LocalCritic(TERMS), LocalReviser(TERMS)
    for _ in range(60):
        critique = critic.judge(text)
        assert 0 <= critique.score <= 1
        after = reviser.revise(text, critique)
        if after == text:
            return
        text = after
    pytest.fail("it never ends")


@pytest.mark.timeout(60)  # what takes time that grows with the square takes minutes
@pytest.mark.parametrize(
    "text",
    [
        "x" * 100_000, "a@" * 50_000, "a;" * 50_000, ". " * 50_000, "`" * 100_000,
        "```\n" * 25_000, "in order " + " " * 90_000, "the " * 25_000, "|\n" * 50_000,
        "word, and it " * 7_000, "is been " * 12_000, '"a ' * 33_000, " 'a" * 33_000,
        '"a\n' * 33_000, "\u201ca" * 33_000, "\u2018a\u2019a" * 25_000, "a\n=\n" * 25_000,
        ">\n" * 50_000,
    ],
    ids=lambda text: text[:9].strip(),
)  # fmt: skip
def test_the_strangest_texts_of_100_kb_take_linear_time(text: str) -> None:
    critique = LocalCritic(TERMS).judge(text)
    assert 0 <= critique.score <= 1
    LocalReviser(TERMS).revise(text, critique)


# --- terms


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("PostgrSQL", "PostgreSQL"), ("postgersql", "PostgreSQL"), ("postgresql", "PostgreSQL"),
        ("Kubenetes", "Kubernetes"), ("Kuberntees", "Kubernetes"), ("redsi", "Redis"),
        ("Redis", None), ("redis", None), ("PostgreSQL's", None), ("radish", None),
        ("Kubernetic", "Kubernetes"), ("rediss", None), ("ride", None), ("Ibernetes", None),
        ("Lima", None), ("limo", None), ("LIMA", None),
    ],
)  # fmt: skip
def test_a_word_near_a_known_term_is_taken_for_it(word: str, meant: str | None) -> None:
    terms = ("PostgreSQL", "Kubernetes", "Redis", "Lima")
    assert revised(word, *terms, right=["limo"]) == (meant or word)


def test_misspelt_terms_are_mended_and_nothing_else() -> None:
    text = "PostgrSQL and Kubernets run. A postgresql dump, in postgres."
    assert revised(text, "PostgreSQL", "Kubernetes") == (
        "PostgreSQL and Kubernetes run. A PostgreSQL dump, in postgres."
    )


# --- repetition, wordiness


def test_a_sentence_that_stands_twice_is_said_once() -> None:
    text = "It works well now. We know. It works well now! We know.\n\nit works  well now\n\nDone."
    assert kinds(text) == ["repetition", "repetition"]
    assert revised(text) == "It works well now. We know. We know.\n\n\nDone."


@pytest.mark.parametrize(
    ("said", "better"),
    [
        ("In order to see, look.", "To see, look."),
        ("We wait due to the fact\tthat it rains.", "We wait because it rains."),
        ("See the the cat and and dog.", "See the cat and dog."),
        ("I had had it, that that is.", "I had had it, that that is."),
        ("Prior toss, each and everyone.", "Prior toss, each and everyone."),
        ("The the cat.", "The cat."),
        ("Take vitamin A a day.", "Take vitamin A a day."),
        ("She is a a-list star or a plug-a a b.", "She is a a-list star or a plug-a a b."),
        ("He the the's, it is in in-house care.", "He the the's, it is in in-house care."),
        ("What it is is the room I was in in May.", "What it is is the room I was in in May."),
    ],
)
def test_wordy_phrases_become_short_and_keep_their_capital(said: str, better: str) -> None:
    assert revised(said) == better


def test_code_addresses_and_tables_are_left_alone() -> None:
    after = revised(CODE, "PostgreSQL")
    assert after.splitlines()[0] == "Run it to test it."
    assert after.splitlines()[1:6] == CODE.splitlines()[1:6]
    assert "`in order to`, see https://in.order/in-order-to in PostgreSQL." in after
    assert after.splitlines()[-2:] == CODE.splitlines()[-2:]


@pytest.mark.parametrize(
    "quoted",
    [
        '"in order to"', "\u201cin order to\u201d", "\u00abin order to\u00bb", "'in order to'",
        "\u2018it\u2019s in order to\u2019", '("Wait\nin order to see the the PostgrSQL.")',
        "this:\n> We wait in order to\n> see.\n",
    ],
)  # fmt: skip
def test_what_is_quoted_stays_as_it_was_said(quoted: str) -> None:
    text = f"He said {quoted} and left."
    assert kinds(text, "PostgreSQL") == []
    assert revised(text, "PostgreSQL") == text


@pytest.mark.parametrize(
    "heading", ["# We go down now", "We go down now\n===", "## We go down now #"]
)
def test_a_heading_is_no_repetition_nor_what_repeats_it(heading: str) -> None:
    text = f"{heading}\n\nWe go down now.\n\n{heading}\n\nSo it is.\n"
    assert kinds(text) == []
    assert revised(text) == text


# --- what is refused


@pytest.mark.parametrize(
    "wrong",
    [
        {"terms": ["x"] * 1_001}, {"terms": [3]},
        {"terms": "PostgreSQL"}, {"terms": 5}, {"right": "x"}, {"right": [None]},
    ],
)  # fmt: skip
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    for made in (LocalCritic, LocalReviser):
        with pytest.raises(InvalidInputError):
            made(**wrong)
