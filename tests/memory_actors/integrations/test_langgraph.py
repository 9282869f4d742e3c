"""The store of LangGraph: namespaces and users, times to live, vectors, processes, replays."""

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from datetime import UTC, date, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import foreign
from support.fakes import FakeClock, FakeEmbedder

from memory_actors import (
    EmbedderError,
    InvalidInputError,
    Limits,
    MemorySystem,
    Plan,
    QuotaExceededError,
    Settings,
    Tier,
    sync,
)

pytest.importorskip("langgraph.store", reason="needs langgraph-checkpoint, of the extra dev")

from langgraph.store.base import (
    GetOp,
    ListNamespacesOp,
    PutOp,
    SearchOp,
)
from langgraph.store.memory import InMemoryStore

from memory_actors.base.validation import LONG_BYTES_MAX
from memory_actors.integrations.langgraph import MemoryActorsStore
from memory_actors.integrations.langgraph.items import NamespaceNames, namespace_of
from memory_actors.interchange import import_from

pytestmark = pytest.mark.anyio

ADA = ("ada", "memories")
LABELS = st.text(st.characters(exclude_characters=".\0", exclude_categories=("Cs",)), min_size=1)
NAMESPACES = st.lists(LABELS, max_size=5).map(tuple)
USERS = st.one_of(st.integers(0, 3), LABELS)


Opened = Callable[..., AbstractContextManager[MemoryActorsStore]]


@pytest.fixture
def opened(tmp_path: Path, clock: FakeClock) -> Opened:
    """Open the same store again and again; every write is checked against a replay."""

    @contextmanager
    def open_(**options: Any) -> Iterator[MemoryActorsStore]:
        checked = Settings(check_replay=True, latency_targets_ms={})
        parts = {"embedder": FakeEmbedder(), "clock": clock, "settings": checked} | options
        with MemoryActorsStore.open(tmp_path / "memory", **parts) as store:
            yield store

    return open_


# --- namespaces


@given(NAMESPACES, USERS)
def test_a_user_and_a_collection_say_which_namespace_they_are(
    namespace: tuple[str, ...], user: int | str
) -> None:
    assert namespace_of(*NamespaceNames(user).place(namespace)) == namespace


@pytest.mark.parametrize("collection", ["default", "langgraph", "langgraph@x/a", "langgraph@/a"])
def test_other_collections_are_no_namespaces(collection: str) -> None:
    assert namespace_of("ada", collection) is None


JUNK = [("a/b", "c@d"), ("*", "x"), (" ", "\n"), ("é" * 100, "🙂"), ("langgraph@0", "langgraph")]


@pytest.mark.parametrize("user", [0, 1, 7, "app"])
def test_namespaces_of_any_characters_come_back(opened: Opened, user: int | str) -> None:
    with opened(user=user) as store:
        for namespace in JUNK:
            store.put(namespace, "k", {"at": list(namespace)})
        for namespace in JUNK:
            item = store.get(namespace, "k")
            assert item is not None
            assert item.value == {"at": list(namespace)}
            assert [one.namespace for one in store.search(namespace)] == [namespace]
        assert store.list_namespaces() == sorted(JUNK)


def test_an_erased_user_has_no_items(tmp_path: Path) -> None:
    with sync.MemorySystem.open(tmp_path, embedder=FakeEmbedder()) as memory:
        store = MemoryActorsStore(memory, user=1)
        for name in ("ada", "bob"):
            store.put(("memories", name), "k", {"of": name})
        memory.erase("ada")
        assert store.list_namespaces() == [("memories", "bob")]


