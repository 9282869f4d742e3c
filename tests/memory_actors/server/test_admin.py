"""Compaction by HTTP: asked for, carried out in the background, one run at a time."""

import asyncio
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from memory_actors import InvalidInputError, NotFoundError
from memory_actors.server import admin as jobs_module
from tests.memory_actors.server.helpers import (
    ALICE,
    Report,
    Service,
    StandIn,
    no_stats,
    problem,
    serving,
    until,
)

RUN, JOBS = "/admin/compress/run", "/admin/compress/jobs"


class Progress(msgspec.Struct, frozen=True):
    users_done: int
    users_total: int


class Compaction:
    """Compaction that does as it is told, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self.at_once = self.most_at_once = 0
        self.held = False
        self.cancelled = 0
        self.episodes: list[bool | None] = []
        self.error: Exception | None = None

    async def compact(
        self,
        user_id: str | None = None,
        *,
        dry_run: bool = False,
        older_than: str | None = None,
        episodes: bool | None = None,
        progress: Callable[[Any], None] | None = None,
    ) -> Report:
        self.asked.append((user_id, dry_run, older_than))
        self.episodes.append(episodes)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            return await self._work(dry_run, progress)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.at_once -= 1

    async def _work(self, dry_run: bool, progress: Any) -> Report:
        progress(Progress(1, 2))
        await asyncio.sleep(0.01)
        while self.held:
            await asyncio.sleep(0.01)
        if self.error is not None:
            raise self.error
        return Report(dry_run)


@pytest.fixture(scope="module")
def made() -> Compaction:
    return Compaction()


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory, made: Compaction) -> Iterator[Service]:
    def wrap(memory: Any) -> StandIn:
        return StandIn(memory, compact=made.compact, compaction_stats=no_stats)

    with serving(tmp_path_factory.mktemp("memory"), wrap=wrap) as running:
        yield running


@pytest.fixture
def compaction(made: Compaction) -> Iterator[Compaction]:
    made.__init__()
    yield made
    made.held = False


def ask(service: Service, body: Any = None) -> str:
    answer = service("POST", RUN, service.root, json=body) if body else service(
        "POST", RUN, service.root
    )  # fmt: skip
    assert answer.status_code == 202, answer.text
    job_id = answer.json()["job_id"]
    assert answer.headers["location"] == f"{JOBS}/{job_id}"
    return job_id


def job(service: Service, job_id: str) -> dict[str, Any]:
    answer = service("GET", f"{JOBS}/{job_id}", service.root)
    assert answer.status_code == 200
    return answer.json()


def ended(service: Service, job_id: str) -> dict[str, Any]:
    def told() -> Any:
        now = job(service, job_id)
        return now if now["state"] not in ("queued", "running") else None

    return until(told)


def test_a_run_is_answered_at_once_and_carried_out(service: Service, compaction) -> None:
    compaction.held = True
    asked = {"user_id": ALICE, "dry_run": True, "older_than": "30d", "episodes": True}
    first = ask(service, asked)
    until(lambda: job(service, first)["progress"])
    told = job(service, first)
    assert (told["state"], told["user_id"], told["dry_run"]) == ("running", ALICE, True)
    assert told["progress"] == {"users_done": 1, "users_total": 2}
    compaction.held = False
    told = ended(service, first)
    assert (told["state"], told["error"]) == ("done", None)
    assert told["report"]["originals"] == 5
    assert (told["report"]["bytes_saved"], told["report"]["compression_ratio"]) == (100, 0.2)
    times = [
        datetime.fromisoformat(told[f"{when}_at"]) for when in ("created", "started", "finished")
    ]
    assert times == sorted(times)
    assert (compaction.asked, compaction.episodes) == ([(ALICE, True, "30d")], [True])


def test_runs_wait_for_each_other(service: Service, compaction) -> None:
    compaction.held = True
    waiting = [ask(service) for _ in range(4)]
    until(lambda: compaction.asked)
    assert [job(service, one)["state"] for one in waiting] == ["running", *["queued"] * 3]
    compaction.held = False
    assert {ended(service, one)["state"] for one in waiting} == {"done"}
    assert compaction.most_at_once == 1


@pytest.mark.parametrize(
    ("error", "name", "said"),
    [
        (NotFoundError("there is no user 'nobody'"), "not-found", "there is no user 'nobody'"),
        (InvalidInputError("not so"), "invalid-input", "not so"),
        (KeyError("the diamonds"), "internal-error", None),
    ],
)
def test_a_failing_run_says_why_and_the_next_runs(
    service: Service, compaction, error: Exception, name: str, said: str | None
) -> None:
    compaction.error = error
    told = ended(service, ask(service))
    assert (told["state"], told["report"]) == ("failed", None)
    assert told["error"]["type"].endswith(f":{name}")
    assert said is None or told["error"]["detail"] == said
    assert "diamonds" not in str(told)
    compaction.error = None
    assert ended(service, ask(service))["state"] == "done"


@pytest.mark.parametrize(
    "body",
    [
        {"user_id": ""},
        {"user_id": 5},
        {"dry_run": "no"},
        {"nonsense": 1},
        {"older_than": 9},
        {"older_than": "soon"},
        {"older_than": "9999999999999w"},
    ],
)
def test_a_run_that_cannot_be_is_refused(service: Service, compaction, body) -> None:
    problem(service("POST", RUN, service.root, json=body), 400, "invalid-input")
    assert compaction.asked == []


def test_waiting_and_remembered_jobs_are_bounded(service: Service, compaction, monkeypatch) -> None:
    """No more than so many jobs wait, and so many are remembered."""
    monkeypatch.setattr(jobs_module, "FINISHED_MAX", 3)
    compaction.held = True
    running = ask(service)
    until(lambda: compaction.asked)
    waiting = [ask(service) for _ in range(jobs_module.WAITING_MAX)]
    answer = service("POST", RUN, service.root)
    problem(answer, 503, "unavailable")
    compaction.held = False
    until(lambda: ended(service, waiting[-1])["state"] == "done", within_s=30)
    problem(service("GET", f"{JOBS}/{running}", service.root), 404, "not-found")
    assert [job(service, one)["state"] for one in waiting[-3:]] == ["done"] * 3


def test_the_memory_itself_is_compressed(tmp_path: Path) -> None:
    """The whole way, over the library's own compaction."""
    with serving(tmp_path) as service:
        for day in range(8):
            told = f"Ada went skiing with Ben in Zermatt, on day {day} of the winter holidays"
            service.add(ALICE, told, occurred_at=f"2020-01-0{day + 1}")
        service.add(ALICE, "Ada drinks tea", occurred_at="2020-02-01")
        tried = ended(service, ask(service, {"user_id": ALICE, "dry_run": True}))
        assert (tried["state"], tried["report"]["originals"]) == ("done", 8)
        assert tried["report"]["clusters"][0]["outcome"] == "would_compress"
        done = ended(service, ask(service, {"user_id": ALICE, "older_than": "365d"}))
        assert (done["state"], done["report"]["compressed"]) == ("done", 1)
        assert done["progress"]["clusters_done"] == 1
        told = service("GET", "/admin/compress/stats", service.root).json()
        assert (told["summaries"], told["originals"], told["runs"]) == (1, 8, told["runs"])
        assert told["bytes_saved"] == told["bytes_before"] - told["bytes_after"] > 0
        mine = service("GET", f"/admin/compress/stats?user_id={ALICE}", service.root).json()
        assert (mine["summaries"], mine["originals"]) == (1, 8)
        problem(
            service("GET", "/admin/compress/stats?user_id=nobody", service.root), 404, "not-found"
        )
        failed = ended(service, ask(service, {"user_id": "nobody"}))
        assert (failed["state"], failed["error"]["type"][-9:]) == ("failed", "not-found")
        query = {"query": "skiing in Zermatt"}
        path = f"/v1/users/{ALICE}/memories/search"
        hits = service("POST", path, service.alice, json=query).json()["hits"]
        assert "compressed" in {hit["source"] for hit in hits}
        hits = service("POST", path, service.alice, json=query | {"compressed": False}).json()
        assert {hit["source"] for hit in hits["hits"]} == {"memory"}


def test_closing_cancels_what_runs_and_what_waits(tmp_path: Path, compaction) -> None:
    compaction.held = True

    def wrap(memory: Any) -> StandIn:
        return StandIn(memory, compact=compaction.compact)

    with serving(tmp_path, wrap=wrap) as service:
        ids = [ask(service) for _ in range(2)]
        until(lambda: compaction.asked)
        held = service.server.config.app.routes.state.jobs
    assert [held.get(one).state for one in ids] == ["cancelled", "cancelled"]
    assert (compaction.cancelled, len(compaction.asked)) == (1, 1)
    assert all(held.get(one).finished_at for one in ids)
