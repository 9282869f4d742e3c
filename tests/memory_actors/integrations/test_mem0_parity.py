"""Our `Memory` beside mem0's own: the same keys, types, life of ids and classes of errors."""

import importlib.util
import warnings
from pathlib import Path

import pytest

if importlib.util.find_spec("mem0") is None or importlib.util.find_spec("qdrant_client") is None:
    pytest.skip(
        "mem0ai and qdrant-client are not installed: pip install 'memory-actors[peers]'",
        allow_module_level=True,
    )

from support.mem0_sequences import compared

FEW, MANY = range(5), range(5, 300)
pytestmark = [
    pytest.mark.filterwarnings("ignore"),  # mem0's own, and those of what it imports
    pytest.mark.timeout(1_800),
]


def differences(directory: Path, seeds: range) -> dict[int, list[str]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = {}
        for seed in seeds:
            each = directory / str(seed)
            each.mkdir()
            found[seed] = compared(each, seed)
    return {seed: one for seed, one in found.items() if one}


def test_a_few_sequences_of_calls_answer_alike(tmp_path: Path) -> None:
    assert differences(tmp_path, FEW) == {}


@pytest.mark.slow
def test_three_hundred_sequences_of_calls_answer_alike(tmp_path: Path) -> None:
    assert differences(tmp_path, MANY) == {}