def test_other_documents_of_a_user_are_no_items(tmp_path: Path) -> None:
    with sync.MemorySystem.open(tmp_path, embedder=FakeEmbedder()) as memory:
        store = MemoryActorsStore(memory)
        alike = {"langgraph": {"namespace": ["ada"], "expires_us": 0}}
        memory.user("ada").documents.put("notes", {"a": 1}, key="k", metadata=alike)
        store.put(("ada",), "k", {"a": 2})
        assert [item.value for item in store.search(("ada",))] == [{"a": 2}]
        assert [item.value for item in store.search((), query="a")] == [{"a": 2}]
        assert store.sweep_ttl() == 0
        assert store.list_namespaces() == [("ada",)]


def test_the_id_of_a_memory_is_no_key(tmp_path: Path) -> None:
    with sync.MemorySystem.open(tmp_path, embedder=FakeEmbedder()) as memory:
        store = MemoryActorsStore(memory)
        receipt = memory.user("ada").documents.put("notes", {"a": 1}, key="k")
        assert store.get(("ada",), receipt.memory_id) is None
        store.delete(("ada",), receipt.memory_id)
        assert memory.user("ada").documents.get("k", "notes").value == {"a": 1}


@pytest.mark.parametrize("user", [-1, True, "", None, 1.0])
def test_the_user_is_a_place_or_an_id(user: Any) -> None:
    """Who has the namespaces must be said by a place or an id."""
    with pytest.raises(InvalidInputError, match="user must be"):
        NamespaceNames(user)


# --- the same as LangGraph's own

FEW = [("a",), ("a", "b"), ("a", "b", "c"), ("b",), ("a", "c")]
KEYS = st.sampled_from(["k", "l"])
VALUES = st.fixed_dictionaries(
    {"n": st.integers(-3, 3), "s": st.sampled_from(["x", "y"]), "flag": st.booleans()},
    optional={
        "deep": st.fixed_dictionaries({"n": st.integers(0, 2)}),
        "list": st.lists(st.integers(0, 1), max_size=2),
        "none": st.none(),
    },
)
NUMBERS = st.one_of(st.integers(-3, 3), st.sampled_from([0.5, float("inf"), -float("inf"), 10**30]))
COMPARISONS = st.dictionaries(st.sampled_from(["$gt", "$gte", "$lt", "$lte"]), NUMBERS, min_size=1)
FILTERS = st.fixed_dictionaries(
    {},
    optional={
        "n": st.one_of(st.integers(-3, 3), COMPARISONS),
        "s": st.one_of(st.sampled_from(["x", "z"]), st.just({"$ne": "x"})),
        "flag": st.booleans(),
        "deep": st.one_of(st.just({"n": 1}), st.just({"$eq": {"n": 1}})),
        "list": st.lists(st.integers(0, 1), max_size=2),
        "none": st.none(),
    },
)
STEPS = st.one_of(
    st.tuples(st.just("put"), st.sampled_from(FEW), KEYS, VALUES),
    st.tuples(st.just("delete"), st.sampled_from(FEW), KEYS),
    st.tuples(st.just("get"), st.sampled_from(FEW), KEYS),
    st.tuples(st.just("search"), st.sampled_from([(), *FEW]), FILTERS),
    st.tuples(st.just("list"), st.sampled_from([(), *FEW]), st.integers(1, 3)),
)


def answer(store: Any, step: tuple[Any, ...]) -> Any:
    """Return what a store answers, as far as all stores agree: no times, and no order."""
    name, place, *more = step
    if name == "search":
        found = store.search(place, filter=more[0], limit=100)
        return sorted((item.namespace, item.key, str(item.value)) for item in found)
    if name == "list":
        return store.list_namespaces(prefix=place, max_depth=more[0])
    item = getattr(store, name)(place, *more)
    return None if item is None else (item.namespace, item.key, item.value)


