"""A Ray cluster on this machine, for tests and measurements: a head and three raylets."""

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal

import psutil
import pytest

ROOT = Path(__file__).parents[2]
RAYLETS = 3


@contextmanager
def raylets(storage: Literal["memory", "rocksdb"] = "memory") -> Iterator[Any]:
    """Run a cluster whose workers find the modules of the project and its tests, and yield it.

    Its head keeps what it knows in memory, as is Ray's default, or in files: then it can be killed
    and begun again.
    """
    from ray.cluster_utils import Cluster

    folder = tempfile.mkdtemp(prefix="ray", dir="/tmp")
    # Not so quick that a raylet which a busy machine keeps waiting counts as dead.
    system = {"health_check_period_ms": 1_000, "health_check_failure_threshold": 8}
    system |= {"gcs_storage": storage, "gcs_storage_path": f"{folder}/gcs"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(map(str, (ROOT, ROOT / "tests"))))
        patch.setenv("XDG_CACHE_HOME", f"{folder}/cache")
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_TMPDIR", folder)
        head = {"num_cpus": 1, "include_dashboard": False, "_system_config": system}
        made = Cluster(initialize_head=True, head_node_args=head)
        try:
            for _ in range(RAYLETS - 1):
                made.add_node(num_cpus=1)
            made.wait_for_nodes()
            yield made
        finally:
            workers = workers_of(made)
            made.shutdown()
            for worker in workers:
                with suppress(psutil.NoSuchProcess):
                    worker.kill()
    for _ in range(100):  # what ends still writes there
        shutil.rmtree(folder, ignore_errors=True)
        if not Path(folder).exists():
            break
        time.sleep(0.05)


def workers_of(cluster: Any) -> list[psutil.Process]:
    """Return the processes that the raylets of a cluster have begun."""
    infos = [one.all_processes.get("raylet", []) for one in cluster.list_all_nodes()]
    found = []
    for info in [info for some in infos for info in some]:
        with suppress(psutil.NoSuchProcess):
            found += psutil.Process(info.process.pid).children(recursive=True)
    return found
