"""The capabilities of each store beyond the port, under the signatures of their protocols."""

import inspect
from pathlib import Path

import pytest
from contracts.stores import STORES, open_store

from eventlog import (
    ArchivingStore,
    BackupStore,
    ChainedStore,
    CountingStore,
    DerivingStore,
    ErasingStore,
    FoldingStore,
    LocatingStore,
    MeasuredStore,
    MissingCapability,
    SettingStore,
    ShrinkingStore,
    VerifyingStore,
    require,
)

pytestmark = pytest.mark.anyio

EVERYWHERE = {ArchivingStore, CountingStore, ErasingStore, MeasuredStore}
ON_DISK = EVERYWHERE | {
    BackupStore, ChainedStore, FoldingStore, ShrinkingStore, VerifyingStore
}  # fmt: skip
IN_MEMORY = EVERYWHERE | {DerivingStore, SettingStore}
IN_DATABASE = IN_MEMORY | {ChainedStore, LocatingStore, VerifyingStore}
ALL = ON_DISK | IN_DATABASE
CAN = {
    "lmdb": ON_DISK,
    "encrypted": ON_DISK,
    "memory": IN_MEMORY,
    "postgres": IN_DATABASE,
    "encrypted postgres": IN_DATABASE,
}


def methods(capability: type) -> dict[str, inspect.Signature]:
    found = inspect.getmembers(capability, inspect.isfunction)
    return {name: inspect.signature(at) for name, at in found if not name.startswith("_")}


@pytest.mark.parametrize("name", STORES)
async def test_a_store_has_its_capabilities_and_says_which_it_lacks(name: str, tmp_path: Path):
    async with open_store(name, tmp_path) as log:
        for capability in CAN[name]:
            assert require(log, capability) is log
            for method, signature in methods(capability).items():
                asked = signature.parameters.values()
                given = inspect.signature(getattr(type(log), method)).parameters.values()
                assert [(p.name, p.kind, p.default) for p in given] == [
                    (p.name, p.kind, p.default) for p in asked
                ], method
        for capability in ALL - CAN[name]:
            with pytest.raises(MissingCapability, match=capability.__name__):
                require(log, capability)
