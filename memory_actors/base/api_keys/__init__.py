"""Who may come in over HTTP: keys, and the file in the data directory that they are kept in.

Below the server, because erasing a user takes the user's keys away, server or not.
"""

from memory_actors.base.api_keys.keys import ApiKey
from memory_actors.base.api_keys.store import KeyFileError, KeyStore

__all__ = ["ApiKey", "KeyFileError", "KeyStore"]