@settings(max_examples=30)
@given(st.lists(STEPS, max_size=30), st.sampled_from([0, 1, "app"]))
def test_random_calls_are_answered_as_langgraphs_own_store_does(
    steps: list[tuple[Any, ...]], user: int | str
) -> None:
    theirs = InMemoryStore()
    with (
        TemporaryDirectory() as directory,
        MemoryActorsStore.open(directory, user=user, embedder=FakeEmbedder()) as ours,
    ):
        for step in steps:
            if step[0] == "list":  # what has lost its last item is still listed there
                continue
            assert answer(ours, step) == answer(theirs, step), step
        there = {item.namespace for item in theirs.search((), limit=1_000)}
        assert ours.list_namespaces() == sorted(there)


# --- what a value may be


def nested(levels: int) -> list[Any]:
    """Return lists in lists."""
    value: list[Any] = []
    for _ in range(levels - 1):
        value = [value]
    return value


@pytest.mark.parametrize(
    "bad",
    [
        PutOp(ADA, "bad", {"f": print}),
        PutOp(ADA, "bad", {"text": "x" * LONG_BYTES_MAX}),
        PutOp(ADA, " ", {"n": 1}),
        PutOp(ADA, "x" * 513, {"n": 1}),
        PutOp(("x" * 513,), "bad", {"n": 1}),
        PutOp(ADA, "bad", {"n": 1}, ttl=float("nan")),
        PutOp(ADA, "bad", {"n": 1}, ttl=-1),
        PutOp(ADA, "bad", {"n": 1}, ttl="5"),  # type: ignore[arg-type]
        PutOp(ADA, "bad", {"n": 1}, index=["x" * 9_000] * 2),
        PutOp(ADA, "bad", {"n": float("nan")}),
        PutOp(ADA, "bad", {"n": 2**64}),
        PutOp(ADA, "bad", {"n": nested(33)}),
        PutOp(ADA, "bad", {"s": "half a pair \ud800"}),
        PutOp(ADA, "bad", {1: "a", "1": "b"}),  # type: ignore[dict-item]
        PutOp(ADA, "bad", {"in": [{date(2026, 3, 4): "a", "2026-03-04": "b"}]}),
        SearchOp(ADA, limit=-1),
        SearchOp(ADA, offset=-1, query="n"),
        SearchOp(ADA, query=5),  # type: ignore[arg-type]
        ListNamespacesOp(limit=-1),
    ],
    ids=lambda op: f"{op!r:.60}".encode("ascii", "replace").decode(),
)
def test_a_batch_with_what_cannot_be_done_does_nothing(opened: Opened, bad: Any) -> None:
    with opened() as store:
        with pytest.raises(InvalidInputError):
            store.batch([PutOp(ADA, "good", {"n": 1}), bad])
        assert store.search(()) == []


def test_a_refusal_of_a_value_says_what_is_wrong(opened: Opened) -> None:
    with opened() as store:
        for value, said in [
            ({"n": float("nan")}, "finite float"),
            ({"n": 2**64}, "64 bit"),
            ({"n": nested(40)}, "deeper than 32 levels"),
            ({"a": {2: "b"}}, "keys must be strings"),
        ]:
            with pytest.raises(InvalidInputError, match=f"value of an item .*{said}"):
                store.put(ADA, "k", value)
        with pytest.raises(InvalidInputError, match="number of minutes"):
            store.put(ADA, "k", {"n": 1}, ttl="5")  # type: ignore[arg-type]
        with pytest.raises(InvalidInputError, match="16,384"):
            store.put(ADA, "k", {"n": 1}, index=["x" * 20_000])
        store.put(ADA, "k", {"n": nested(31), "most": 2**63 - 1})


async def test_a_bad_put_is_its_callers_alone(tmp_path: Path) -> None:
    """Also where a later put of the same key takes its place in the batch."""
    async with MemoryActorsStore.aopen(tmp_path, embedder=FakeEmbedder()) as store:
        bad, good = await asyncio.gather(
            store.aput(ADA, "k", {"n": 2**64}), store.aput(ADA, "k", {"n": 1}),
            return_exceptions=True,
        )  # fmt: skip
        assert isinstance(bad, InvalidInputError)
        assert good is None


