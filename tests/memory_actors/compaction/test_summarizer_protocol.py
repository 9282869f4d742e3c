"""The input of a summariser, and a summariser made of a function."""

import functools
import threading
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from memory_actors.base.errors import InvalidInputError, SummarizerError
from memory_actors.compaction.summarizers import (
    CallableSummarizer,
    Cluster,
    ExtractiveSummarizer,
    OpenAISummarizer,
    Summarizer,
    heading,
)

if TYPE_CHECKING:
    from collections.abc import Callable

START = datetime(2025, 8, 2, 12, tzinfo=UTC)
CLUSTER = Cluster(texts=("Likes tea.", "Likes cäke."), times=(START, START + timedelta(days=104)))


def test_a_summary_opens_with_count_and_period() -> None:
    end = START + timedelta(days=104)
    assert heading(100, START, end) == "[Summary of 100 memories from 2025-08-02 to 2025-11-14]: "
    assert heading(1, START, START) == "[Summary of 1 memory from 2025-08-02 to 2025-08-02]: "
    assert CLUSTER.heading == heading(2, START, end)


@pytest.mark.parametrize(
    "bad",
    [
        {"texts": ()},
        {"texts": (), "times": ()},
        {"texts": ("a",)},
        {"times": (START + timedelta(days=1), START)},
        {"times": (START.replace(tzinfo=None), START)},
        {"vectors": np.ones((1, 4), np.float32)},
    ],
)
def test_a_cluster_that_makes_no_sense_is_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError):
        Cluster(**{"texts": ("a", "b"), "times": (START, START), **bad})


@pytest.mark.parametrize(
    "make",
    [
        ExtractiveSummarizer,
        lambda: CallableSummarizer(str),
        lambda: OpenAISummarizer("m" * 200, base_url="http://x/v1"),
    ],
)
def test_each_has_a_name_that_can_stand_in_an_event(make: "Callable[[], Summarizer]") -> None:
    pytest.importorskip("openai")
    assert 0 < len(make().name) <= 100


# --- a function of yours


def joined(cluster: Cluster) -> str:
    return f" {threading.current_thread().name}: {' '.join(cluster.texts)}\n"


async def joined_async(cluster: Cluster) -> str:
    return joined(cluster)


class Joined:
    async def __call__(self, cluster: Cluster) -> str:
        return joined(cluster)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("function", "on_the_loop"),
    [
        (joined, False),
        (joined_async, True),
        (functools.partial(joined_async), True),
        (Joined(), True),
        (lambda cluster: joined(cluster), False),
    ],
)
async def test_a_function_runs_in_a_thread_unless_it_is_async(
    function: Any, on_the_loop: bool
) -> None:
    body = await CallableSummarizer(function).summarize(CLUSTER)
    thread, _, text = body.partition(": ")
    assert text == "Likes tea. Likes cäke."
    assert (thread == threading.current_thread().name) == on_the_loop


@pytest.mark.anyio
@pytest.mark.parametrize("error", [ValueError("SECRET"), StopIteration(), TimeoutError()])
async def test_what_a_function_raises_is_the_cause(error: Exception) -> None:
    def fail(cluster: Cluster) -> str:
        raise error

    async def fail_async(cluster: Cluster) -> str:
        raise error

    for function in (fail, fail_async):
        with pytest.raises(SummarizerError, match="see its cause") as why:
            await CallableSummarizer(function).summarize(CLUSTER)
        assert isinstance(why.value.__cause__, type(error) | RuntimeError)
        assert "SECRET" not in str(why.value)


@pytest.mark.anyio
@pytest.mark.parametrize("body", [None, 7, b"bytes", "", " \n"])
async def test_a_function_must_return_a_text(body: Any) -> None:
    with pytest.raises(SummarizerError, match="summariser mine returned"):
        await CallableSummarizer(lambda cluster: body, name="mine").summarize(CLUSTER)
