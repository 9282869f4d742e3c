"""The outcome of a row of the fault matrix."""

from typing import Literal, TypeAlias

import msgspec

Counts: TypeAlias = Literal["quick", "middle", "full"]
FAILURES_MAX = 12  # shown of each row: the first ones tell most


class Row(msgspec.Struct, kw_only=True):
    """One fault, tried many times."""

    name: str = ""
    fault: str
    tried: int = 0
    survived: int = 0
    """Trials that ended as they must."""
    lost: int = 0
    """Acknowledged writes that were gone, and answers that were wrong."""
    detail: dict[str, int | float | str] = {}
    """Other counts."""
    failures: list[str] = []
    """The first trials that did not end as they must."""
    skipped: str = ""
    """Why it was not tried, if so."""
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """True if every trial ended as it must."""
        return bool(self.skipped) or (self.tried > 0 and self.survived == self.tried)

    def count(self, what: str, by: int = 1) -> None:
        """Count something beside."""
        self.detail[what] = int(self.detail.get(what, 0)) + by

    def survive(self, what: str = "") -> None:
        """Note a trial that ended as it must."""
        self.tried += 1
        self.survived += 1
        if what:
            self.count(what)

    def fail(self, what: str, failure: str, *, lost: int = 0) -> None:
        """Note a trial that did not."""
        self.tried += 1
        self.lost += lost
        self.count(what)
        if len(self.failures) < FAILURES_MAX:
            self.failures.append(f"{what}: {failure}"[:600])