# --- time to live


def test_what_has_expired_is_there_until_it_is_swept(opened: Opened, clock: FakeClock) -> None:
    with opened(ttl={"default_ttl": 1, "refresh_on_read": False}) as store:
        store.put(ADA, "short", {"n": 1})
        store.put(ADA, "long", {"n": 2}, ttl=10)
        store.put(ADA, "ever", {"n": 3}, ttl=None)
        clock.move(61)
        assert len(store.search(ADA)) == 3
        assert store.sweep_ttl() == 1
        assert {item.key for item in store.search(ADA)} == {"long", "ever"}
        clock.move(3600)
        assert store.sweep_ttl() == 1
        assert store.sweep_ttl() == 0


def test_omit_expired_hides_from_all_reads_and_renews_nothing(
    opened: Opened, clock: FakeClock
) -> None:
    ttl: Any = {"omit_expired": True, "refresh_on_read": True}
    with opened(ttl=ttl) as store:
        store.put(("ada", "gone"), "k", {"n": 1}, ttl=1)
        store.put(("ada", "here"), "k", {"n": 1}, ttl=2)
        clock.move(60)
        for _ in range(2):  # the first read does not bring it back
            assert store.get(("ada", "gone"), "k", refresh_ttl=True) is None
            assert [item.namespace for item in store.search(("ada",), query="n")] == [
                ("ada", "here")
            ]
            assert len(store.search(("ada",), filter={"n": 1}, limit=1)) == 1
            assert store.list_namespaces() == [("ada", "here")]
        ttl["omit_expired"] = False
        assert len(store.search(("ada",))) == 2


@pytest.mark.parametrize("read", ["get", "search", "filter", "query"])
def test_a_read_renews_where_reads_do(opened: Opened, clock: FakeClock, read: str) -> None:
    with opened(ttl={"refresh_on_read": True, "omit_expired": True}) as store:
        store.put(ADA, "k", {"n": 1}, ttl=1)
        before = store.get(ADA, "k")
        clock.move(50)
        if read == "get":
            store.get(ADA, "k")
        else:
            more = {"search": {}, "filter": {"filter": {"n": 1}}, "query": {"query": "n"}}
            store.search(ADA, **more[read])  # type: ignore[arg-type]
        clock.move(50)
        assert store.get(ADA, "k", refresh_ttl=False) == before  # its times are those of the put
        clock.move(11)
        assert store.get(ADA, "k") is None


@pytest.mark.parametrize("usual", [True, False, None])
@pytest.mark.parametrize("asked", [True, False, None])
@pytest.mark.parametrize("read", ["get", "search", "batch"])
def test_the_choice_of_a_read_wins_over_the_default_for_itself_alone(
    opened: Opened, clock: FakeClock, usual: bool | None, asked: bool | None, read: str
) -> None:
    default: Any = {} if usual is None else {"refresh_on_read": usual}
    with opened(ttl={"omit_expired": True, **default}) as store:
        for key in ("read", "other"):
            store.put(ADA, key, {"n": key}, ttl=1)
        clock.move(50)
        if read == "get":
            assert store.get(ADA, "read", refresh_ttl=asked) is not None
        elif read == "search":
            assert store.search(ADA, filter={"n": "read"}, refresh_ttl=asked)
        else:
            usually = usual is not False if asked is None else asked
            store.batch([GetOp(ADA, "read", usually), GetOp(ADA, "other", refresh_ttl=False)])
        clock.move(50)
        renews = usual is not False if asked is None else asked
        assert [item.key for item in store.search(ADA)] == ["read"] * renews


