"""An embedder of the caller's own: tried when a store is opened, its vectors brought into form."""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from structlog.testing import capture_logs
from support.fakes import FakeEmbedder

from memory_actors import Embedded, EmbedderError, Item, MemorySystem, Settings

pytestmark = pytest.mark.anyio

NORMALISED = "vectors are not of length 1 and are normalised"


class Custom(FakeEmbedder):
    """Gives its vectors in another form."""

    def __init__(self, form: Callable[[Any], Any]):
        super().__init__()
        self.form = form

    def embed(self, texts: Sequence[str]) -> Any:
        return self.form(super().embed(texts))


def encoding(form: Callable[[Any], Any]) -> Custom:
    """Return one that gives its vectors by `encode`."""
    custom = Custom(form)
    custom.encode = lambda texts: [Embedded(v, None) for v in custom.embed(texts)]  # type: ignore[attr-defined]
    return custom


def with_nan(vectors: Any) -> Any:
    vectors[0, 0] = np.nan
    return vectors


WRONG: dict[str, tuple[Callable[[Any], Any], str]] = {
    "another dimension": (lambda v: v[:, :7], r"shape \[1, 7\] for 1 texts.*\[1, 32\]"),
    "too many rows": (lambda v: np.concatenate([v, v]), r"shape \[2, 32\] for 1 texts"),
    "one row without its list": (lambda v: v[0], r"shape \[32\] for 1 texts"),
    "nothing": (lambda _: None, "a NoneType that is no array of numbers"),
    "texts": (lambda v: [["x"] * 32] * len(v), "a list that is no array of numbers"),
    "ragged rows": (lambda v: [[1.0], [1.0, 2.0]], "a list that is no array"),
    "NaN": (with_nan, "not finite"),
    "infinity": (lambda v: v * np.float32(np.inf), "not finite"),
    "zeros": (lambda v: v * 0, "length 0"),
}


@pytest.mark.parametrize("wrong", WRONG)
async def test_an_unusable_embedder_is_refused_at_opening(tmp_path: Path, wrong: str) -> None:
    """An embedder that no index can use is refused at the opening."""
    form, message = WRONG[wrong]
    with pytest.raises(EmbedderError, match=message):
        async with MemorySystem.open(tmp_path, embedder=Custom(form)):
            pass
    async with MemorySystem.open(tmp_path, embedder=FakeEmbedder()) as memory:
        assert (await memory.user("ada").add("likes tea")).indexed


async def test_a_refused_embedder_leaves_the_stores_model(tmp_path: Path) -> None:
    """A refused embedder does not become the model of a store."""
    async with MemorySystem.open(tmp_path, embedder=FakeEmbedder("one")) as memory:
        await memory.user("ada").add("likes tea")
    wrong = Custom(lambda v: v * 0)
    wrong.fingerprint = "two"
    with pytest.raises(EmbedderError, match="length 0"):
        async with MemorySystem.open(tmp_path, embedder=wrong, reindex=True):
            pass
    async with MemorySystem.open(tmp_path, embedder=FakeEmbedder("one")) as memory:
        assert await memory.user("ada").retrieve("tea")


async def test_one_that_fails_at_the_opening_may_work_later(tmp_path: Path) -> None:
    embedder = FakeEmbedder()
    embedder.failure = RuntimeError("out of order")
    with capture_logs() as logs:
        async with MemorySystem.open(tmp_path, embedder=embedder) as memory:
            embedder.failure = None
            assert (await memory.user("ada").add("likes tea")).indexed
    (log,) = [log for log in logs if "opening" in log["event"]]
    assert log["log_level"] == "warning"
    assert "RuntimeError" in log["error"]


async def test_a_silent_embedder_keeps_no_store_closed(tmp_path: Path) -> None:
    released = threading.Event()

    def wait(vectors: Any) -> Any:
        released.wait(30)
        return vectors

    settings = Settings(embedder_deadline_s=0.1)
    async with MemorySystem.open(tmp_path, embedder=Custom(wait), settings=settings) as memory:
        try:
            receipt = await memory.user("ada").add("likes tea")
            assert (receipt.indexed, "no answer within" in receipt.unindexed_reason) == (
                False,
                True,
            )
        finally:
            released.set()


