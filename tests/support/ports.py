"""Ports for servers that have to be told theirs: nobody else can be given one meanwhile."""

import socket


class ReservedPort:
    """A port that the system gives to nobody who asks for any one, until it is given up.

    Whoever names it may listen there, one after another, with `SO_REUSEADDR`, which all servers
    set. A port that was only found to be free may be taken before the server begins, or between two
    of its lives.
    """

    def __init__(self) -> None:
        self._held = socket.socket()
        self._held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._held.bind(("127.0.0.1", 0))
        self.number: int = self._held.getsockname()[1]

    def give_up(self) -> None:
        """Leave the port to others. Idempotent."""
        self._held.close()