def test_a_renewal_that_gains_little_is_not_written(
    opened: Opened, clock: FakeClock, tmp_path: Path
) -> None:
    """So a thousand reads in a second are one event, and not a thousand."""
    with opened(ttl={"refresh_on_read": True}) as store:
        store.put(ADA, "k", {"n": 1}, ttl=10)
        for _ in range(20):
            clock.move(0.5)
            store.get(ADA, "k")
    with sync.MemorySystem.open(tmp_path / "memory", embedder=FakeEmbedder()) as memory:
        user = memory.user("ada")
        document = user.documents.get("k", "langgraph@0/memories")
        assert [one.event for one in user.history(document.memory_id)] == [
            "structured.put",
            "structured.updated",
        ]


def written_between(
    memory: MemorySystem, monkeypatch: pytest.MonkeyPatch, read: str, ttl: float | None
) -> None:
    """Have another writer put an item right after it is read by this method."""
    other, user = MemoryActorsStore(memory), memory.user("ada")
    owner = type(user.documents if read == "get" else user)
    original = getattr(owner, read)

    async def and_then_put(*args: Any, **kwargs: Any) -> Any:
        result = await original(*args, **kwargs)
        monkeypatch.undo()
        await other.aput(ADA, "k", {"n": 2}, ttl=ttl)
        return result

    monkeypatch.setattr(owner, read, and_then_put)


