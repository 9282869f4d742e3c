"""Functions for imports and syncing: they are no operations, and no caller needs them."""
# ruff: noqa: SLF001 - the other half of these handles, kept out of the public API

from collections.abc import Mapping, Sequence

from memory_actors.api.user import UserMemory
from memory_actors.base.context_documents import BlockChange, ContextReceipt
from memory_actors.base.on import Origins
from memory_actors.base.records import Item, Memory, Receipt
from memory_actors.base.reports import ForgottenFact
from memory_actors.users.handles.context_document import Base, ContextDocument


def from_origins(user: UserMemory, origins: Origins) -> UserMemory:
    """Return a handle for words of several origins, as another store has them. No I/O."""
    return user._with(origins=origins)


def writing_again(user: UserMemory, agent_id: str | None, lives_until_us: int | None) -> UserMemory:
    """Return a handle for memories of another store, with their agent and the time they expire.

    None: as the handle has it. No I/O.
    """
    agent = {} if agent_id is None else {"agent_id": agent_id}
    return user._with(**agent, lives_until_us=lives_until_us)


async def put_block(
    user: UserMemory, memory_id: str, item: Item, data: Mapping[str, object]
) -> Receipt:
    """Put a block of a context document as an export of another store has it.

    :raises QuotaExceededError: there is no room for it.
    :raises InvalidInputError: it is no block, or its id stands for another memory.
    """
    return await user.context._put_block(memory_id, item, data)


async def put_summary(user: UserMemory, memory: Memory) -> Receipt:
    """Add a summary as an export of another store has it; its originals stay where they are.

    :raises QuotaExceededError: there is no room for it.
    :raises InvalidInputError: it is no summary, or its id stands for another memory.
    """
    return await user._put_summary(memory)


async def put_forgotten(user: UserMemory, facts: Sequence[ForgottenFact]) -> None:
    """Refuse what was forgotten in another store, as its export has it.

    :raises InvalidInputError: one is not what `forgotten` returns.
    """
    await user._put_forgotten(facts)


async def note_synced(
    document: ContextDocument,
    base: Base,
    changes: Sequence[BlockChange] = (),
    *,
    expected: bytes | None = None,
    auto_archive: bool = False,
    label: str = "",
) -> ContextReceipt:
    """Carry out changes and note what a file and the document then have in common.

    See `ContextDocument.change`; one append does both.
    """
    return await document._note_synced(
        base, changes, expected=expected, auto_archive=auto_archive, label=label
    )


async def archive_digest(document: ContextDocument) -> bytes:
    """Return a digest of what is in the archive: another one when that has changed."""
    return await document._archive_digest()
