"""The Grafana dashboard asks for what a store really shows, in a language that Prometheus knows."""

import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client import CollectorRegistry, start_http_server
from support.ports import ReservedPort

from memory_actors import PrometheusMetrics

ROOT = Path(__file__).parents[3]
FILE = ROOT / "docs" / "grafana.json"
METRIC = re.compile(r"memory_actors_\w+")
WITHIN_S = 30

pytestmark = pytest.mark.anyio


def expressions() -> list[str]:
    told = json.loads(FILE.read_text())
    return [target["expr"] for panel in told["panels"] for target in panel["targets"]]


def test_it_is_what_the_metrics_make_of_it() -> None:
    made = [sys.executable, str(ROOT / "scripts" / "grafana.py"), "--check"]
    subprocess.run(made, check=True, timeout=60)


def test_it_has_what_grafana_asks_of_a_dashboard() -> None:
    told = json.loads(FILE.read_text())
    assert {"title", "uid", "schemaVersion", "panels", "templating"} <= told.keys()
    places = [(p["gridPos"]["x"], p["gridPos"]["y"]) for p in told["panels"]]
    assert len(set(places)) == len(places) > 10
    assert len({p["id"] for p in told["panels"]}) == len(places)
    (source,) = told["templating"]["list"]
    assert all(p["datasource"]["uid"] == f"${{{source['name']}}}" for p in told["panels"])


async def test_each_panel_asks_for_what_a_store_shows(open_memory: Any) -> None:
    registry = CollectorRegistry()
    async with open_memory(metrics=PrometheusMetrics(registry)) as memory:
        await memory.user("ada").add("likes tea")
        shown = {sample.name for metric in registry.collect() for sample in metric.samples}
        shown |= {f"{metric.name}_total" for metric in registry.collect()}  # none violated yet
    for expression in expressions():
        assert set(METRIC.findall(expression)) <= shown, expression


@pytest.fixture
def prometheus(tmp_path: Path) -> Iterator[tuple[int, str]]:
    """A port that is scraped each second, and the address of the Prometheus that does."""
    program = shutil.which("prometheus")
    if program is None:
        pytest.skip("no Prometheus is installed here: `apt-get install prometheus`")
    reserved = [ReservedPort() for _ in range(2)]
    ports = [one.number for one in reserved]
    config = tmp_path / "prometheus.yml"
    config.write_text(
        "global: {scrape_interval: 1s}\n"
        "scrape_configs:\n"
        f"- {{job_name: memory, static_configs: [{{targets: ['127.0.0.1:{ports[0]}']}}]}}\n"
    )
    url = f"http://127.0.0.1:{ports[1]}"
    started = [
        program, f"--config.file={config}", f"--storage.tsdb.path={tmp_path / 'data'}",
        f"--web.listen-address={url.removeprefix('http://')}",
    ]  # fmt: skip
    with (tmp_path / "told").open("w") as told, subprocess.Popen(started, stderr=told) as running:
        yield ports[0], url
        running.terminate()
    for one in reserved:
        one.give_up()


async def test_a_real_prometheus_answers_each_panel(
    prometheus: tuple[int, str], open_memory: Any
) -> None:
    port, url = prometheus
    registry = CollectorRegistry()
    server, thread = start_http_server(port, "127.0.0.1", registry)
    try:
        async with open_memory(metrics=PrometheusMetrics(registry)) as memory:
            user = memory.user("ada")
            until_s = time.monotonic() + WITHIN_S
            empty = set(expressions())
            while empty and time.monotonic() < until_s:
                await user.add(f"fact at {time.monotonic()}")
                time.sleep(0.5)  # the scrape is served by a thread
                empty = {asked for asked in empty if not _answer(url, asked)}
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
    # A store without limits over all users, and without violations, has no such series.
    assert not [one for one in empty if "global" not in one and "violations" not in one]


def _answer(url: str, expression: str) -> list[Any]:
    """Return what Prometheus makes of an expression; none before it is up."""
    query = {"query": expression.replace("$__rate_interval", "10s")}
    try:
        answer = httpx.get(f"{url}/api/v1/query", params=query, trust_env=False)
    except httpx.TransportError:
        return []
    if answer.status_code == 503:  # not ready
        return []
    assert answer.status_code == 200, answer.text
    found: list[Any] = answer.json()["data"]["result"]
    return found