async def test_what_is_put_again_while_a_sweep_runs_stays(
    tmp_path: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with MemorySystem.open(tmp_path, embedder=FakeEmbedder(), clock=clock) as memory:
        store = MemoryActorsStore(memory, clock=clock)
        await store.aput(ADA, "k", {"n": 1}, ttl=1)
        await store.aput(ADA, "l", {"n": 1}, ttl=1)
        clock.move(61)
        written_between(memory, monkeypatch, "list_memories", ttl=None)
        assert await store.asweep_ttl() == 1
        assert [(item.key, item.value) for item in await store.asearch(ADA)] == [("k", {"n": 2})]


@pytest.mark.parametrize("ttl", [None, 5])
async def test_a_read_that_renews_leaves_what_was_put_since(
    tmp_path: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch, ttl: float | None
) -> None:
    async with MemorySystem.open(tmp_path, embedder=FakeEmbedder(), clock=clock) as memory:
        store = MemoryActorsStore(memory, clock=clock, ttl={"refresh_on_read": True})
        await store.aput(ADA, "k", {"n": 1}, ttl=1)
        clock.move(30)
        written_between(memory, monkeypatch, "get", ttl=ttl)
        assert await store.aget(ADA, "k") is not None
        document = await memory.user("ada").documents.get("k", "langgraph@0/memories")
        assert document.value == {"n": 2}
        assert document.metadata["langgraph"].get("ttl") == ttl


@pytest.mark.parametrize("is_async", [False, True])
async def test_the_sweeper_sweeps_until_the_store_is_closed(tmp_path: Path, is_async: bool) -> None:
    ttl: Any = {"default_ttl": 0.0001, "sweep_interval_minutes": 0.001}

    async def gone(store: MemoryActorsStore) -> None:
        await store.aput(ADA, "k", {"n": 1})
        for _ in range(100):
            if await store.aget(ADA, "k") is None:
                return
            await asyncio.sleep(0.1)
        pytest.fail("it is still there")

    if is_async:
        async with MemoryActorsStore.aopen(tmp_path, ttl=ttl, embedder=FakeEmbedder()) as store:
            await gone(store)
    else:
        with MemoryActorsStore.open(tmp_path, ttl=ttl, embedder=FakeEmbedder()) as store:
            await gone(store)


# --- search


def test_our_own_retrieval_answers_a_query(opened: Opened) -> None:
    with opened() as store:
        store.put(ADA, "tea", {"text": "likes green tea", "n": 1})
        store.put(ADA, "ski", {"text": "skis in winter", "n": 1})
        store.put(ADA, "hidden", {"text": "skis in winter, too", "n": 2}, index=False)
        store.put(("bob", "memories"), "ski", {"text": "skis in winter", "n": 1})
        found = store.search(("ada",), query="skis in winter")
        assert (found[0].key, found[-1].key) == ("ski", "hidden")
        assert found[0].score is not None
        assert found[-1].score is None
        (only,) = store.search(("ada",), query="skis in winter", filter={"n": 2})
        assert only.key == "hidden"
        assert len(store.search((), query="skis in winter", limit=3, offset=2)) == 2


def test_pages_of_a_query_are_those_of_all_its_results(opened: Opened) -> None:
    with opened() as store:
        for n in range(9):
            store.put(ADA, f"k{n}", {"text": f"note {n}"})
        for query in ("note 3", None):
            everything = [item.key for item in store.search(ADA, query=query, limit=20)]
            assert len(everything) == 9
            pages = [store.search(ADA, query=query, limit=4, offset=at) for at in (0, 4, 8)]
            assert [item.key for page in pages for item in page] == everything


@pytest.mark.parametrize("has_index", [False, True])
def test_queries_that_are_blank_or_long(opened: Opened, has_index: bool) -> None:
    """A blank query is none and a long one is cut."""
    with opened(**({"index": {"dims": 8, "embed": letters}} if has_index else {})) as store:
        store.put(ADA, "a", {"text": "aaa"})
        store.put(ADA, "b", {"text": "bbb"})
        for blank in ("", " \n"):
            assert store.search(ADA, query=blank) == store.search(ADA)
        assert len(store.search(ADA, query="aaa é" * 20_000)) == 2


def letters(texts: list[str]) -> list[list[float]]:
    """Return vectors that count letters."""
    return [[float(text.count(letter)) for letter in "abcdefgh"] for text in texts]


def test_the_callers_embeddings_rank_by_the_callers_fields(opened: Opened) -> None:
    index: Any = {"dims": 8, "embed": letters, "fields": ["text", "more[*]"]}
    with opened(index=index) as store:
        store.put(ADA, "a", {"text": "aaa", "other": "bbb"})
        store.put(ADA, "b", {"text": "ccc", "more": ["b", "d"]})
        store.put(ADA, "c", {"other": "bbb"}, index=["other"])
        store.put(ADA, "d", {"text": "bbb"}, index=False)
        found = store.search(ADA, query="bb")
        assert [(item.key, item.score) for item in found] == [
            ("c", 1.0), ("b", 1.0), ("a", 0.0), ("d", None),
        ]  # fmt: skip
    with opened(index=index) as store:  # nothing is at hand: the search embeds what is there
        assert store.search(ADA, query="bb") == found


def test_what_cannot_be_embedded_is_not_put(opened: Opened) -> None:
    for embed in (lambda texts: letters(texts)[1:], lambda texts: [[1.0]] * len(texts)):
        with opened(index={"dims": 8, "embed": embed}) as store:
            with pytest.raises(EmbedderError):
                store.put(ADA, "k", {"text": "a"})
            assert store.get(ADA, "k") is None


@pytest.mark.parametrize(
    "asked", [{"a'b": 1}, {"$or": []}, {"n": {"$in": [1]}}, {"n": {"$gt": 1, "eq": 2}}, {1: 1}]
)
def test_a_filter_that_is_none_is_refused(opened: Opened, asked: dict[Any, Any]) -> None:
    with opened() as store:
        store.put(ADA, "k", {"n": 1})
        with pytest.raises(InvalidInputError):
            store.search(ADA, filter=asked)


# --- event loops


async def test_a_store_belongs_to_its_loop(tmp_path: Path) -> None:
    async with MemoryActorsStore.aopen(tmp_path, embedder=FakeEmbedder()) as store:
        await store.aput(ADA, "k", {"n": 1})
        for call in (lambda: store.get(ADA, "k"), store.sweep_ttl):
            with pytest.raises(asyncio.InvalidStateError, match="aget"):
                call()
        here = await store.aget(ADA, "k")
        assert here is not None
        assert await asyncio.to_thread(store.get, ADA, "k") == here
        elsewhere = await asyncio.to_thread(lambda: asyncio.run(store.aget(ADA, "k")))
        assert elsewhere == here


async def test_of_calls_at_once_each_has_its_own_answer(tmp_path: Path) -> None:
    full = Settings(tiers={Tier.LOCAL: Plan(limits=Limits(documents=2))})
    async with MemoryActorsStore.aopen(tmp_path, embedder=FakeEmbedder(), settings=full) as store:
        await store.aput(ADA, "k", {"n": 1})
        first, second, third, found, empty, bad = await asyncio.gather(
            store.aput(ADA, "l", {"n": 2}),
            store.aput(ADA, "m", {"n": 3}),
            store.aput(("bob",), "k", {"n": 4}),
            store.aget(ADA, "k"),
            store.asearch(("cy",), filter={"n": 1}),
            store.aput(ADA, "x" * 513, {"n": 5}),
            return_exceptions=True,
        )
        assert (first, third, empty) == (None, None, [])
        assert isinstance(second, QuotaExceededError)
        assert isinstance(bad, InvalidInputError)
        assert found == await store.aget(ADA, "k")
        await asyncio.gather(*(store.aput(ADA, "k", {"n": n}) for n in range(9)))
        last = await store.aget(ADA, "k")
        assert last is not None
        assert last.value == {"n": 8}


# --- what was imported


async def test_imported_items_keep_their_times(tmp_path: Path) -> None:
    """What was imported has its times until it is put again."""
    path = foreign.langgraph(tmp_path)
    then, later = datetime(2025, 1, 10, 14, 30, tzinfo=UTC), datetime(2025, 3, 1, tzinfo=UTC)
    with closing(sqlite3.connect(path)) as database, database:
        changed = "UPDATE store SET updated_at = '2025-03-01 00:00:00' WHERE key = 'k2'"
        database.execute(changed)
    async with MemorySystem.open(tmp_path / "memory", embedder=FakeEmbedder()) as memory:
        await import_from(memory, "langgraph", path, user_field="namespace.1")
        store = MemoryActorsStore(memory, user=1)
        items = await store.asearch(("memories",))
        assert [(one.created_at, one.updated_at) for one in items] == [(then, later), (then, then)]
        await store.aput(("memories", "ada"), "k1", {"data": "likes coffee"})
        item = await store.aget(("memories", "ada"), "k1")
        assert item is not None
        assert item.updated_at > later


# --- one log: crashes, processes, replays


def now(clock: FakeClock) -> datetime:
    return datetime.fromtimestamp(clock() / 1e6, UTC)


async def test_a_replay_comes_to_the_same(tmp_path: Path, clock: FakeClock) -> None:
    """Expiry is in the log: what was swept is gone in a replay at any later time, and only then."""
    parts = {"embedder": FakeEmbedder(), "clock": clock, "settings": Settings(check_replay=True)}
    async with MemorySystem.open(tmp_path, **parts) as memory:
        ttl: Any = {"refresh_on_read": True}
        store = MemoryActorsStore(memory, ttl=ttl, clock=clock)
        await store.aput(ADA, "short", {"n": 1}, ttl=1)
        await store.aput(ADA, "long", {"n": 1}, ttl=1)
        clock.move(59)
        await store.aget(ADA, "long")
        before = await memory.user("ada").documents.find("langgraph@0/memories")
        clock.move(30)
        seen_at = now(clock)
        clock.move(1)
        assert await store.asweep_ttl() == 1
        after = await memory.user("ada").documents.find("langgraph@0/memories")
        clock.move(3600)
        async with memory.replay("ada", as_of=seen_at) as past:
            assert await past.documents.find("langgraph@0/memories") == before
        async with memory.replay("ada", as_of=now(clock)) as past:
            assert await past.documents.find("langgraph@0/memories") == after
        assert [document.key for document in after] == ["long"]
