"""Moving a closed store from its directory to a database.

The log moves itself (eventlog/upkeep/moving.py). What lies beside it and is not derived goes into
the settings of the database: API keys, the key of hashed recalls, when compaction last ran by
schedule. Vectors and indexes are made again, user by user, when somebody needs them.
"""

import asyncio
from pathlib import Path
from typing import Final

from eventlog import EncryptionMismatch, Moved, Progress
from eventlog.files.datafile import named, read_bytes
from memory_actors.base import api_keys
from memory_actors.base.errors import NotFoundError
from memory_actors.compaction import schedule
from memory_actors.upkeep.store import has_log, open_log
from memory_actors.users import recalls

SETTINGS: Final = {
    api_keys.FILE: api_keys.SETTING,
    recalls.KEY_FILE: recalls.SETTING,
    schedule.FILE_NAME: schedule.SETTING,
}
"""The file that each setting is in, where a store is in a directory."""


def move_store(directory: str | Path, url: str, *, progress: Progress | None = None) -> Moved:
    """Move the store in a directory to an empty schema of a database. Blocks.

    `url` is that of `MemorySystem.open`. The directory must be closed, and is not changed. A move
    that was cut off goes on when it is repeated; until it is whole and verified nobody can open the
    target. `progress(done, total)` is called from a thread.

    :raises NotFoundError: there is no store in the directory.
    :raises LogLocked: it is open.
    :raises EncryptionMismatch: it is encrypted: a database has no file of keys.
    :raises LogUnavailable: the database cannot be reached or used, or the schema is not empty.
    :raises CorruptLog: the store is damaged; or what came of it is not what is in it.
    """
    return asyncio.run(_moved(named(directory), url, progress))


async def _moved(directory: Path, url: str, progress: Progress | None) -> Moved:
    if not has_log(directory):
        raise NotFoundError(f"there is no store in the directory {str(directory)!r} to be moved")
    try:
        async with open_log(directory, None) as log:
            return await log.move_to(url, settings=_settings(directory), progress=progress)
    except EncryptionMismatch as error:
        raise EncryptionMismatch(
            f"the store in {str(directory)!r} is encrypted, and a database has no file of keys: "
            "export its users and import them there, and encrypt the disk of the database"
        ) from error


def _settings(directory: Path) -> dict[str, bytes]:
    found = {name: directory / file for file, name in SETTINGS.items()}
    return {name: read_bytes(path) for name, path in found.items() if path.exists()}
