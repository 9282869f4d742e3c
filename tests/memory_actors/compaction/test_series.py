"""Series: what repeats a few things in one form becomes one summary, and nothing else does."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import pytest
from support.compacting import LONG_AGO, outcomes, summaries

from memory_actors import Item
from memory_actors.compaction.selection import entries, joined

ENGLISH = (
    "fix login bug", "add user tests", "update the README", "refactor the payment module",
    "bump dependencies", "improve query performance", "add dark mode", "remove dead code",
    "repair flaky pipeline", "implement the export",
)  # fmt: skip
PORTUGUESE = (
    "corrige erro no login", "adiciona testes de usuário", "atualiza o README",
    "refatora o módulo de pagamento", "troca dependências", "melhora o desempenho da consulta",
    "inclui modo escuro", "remove código morto", "conserta pipeline instável",
    "implementa a exportação",
)  # fmt: skip


class Told(NamedTuple):
    """Fields of a row besides its text."""

    occurred_at_us: int
    size_bytes: int = 20
    role: str | None = None
    metadata: dict[str, Any] = {}


def items(texts: Sequence[str], start: datetime = LONG_AGO, **fields: Any) -> list[Item]:
    return [
        Item(content=text, occurred_at=start - timedelta(hours=6 * n), **fields)
        for n, text in enumerate(texts)
    ]


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("form", "messages"),
    [
        ("Commit {n:07x}: {message}", ENGLISH),
        ("User committed code: {message} (#{n})", ENGLISH),
        ("Commit {n:07x}: {message}", PORTUGUESE),
        ("Usuário fez o commit {n}: {message}", PORTUGUESE),
        ("commit: {message}", ENGLISH),
        ("Commitado: {message}", PORTUGUESE),
        ("PROJ-{n}: {message}", ENGLISH),
    ],
)
async def test_a_hundred_commits_become_one_summary(
    form: str, messages: Sequence[str], memory: Any, user: Any
) -> None:
    """Ten kinds of messages, in English and in Portuguese; each kind is in the summary."""
    texts = [form.format(n=n, message=messages[n % 10]) for n in range(100)]
    await user.add_many(items(texts, session_id="work"))
    report = await memory.compact()
    assert outcomes(report) == ["compressed"]
    (summary,) = await summaries(user)
    assert summary.data["original_count"] == 100
    assert "Summary of 100 memories" in summary.content
    assert [one for one in messages if one not in summary.content] == []


@pytest.mark.anyio
async def test_topics_that_each_say_something_else_stay_apart(memory: Any) -> None:
    """They begin alike and are as many, but no text is there twice: each has its own summary."""
    words = [f"{letter}{n}word".translate(str.maketrans("0123456789", "abcdefghij"))
             for letter in "xyz" for n in range(12)]  # fmt: skip
    texts = [
        f"User likes {' '.join([topic] * 8)} and {word}"
        for word, topic in zip(words, ["tea"] * 12 + ["skiing"] * 12 + ["chess"] * 12, strict=True)
    ]
    await memory.user("ada").add_many(items(texts[::3] + texts[1::3] + texts[2::3]))
    report = await memory.compact(dry_run=True)
    assert [one.original_count for one in report.clusters] == [12, 12, 12]


def cluster(
    texts: Sequence[str], *, start_us: int = 0, role: str | None = None, **metadata: Any
) -> tuple[list[Told], Sequence[str]]:
    rows = [Told(start_us + n, role=role, metadata=metadata) for n in range(len(texts))]
    return rows, texts


def found(*clusters: tuple[list[Told], Sequence[str]]) -> list[list[int]]:
    return joined([entries(*one) for one in clusters])


def test_the_same_metadata_makes_a_series_of_texts_that_begin_otherwise() -> None:
    fixed, tested = ["fix the login"] * 6, ["test the export"] * 6
    assert found(cluster(fixed), cluster(tested)) == [[0], [1]]
    assert found(cluster(fixed, kind="commit"), cluster(tested, kind="commit")) == [[0, 1]]
    assert found(cluster(fixed, kind="commit"), cluster(tested, kind="call")) == [[0], [1]]


def test_a_label_makes_a_series_of_texts_that_go_on_otherwise() -> None:
    for label in ("commit:", "[7f35510]", "abcdefa", "PROJ-7:", "repo@fedcbaf"):
        fixed, tested = [f"{label} fix it"] * 6, [f"{label} test it"] * 6
        assert found(cluster(fixed), cluster(tested)) == [[0, 1]]
    assert found(cluster(["commit fix it"] * 6), cluster(["commit test it"] * 6)) == [[0], [1]]