FORMS: dict[str, Callable[[Any], Any]] = {
    "lists": lambda v: v.tolist(),
    "tuples of arrays": lambda v: tuple(v),
    "float64": lambda v: v.astype(np.float64),
    "float16": lambda v: v.astype(np.float16),
    "longer": lambda v: v * 7,
    "shorter, as lists": lambda v: (v / 100).tolist(),
    "large float64": lambda v: v.astype(np.float64) * 1e60,
}


@pytest.mark.parametrize("make", [Custom, encoding])
@pytest.mark.parametrize("form", FORMS)
async def test_any_form_of_vector_finds_the_same(
    tmp_path: Path, make: Callable[[Any], Any], form: str
) -> None:
    """Lists, other floats and other lengths find what unit vectors find."""
    found = []
    for n, embedder in enumerate((make(lambda v: v), make(FORMS[form]))):
        with capture_logs() as logs:
            async with MemorySystem.open(tmp_path / str(n), embedder=embedder) as memory:
                user = memory.user("ada")
                texts = ["likes tea", "likes coffee", "lives in Porto"]
                receipts = await user.add_many([Item(content=text) for text in texts])
                assert all(one.indexed for one in receipts)
                hits = await user.retrieve("tea", top_k=3)
                await user.retrieve("coffee")
        found.append([(hit.content, round(hit.score, 2)) for hit in hits])
        warned = [log for log in logs if log["event"] == NORMALISED]
        assert len(warned) == (n == 1 and form in ("longer", "shorter, as lists", "large float64"))
    assert found[0] == found[1]


async def test_a_receipt_says_why_a_memory_is_not_indexed(user: Any, embedder: Any) -> None:
    added = await user.add("likes tea")
    assert (added.indexed, added.unindexed_reason) == (True, None)
    embedder.failure = RuntimeError("out of order")
    for receipt in (
        await user.add("likes coffee"),
        *await user.add_many([Item(content="likes cake")]),
        await user.update(added.memory_id, content="likes green tea"),
        await user.entities.add_entity("Ada"),
        await user.documents.put("things", {"n": 1}),
        await user.episodes.start("a goal"),
    ):
        assert receipt.indexed is False
        assert receipt.unindexed_reason == "the embedder failed: RuntimeError('out of order')"
    deleted = await user.add("likes rain")
    await user.delete(deleted.memory_id)
    (restored,) = await user.restore([deleted.memory_id])
    assert (restored.indexed, "no vector" in restored.unindexed_reason) == (False, True)
    for kind in ("working", "short_term", "context"):
        assert (await user.add("has no index", kind)).unindexed_reason is None


async def test_a_background_mean_of_another_shape_is_refused(tmp_path: Path) -> None:
    embedder = FakeEmbedder()
    embedder.background_mean = lambda: [0.0] * 32  # type: ignore[method-assign,return-value,assignment]
    async with MemorySystem.open(tmp_path / "list", embedder=embedder) as memory:
        await memory.user("ada").add("likes tea")
        assert await memory.user("ada").retrieve("tea")
    embedder.background_mean = lambda: np.zeros(7)  # type: ignore[method-assign]
    async with MemorySystem.open(tmp_path / "short", embedder=embedder) as memory:
        await memory.user("ada").add("likes tea")
        with pytest.raises(EmbedderError, match="background_mean returned shape"):
            await memory.user("ada").retrieve("tea")


class Bilingual(FakeEmbedder):
    """Gives a Spanish text the vector of its English one."""

    SAYS: ClassVar = {"¿Dónde guarda Ada las llaves?": "Ada keeps the keys in a red box"}

    def embed(self, texts: Sequence[str]) -> Any:
        return super().embed([self.SAYS.get(text, text) for text in texts])


async def test_a_query_in_another_language_is_not_answered_by_a_name_in_common(
    tmp_path: Path,
) -> None:
    """Its only word that the store has says nothing about which memory answers."""
    async with MemorySystem.open(tmp_path, embedder=Bilingual()) as memory:
        user = memory.user("u")
        others = [f"Ada said {n} things about the weather of May" for n in range(30)]
        keys = "She keeps the keys in a red box"
        await user.add_many([Item(content=text) for text in (*others, "Ada", keys)])
        hits = await user.retrieve("¿Dónde guarda Ada las llaves?", explain=True)
        assert hits[0].content == keys
        asked_in_english = await user.retrieve("Ada said things of May", explain=True)
        assert asked_in_english[0].signals["words"] > 2 * max(hit.signals["words"] for hit in hits)
