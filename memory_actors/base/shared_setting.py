"""A setting that a store keeps for all its processes, for code that runs in threads."""

import asyncio

from eventlog import SettingStore


class SharedSetting:
    """One setting of a store, as a file would be used: its methods wait. Not for the loop itself.

    Create it on the loop that the store is open on.
    """

    def __init__(self, store: SettingStore, name: str):
        self.store = store
        self.name = name
        self._loop = asyncio.get_running_loop()

    def load(self) -> bytes | None:
        """Return the value, None if there is none."""
        call = self.store.load_setting(self.name)
        return asyncio.run_coroutine_threadsafe(call, self._loop).result()

    def save(self, value: bytes, expected: bytes | None) -> bool:
        """Save a value over the expected one, and say whether it is there now."""
        call = self.store.save_setting(self.name, value, expected=expected)
        return asyncio.run_coroutine_threadsafe(call, self._loop).result()
