"""The extractive summary: what it keeps, how long it is, and that it makes nothing up."""

import os
import re
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.recall_sets import read_locomo
from memory_actors import Cluster, ExtractiveSummarizer, InvalidInputError, SummarizerError
from memory_actors.compaction.summarizers import count_words
from memory_actors.compaction.summarizers.sentences import MARKER, sentences

START = datetime(2025, 8, 2, 12, tzinfo=UTC)
DAY = timedelta(days=1)
LOCOMO = Path(__file__).parents[4] / "shared" / "data" / "locomo-dev.json"

PROJECT = (
    "Ada Wong proposed to move billing to Postgres. The talk took an hour. It was a nice day.",
    "Met about billing again. Nothing new, really. Coffee was good.",
    "Decided on 14 August: billing moves to Postgres 16. Budget is 12,500 euros.",
    "Worked on billing. Some progress. Worked on the billing tests as well.",
    "Worked on billing. Some more progress with billing.",
    "The migration failed with error E-4711, because the disk was full.",
    "Bought a bigger disk from Hetzner for 89 euros. Billing works on.",
    "Migration finished. Billing runs on Postgres since 3 September.",
    "Talked with Joao Silva about billing. He is happy.",
    "Worked on billing.",
)


def cluster(*texts: str, step: timedelta = DAY, vectors: Any = None) -> Cluster:
    """Make a cluster of texts, a day apart."""
    times = tuple(START + place * step for place in range(len(texts)))
    return Cluster(texts=texts, times=times, vectors=vectors)


def summary(*texts: str, **more: Any) -> str:
    return ExtractiveSummarizer(**more).summarize_sync(cluster(*texts))


def day_of(mark: str) -> datetime:
    return datetime.fromisoformat(mark).replace(tzinfo=UTC)


