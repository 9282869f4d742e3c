"""Writes docs/grafana.json: a dashboard over the metrics of `PrometheusMetrics`, a panel for each.

python scripts/grafana.py            writes it
python scripts/grafana.py --check    fails if what is there is out of date
"""

import json
import sys
from pathlib import Path
from typing import Any

from memory_actors.observing.metrics import HELP, LABELS

FILE = Path(__file__).parents[1] / "docs" / "grafana.json"
NAMESPACE = "memory_actors"
WIDTH, HEIGHT, COLUMNS = 12, 8, 2
UNITS = {"bytes": "bytes", "ratio": "percentunit"}
SOURCE = {"type": "prometheus", "uid": "${source}"}
SECONDS = f"{NAMESPACE}_operation_seconds_bucket"


def panels() -> list[dict[str, Any]]:
    """Return the panels: what is done, how long it takes, and what there is."""
    done = f"sum by (operation, outcome) (rate({NAMESPACE}_operations_total[$__rate_interval]))"
    drawn = [_panel("Operations a second", done, "ops", "{{operation}} {{outcome}}")]
    for part in (0.5, 0.99):
        rates = f"sum by (le, operation) (rate({SECONDS}[$__rate_interval]))"
        late = f"histogram_quantile({part}, {rates})"
        drawn.append(_panel(f"Time of operations, quantile {part}", late, "s", "{{operation}}"))
    for name, told in HELP.items():
        metric, label = f"{NAMESPACE}_{name}", LABELS.get(name)
        legend = f"{{{{{label}}}}}" if label else told
        if name.endswith("_total"):
            drawn.append(_panel(told, f"rate({metric}[$__rate_interval])", "ops", legend))
        else:
            unit = UNITS.get(name.rpartition("_")[2], "short")
            drawn.append(_panel(told, metric, unit, legend))
    for at, panel in enumerate(drawn):
        row, column = divmod(at, COLUMNS)
        panel |= {
            "id": at + 1,
            "gridPos": {"x": column * WIDTH, "y": row * HEIGHT, "w": WIDTH, "h": HEIGHT},
        }
    return drawn


def _panel(title: str, expression: str, unit: str, legend: str) -> dict[str, Any]:
    return {
        "type": "timeseries",
        "title": title,
        "datasource": SOURCE,
        "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
        "targets": [
            {"refId": "A", "datasource": SOURCE, "expr": expression, "legendFormat": legend}
        ],
    }


def dashboard() -> str:
    """Return the dashboard as Grafana imports it."""
    told = {
        "title": "Memory Actors",
        "uid": "memory-actors",
        "schemaVersion": 39,
        "tags": ["memory-actors"],
        "time": {"from": "now-6h", "to": "now"},
        "refresh": "30s",
        "templating": {
            "list": [
                {"name": "source", "type": "datasource", "query": "prometheus", "label": "Source"}
            ]
        },
        "panels": panels(),
    }
    return json.dumps(told, indent=1) + "\n"


if __name__ == "__main__":
    if "--check" not in sys.argv:
        FILE.write_text(dashboard())
    elif FILE.read_text() != dashboard():
        sys.exit(f"{FILE.name} is out of date: run python scripts/grafana.py")
