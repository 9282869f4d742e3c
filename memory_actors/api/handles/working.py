"""`user.working`: a small dictionary of task state, held in memory, logged within 50 ms."""

from typing import Any

from memory_actors.base.records import Metadata, Receipt
from memory_actors.base.validation import check_name, json_copy
from memory_actors.kinds import working
from memory_actors.users.writers.scope import Scope
from memory_actors.users.writers.working import WorkingWriter


class WorkingMemory:
    """Keys to JSON values, at most 100 and 10 KB by default, least recently used out first.

    Writes are acknowledged at once and on disk within 50 ms (durability `relaxed`).
    """

    def __init__(self, scope: Scope, writer: WorkingWriter):
        self._scope = scope
        self._writer = writer

    async def set(
        self,
        key: str,
        value: Any,
        *,
        metadata: Metadata | None = None,
        memory_id: str | None = None,
        auto_prune: bool | None = None,
    ) -> Receipt:
        """Set a key to a JSON value. `memory_id` is for a new key; an old one keeps its own.

        When the sizes no longer fit, the least recently used entries go. When the number of keys is
        at its limit, a new key is refused unless `auto_prune`, which makes the least recently used
        one go.

        :raises QuotaExceededError: too many keys, or a value that could never fit.
        :raises InvalidInputError: the key or value is not what it must be.
        """
        receipt = await self._writer.set(
            check_name(key, "key"),
            value,
            metadata=metadata,
            memory_id=memory_id,
            auto_prune=self._scope.prunes(auto_prune),
        )
        if receipt.operation == "unchanged":
            await self.get(key)  # setting it to what it is was a use, too
        return receipt

    async def get(self, key: str, default: Any = None) -> Any:
        """Return a key's value, which counts as a use of it; `default` if there is none."""
        with self._scope.measured("GetKey", working.NAME):
            async with self._scope.live() as live:
                row = live.state.working.held.get(check_name(key, "key"))
                if row is None:
                    return default
                live.touch(key)
                return json_copy(row.value, "value")

    async def delete(self, key: str) -> Receipt:
        """Delete a key.

        :raises NotFoundError: there is none.
        """
        return await self._writer.delete_key(check_name(key, "key"))

    async def items(self) -> dict[str, Any]:
        """Return all keys and values, in the order they were last set; a use of none of them."""
        with self._scope.measured("Items", working.NAME):
            async with self._scope.live() as live:
                held = live.state.working.held
            return {key: json_copy(row.value, "value") for key, row in held.items()}