def unit_vectors(count: int) -> Any:
    vectors = np.random.default_rng(7).normal(size=(count, 384)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


# --- what is kept


def test_names_dates_numbers_decisions_and_outcomes_are_kept() -> None:
    body = summary(*PROJECT, share_max=0.75)
    for fact in ("Ada Wong", "14 August", "12,500 euros", "E-4711", "89 euros", "3 September"):
        assert fact in body
    for idle in ("nice day", "Coffee", "Some progress"):
        assert idle not in body


def test_sentences_stand_in_order_of_time_under_their_day() -> None:
    body = summary(*PROJECT)
    days = re.findall(r"^\[(.*?)\]", body, re.MULTILINE)
    assert days == sorted(set(days))
    assert "[2025-08-04] Decided on 14 August: billing moves to Postgres 16." in body


def test_the_budget_is_used_while_sentences_add_facts() -> None:
    """The budget is used as long as a sentence adds a fact.

    Once the usual is said, a number alone is little to say for so many words: still a fact.
    """
    usual = "We had the usual meeting about the usual things in the usual room, and number {} came."
    texts = [usual.format(n) for n in range(1000, 1200)]
    body = summary(*texts)
    assert 450 < count_words(cluster(*texts).heading + body) <= 500
    idle = summary(*texts[:1], *["We had the usual meeting, as usual."] * 199)
    assert count_words(idle) < 30, "what adds none is not said to fill it up"


def test_coverage_is_the_share_of_facts_a_summary_says() -> None:
    judge, texts = (
        ExtractiveSummarizer(),
        [f"Item {n} costs {7 * n} euros at shop {n}x." for n in range(900)],
    )
    few, repeated = cluster(*texts[:40]), cluster(*texts[:20] * 45)
    assert judge.coverage(few) == 1.0, "half of it has room"
    assert judge.coverage(repeated) > 0.9, "it says the same again and again"
    shares = [judge.coverage(cluster(*texts[:count])) for count in (200, 400, 900)]
    assert 0.6 > shares[0] > shares[1] > shares[2] > 0
    assert ExtractiveSummarizer(words_max=100).coverage(cluster(*texts[:200])) < shares[0]


def test_who_speaks_stays_with_what_is_said() -> None:
    """The greeting is said once, so what Bob and Ada say next stands without it."""
    body = summary(
        "Ada: Hello there! I moved to Porto in May.",
        "Bob: Hello there! I stay here in Leeds.",
        "Ada: Hello there! The new flat costs 900 euros.",
        "Bob: Hello there!",
        *["Note: there is nothing new to tell today."] * 8,
    )
    assert "[2025-08-03] Bob: I stay here in Leeds." in body
    assert "[2025-08-04] Ada: The new flat costs 900 euros." in body


# --- length


@pytest.mark.parametrize("words_max", [20, 60, 500])
def test_a_summary_keeps_its_word_limit_with_its_heading(words_max: int) -> None:
    """A summary has at most so many words, with its heading."""
    texts = [f"Ada bought {n} apples and {n * 7} pears in town {n}." for n in range(300)]
    body = summary(*texts, words_max=words_max)
    assert 0.7 * words_max < count_words(cluster(*texts).heading + body) <= words_max


@pytest.mark.parametrize(
    "texts",
    [
        ["昨日は東京で会議がありました。山田さんは予算を承認しました。次の会議は5月12日です。"] * 9,
        [
            f"我们在会议上讨论了第{n}个项目。王小明批准了{n}00万元的预算。天气很好。"
            for n in range(200)
        ],
        ["เมื่อวานฉันไปตลาดกับสมชายและซื้อผลไม้ ราคา 250 บาท " * 30] * 9,
        [f"Встреча номер {n} прошла в Казани. Решили купить {n} серверов." for n in range(200)],
        [f"اجتمعنا في القاهرة يوم {n} مايو. اتفقنا على الميزانية." for n in range(1, 200)],
        ["👍👍👍 🎉"] * 50,
    ],
    ids=["ja", "zh", "th", "ru", "ar", "emoji"],
)
def test_any_script_is_bounded_and_nothing_is_made_up(texts: list[str]) -> None:
    check(cluster(*texts))


# --- properties


def check(made: Cluster, **limits: Any) -> str:
    """Check the limits, and that every sentence is of the originals; return the body."""
    body = ExtractiveSummarizer(**limits).summarize_sync(made)
    words_max = limits.get("words_max", 500)
    whole = made.heading + body
    assert body.strip() == body != ""
    assert count_words(whole) <= words_max
    assert len(whole) <= 24 * words_max
    if made.content_bytes > len(made.heading) + 25:
        assert len(whole.encode()) < made.content_bytes
    originals = {part for text in made.texts for part in (text.strip(), *pieces(text))}
    for line in body.split("\n"):
        assert is_made_of(re.sub(r"^\[\d{4}-\d\d-\d\d\] ?", "", line), originals), line
    return body


def pieces(text: str) -> list[str]:
    """Return the sentences of a text, with and without what may be its label, and the label."""
    label, colon, rest = text.strip().partition(":")
    return [*sentences(text), *sentences(rest), label + colon]


def is_made_of(line: str, originals: set[str]) -> bool:
    """Tell whether a line is sentences of the originals, the last one maybe cut."""
    reached = {0}
    for start in range(len(line)):
        if start in reached or (start - 1 in reached and line[start - 1] == " "):
            rest = line[start:]
            cut = rest.endswith(MARKER) and any(one.startswith(rest[:-1]) for one in originals)
            if cut:
                return True
            reached |= {start + len(one) for one in originals if one and rest.startswith(one)}
    return len(line) in reached


WORD = st.sampled_from(
    [
        "Ada", "Bob", "tea", "Porto", "met", "bought", "42", "v1.2", "12,500", "decided", "the",
        "was", "slow", "東京", "会議", "don't", "café",
    ]
)  # fmt: skip
SENTENCE = st.builds(
    lambda words, end: " ".join(words) + end,
    st.lists(WORD, min_size=1, max_size=12),
    st.sampled_from([".", "!", "?", "…", "", "。", "\n", ": "]),
)
TEXT = st.one_of(
    st.lists(SENTENCE, min_size=1, max_size=6).map(" ".join),
    st.text(st.characters(codec="utf-8"), min_size=1, max_size=80),
)


@settings(max_examples=150, deadline=None)
@given(
    texts=st.lists(TEXT, min_size=1, max_size=40).filter(lambda some: any(map(str.strip, some))),
    words_max=st.integers(20, 120),
    share_max=st.sampled_from([0.1, 0.5, 1.0]),
    with_vectors=st.booleans(),
)
def test_the_limits_hold_and_nothing_is_made_up(
    texts: list[str], words_max: int, share_max: float, with_vectors: bool
) -> None:
    made = cluster(*texts, vectors=unit_vectors(len(texts)) if with_vectors else None)
    body = check(made, words_max=words_max, share_max=share_max)
    assert body == check(made, words_max=words_max, share_max=share_max)


def test_the_same_summary_is_made_in_every_process() -> None:
    """Nothing hangs on the order of a set of strings."""
    code = (
        "import sys; from memory_actors.compaction.summarizers import *; from datetime import *\n"
        "texts = tuple(sys.stdin.read().split('|')); at = datetime(2025, 8, 2, 12, tzinfo=UTC)\n"
        "times = tuple(at + n * timedelta(days=1) for n in range(len(texts)))\n"
        "print(ExtractiveSummarizer().summarize_sync(Cluster(texts=texts, times=times)))"
    )
    env = {**os.environ, "PYTHONHASHSEED": "12345", "PYTHONPATH": os.pathsep.join(sys.path)}
    ran = subprocess.run(
        [sys.executable, "-c", code],
        input="|".join(PROJECT),
        capture_output=True,
        text=True,
        env=env,
        check=True,
    )
    assert ran.stdout.strip() == summary(*PROJECT)


# --- work


@pytest.mark.parametrize(
    ("count", "seconds"),
    [(100, 0.05), (10_000, 0.5)],
)
def test_work_is_bounded(count: int, seconds: float) -> None:
    """Ten thousand memories take no more processor time than the thousand looked at."""
    rng = np.random.default_rng(1)
    vocabulary = [f"word{n}" for n in range(2_000)]
    texts = [
        " ".join(vocabulary[n] for n in rng.zipf(1.3, 26) % 2_000) + f" {n}. Then it ended well."
        for n in range(count)
    ]
    made = cluster(*texts, step=timedelta(minutes=30), vectors=unit_vectors(count))
    took = []
    for _ in range(3):
        began = time.thread_time()
        body = ExtractiveSummarizer().summarize_sync(made)
        took.append(time.thread_time() - began)
    assert min(took) < seconds
    days = [START, *map(day_of, re.findall(r"^\[(.*?)\]", body, re.MULTILINE)), made.times[-1]]
    assert max(np.diff(days)) < 0.5 * (made.times[-1] - START)  # all of the time is covered


def test_what_makes_no_sense_is_refused() -> None:
    for bad in ({"words_max": 19}, {"share_max": 0}, {"share_max": 1.5}):
        with pytest.raises(InvalidInputError):
            ExtractiveSummarizer(**bad)
    with pytest.raises(SummarizerError, match="no text but space"):
        summary(" \n", "\t")


# --- real conversations


@pytest.mark.skipif(not LOCOMO.exists(), reason="needs shared/data/locomo-dev.json")
def test_conversations_shrink_to_a_fifth_and_keep_their_facts() -> None:
    shares = []
    for conversation in read_locomo(LOCOMO)[:2]:
        dated = [turn for turn in conversation.memories if turn.time is not None]
        turns = sorted(dated, key=lambda turn: turn.time or "")[:100]
        made = Cluster(
            texts=tuple(turn.text for turn in turns),
            times=tuple(datetime.fromisoformat(turn.time or "") for turn in turns),
        )
        body = check(made)
        whole = made.heading + body
        assert count_words(whole) > 450
        assert {turn.role for turn in turns} == set(
            re.findall(r"^(?:\[.*?\] )?(\w+):", body, re.MULTILINE)
        )
        shares.append(len(whole.encode()) / made.content_bytes)
    assert max(shares) < 0.25
