"""Detectors, masks, and the values that `redact` takes."""

import re
import string
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bench.redaction import SERVICES, Values, made
from memory_actors import InvalidInputError, Item, Redaction, SensitiveTextError
from memory_actors.base.redaction import NAMES, Masking, Redactor, keyed_digest

WORDS = st.text(string.ascii_letters + " .,;:\n-'\"(){}[]<>=@/+0123456789é", max_size=60)


def masking(redact: Any = "secrets,personal", **given: Any) -> Masking:
    return Masking(Redactor(redact), lambda said: keyed_digest(b"key", "ada", said), **given)


@given(seed=st.integers(0, 2**32), before=WORDS, after=WORDS)
@example(seed=0, before="</private>", after="</private>")
@example(seed=0, before="-----END PRIVATE KEY-----", after="-----END PRIVATE KEY-----")
def test_a_mask_is_final_and_nothing_of_a_key_is_left(seed: int, before: str, after: str) -> None:
    """Masking twice is masking once, whatever is around it."""
    _, value = Values(seed).service()
    once = masking().text(f"{before} {value} {after}")
    assert value not in once
    assert masking().text(once) == once


@given(WORDS)
def test_a_value_in_which_nothing_is_found_is_the_same_object(text: str) -> None:
    value = {"a": [text, 7, None, Item(content=text)], "b": (1.5, {text: True})}
    if not Redactor("secrets,personal").found(text):
        assert masking().value(value) is value


def test_every_form_of_the_set_is_masked_in_a_text_between_others() -> None:
    """A text that is cut in the middle of others loses nothing: the whole set, as one text."""
    texts = [text for text in made(3) if text.parts and text.parts[0][0] != "private"]
    whole = masking().text("\n".join(text.said for text in texts))
    assert [part for text in texts for _, part in text.parts if part in whole] == []


def test_the_same_secret_has_the_same_mask_in_every_spelling_and_of_one_user() -> None:
    digests = {keyed_digest(b"key", "ada", one) for one in ("+49 170 1234567", "+49-170-1234567")}
    assert len(digests) == 1
    assert keyed_digest(b"key", "bob", "+491701234567") not in digests
    assert keyed_digest(b"other", "ada", "+491701234567") not in digests


def test_json_is_masked_by_the_names_of_its_fields_too() -> None:
    """A password is known by its field; numbers and keys are looked at as texts are."""
    one = masking()
    value = one.value(
        {"password": "hunter", "call": {"phone": 2125550123}, "anna@example.org": ["id", 12345678]}
    )
    assert "hunter" not in repr(value)
    assert "2125550123" not in repr(value)
    assert "anna" not in repr(value)
    assert list(value.values())[2] == ["id", 12345678]
    assert one.counts == {
        "secret:password": 1, "personal:phone": 1, "personal:email": 1
    }  # fmt: skip


def test_a_cut_block_is_masked_to_the_end_of_the_text() -> None:
    for text, left in (
        ("<private>my salary", "[private]"),
        ("my salary</private> rest", "[private] rest"),
        ("a <PRIVATE>my salary</PRIVATE> b", "a [private] b"),
    ):
        assert masking("email,private").text(text) == left
    begin, end = ("-----" + word + " RSA PRIVATE KEY-----" for word in ("BEGIN", "END"))
    for text in (f"{begin}\nMII salary", f"MII salary\n{end} rest"):
        assert "salary" not in masking("secrets").text(text)


def test_what_overlaps_is_one_mask_and_own_labels_may_refuse() -> None:
    """A function of the caller's finds what it knows; a refusal says the label and no more."""
    redaction = Redaction(
        detectors=("email",),
        own=(lambda text: [(*one.span(), "id:customer") for one in re.finditer("C-[0-9]+", text)],),
        action={"id:customer": "refuse"},
    )
    assert masking(redaction).text("a.C-12345@example.org").count("[") == 1
    with pytest.raises(SensitiveTextError, match="id:customer") as caught:
        masking(redaction, refuses=True).text("about a.C-12345@example.org")
    assert "12345" not in str(caught.value)
    assert caught.value.label == "id:customer"


@pytest.mark.parametrize(
    "own",
    [
        lambda text: [(0, len(text) + 1, "id")],
        lambda text: [(0, 1, "two words")],
        lambda text: 1 / 0,
        lambda text: [(0, 1)],
    ],
)
def test_a_function_that_fails_stores_nothing_and_quotes_nothing(own: Any) -> None:
    with pytest.raises(InvalidInputError, match="nothing was stored") as caught:
        masking(Redaction(own=(own,))).text("my salary")
    assert "salary" not in str(caught.value)


@pytest.mark.parametrize(
    "redact",
    ["secret", "", 5, ("secrets", 5), Redaction(detectors=("mail",)), Redaction(own=("no",)),
     Redaction(action="drop"), Redaction(action={"card": "drop"}), Redaction(action=5),
     Redaction(action={"crad": "refuse"}), Redaction(detectors=5), Redaction(own=5)],
)  # fmt: skip
def test_a_redaction_that_cannot_be_is_refused(redact: Any) -> None:
    with pytest.raises(InvalidInputError):
        Redactor(redact)


def test_each_detector_can_be_named_alone() -> None:
    """One name finds its own form and no other."""
    values, every = Values(5), [name for name in NAMES if name not in ("secrets", "personal")]
    assert len(every) > 40
    for name, make in SERVICES.items():
        found = Redactor(name).found(f"{values.email()} {make(values)}")
        assert [label for *_, label in found] == [f"secret:{name}"]
