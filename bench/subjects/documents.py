"""Structured memory, held at a number of documents."""

from collections.abc import Awaitable, Mapping
from typing import Any

from bench.subjects.base import Call, Subject
from bench.workload import CATEGORIES
from memory_actors import Receipt


class Documents(Subject):
    """Documents of some 350 bytes in one collection."""

    name = "structured"
    notes = ""

    @property
    def full(self) -> int:
        """All documents."""
        return self.limits.documents

    def add(self, *, auto_prune: bool = False) -> Awaitable[Receipt]:
        """Put a document."""
        return self.user.documents.put("items", self._document(), auto_prune=auto_prune)

    def _document(self) -> dict[str, Any]:
        rng = self.rng
        return {
            "sku": rng.randrange(1_000_000),
            "name": next(self.texts),
            "category": f"category {rng.randrange(CATEGORIES)}",
            "price": round(rng.uniform(1, 1_000), 2),
            "stock": {"here": rng.randrange(100), "ordered": rng.randrange(10)},
            "tags": [f"tag {rng.randrange(30)}" for _ in range(3)],
            "notes": self.notes,
        }

    def queries(self) -> Mapping[str, Call]:
        """Return the queries."""
        return {
            "documents.get": lambda: self.user.documents.get(self.any_id()),
            "documents.find, eq": lambda: self._find({"category": "category 3"}),
            "documents.find, range": lambda: self._find({"price": {"gte": 100, "lt": 110}}),
            "documents.find, and / or": lambda: self._find(BOTH),
            "documents.find, ordered page": lambda: self.user.documents.find(
                "items", order_by=["category", "-price"], limit=20, offset=100
            ),
            "retrieve (structured)": lambda: self.retrieve("structured"),
        }

    def _find(self, filters: Mapping[str, Any]) -> Awaitable[Any]:
        return self.user.documents.find("items", filters, limit=20)


BOTH = {
    "and": [
        {"price": {"gt": 500}},
        {"or": [{"tags": {"contains": "tag 7"}}, {"stock.here": {"lt": 5}}]},
    ]
}


class LargeDocuments(Documents):
    """Documents of 8 KB: together nearly the quota by size, and more than is kept in memory."""

    name = "structured, 8 KB each"
    notes = "a word and " * 720
