"""The input of a summariser, and a summariser made of a function."""

import functools
import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest

from memory_actors import CallableSummarizer, Cluster, InvalidInputError, SummarizerError

START = datetime(2025, 8, 2, 12, tzinfo=UTC)
CLUSTER = Cluster(texts=("Likes tea.", "Likes cäke."), times=(START, START + timedelta(days=104)))


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
