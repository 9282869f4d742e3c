"""Import of what another store exported, into a closed one that has the same past.

The log checks and appends (eventlog/upkeep/importing.py). A user who was erased there is erased
here by it, and what else says something about them goes first, as in erasing.py: index files hold
words, vectors say what texts were about, keys let them in. Vectors lie under the digests of texts,
and what the texts were is about to be forgotten, so the whole file of them goes: it is made again.
"""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path

import anyio.to_thread

from eventlog import EncryptionMismatch, Imported, Progress
from eventlog.keys import keyfile
from eventlog.upkeep.exporting import Begin, Event, Stream, read_export, unpacked
from eventlog.upkeep.importing import gap
from memory_actors.base.api_keys import KeyStore
from memory_actors.base.key_files import known_key_file
from memory_actors.base.streams import is_user_stream, key_owner, user_of
from memory_actors.search.embedding.vector_table import remove_files
from memory_actors.upkeep.store import has_log, open_log
from memory_actors.users.index_files import remove_indexes


async def import_events(
    file: Path, directory: Path, progress: Progress | None, key_file: Path | None
) -> Imported:
    """Append an export. See `MemorySystem.import_events`."""

    def forget(streams: Sequence[str]) -> None:
        _forget(directory, streams)

    path = known_key_file(directory, key_file)
    await anyio.to_thread.run_sync(_check_new, file, directory, path)
    with nullcontext() if path is None else keyfile.opened(path, key_owner) as keys:
        async with open_log(directory, keys) as log:
            return await log.import_events(file, progress=progress, erasing=forget)


def _check_new(file: Path, directory: Path, key_file: Path | None) -> None:
    """Refuse what would leave an empty store behind, where there is none yet."""
    if has_log(directory):
        return
    names: dict[bytes, str] = {}
    encrypted: dict[str, bool] = {}
    for message in read_export(file):
        if isinstance(message, Begin) and message.since:
            raise gap(file, message.since, 0)
        if isinstance(message, Stream):
            names[message.sid] = message.name
        if isinstance(message, Event):
            taken = unpacked(file, message)
            if taken.gone is None and taken.stream_id in names:
                encrypted[names[taken.stream_id]] = taken.is_encrypted
    _check_keys(file, encrypted, key_file)


def _check_keys(file: Path, encrypted: Mapping[str, bool], key_file: Path | None) -> None:
    """See that a new store has the keys of the streams in a file, or none if it needs none."""
    needed = [stream for stream, is_encrypted in encrypted.items() if is_encrypted]
    if needed and key_file is None:
        raise EncryptionMismatch(
            f"{file} is of a store that is encrypted: name a copy of that store's file of keys"
        )
    if encrypted and not needed and key_file is not None:
        raise EncryptionMismatch(
            f"{file} is of a store that is not encrypted: import it without {key_file}"
        )
    if needed and key_file is not None:
        with keyfile.opened(key_file, key_owner) as keys:
            keys.attach(b"")
            for stream in needed:
                keys.cipher(stream)


def _forget(directory: Path, streams: Sequence[str]) -> None:
    """Remove what is kept of users beside the log."""
    remove_files(directory)
    for stream in streams:
        remove_indexes(directory, stream)
        if is_user_stream(stream):
            KeyStore(directory).revoke_all(user_of(stream))
