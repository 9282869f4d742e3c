"""The address of the owner of a store: `owner.json` in its directory, and a socket beside it.

The file says who has the store and since when, and has the secret that a client must know. Only
the store's own user can read it. A file whose process is gone is a leftover, and says nothing.

The socket is `owner.sock` in the same directory, for its owner alone. A path that is too long for a
socket is reached through the open directory, where the system has that; where there are no such
sockets, it is a port of the loopback interface, and the secret keeps others out.
"""

import errno
import fcntl
import os
import re
import secrets
import socket
import time
from collections.abc import Container, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec

from eventlog.core.errors import DiskFull, LogUnavailable
from eventlog.files.datafile import advice, make_directory, means_no_room, named, open_regular
from memory_actors.base.errors import InvalidInputError

FILE: Final = "owner.json"
SOCKET: Final = "owner.sock"
OWNER_ONLY: Final = 0o600
ADDRESS_BYTES_MAX: Final = 64 << 10
PATH_BYTES_MAX: Final = 100  # of a socket: 104 on macOS, 108 on Linux
BACKLOG: Final = 128
_URL: Final = re.compile(r"\s*[a-z][a-z0-9+.-]+:/|.*://", re.IGNORECASE | re.DOTALL)
"""Not the C:/ of a path; but any that is written badly, which may have a password in it."""
LOOK_S_MAX: Final = 0.2
LOOK_AGAIN_S: Final = 0.02
_OPEN_FILES: Final = Path("/proc/self/fd")


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """The process that owns a store, and the socket or port on which it listens."""

    pid: Annotated[int, msgspec.Meta(gt=0, lt=1 << 31)]
    since: float
    """Seconds since 1970."""
    secret: str
    port: Annotated[int, msgspec.Meta(gt=0, lt=1 << 16)] | None = None
    """None: the socket in the directory."""
    host: str = "127.0.0.1"
    machine: str | None = None
    """Of a node: what it has in common with the processes that reach its loopback addresses."""
    settings: Mapping[str, str] = {}
    """Of a node: those that all nodes have to agree on."""


def database_url(place: str | Path) -> str | None:
    """Return the URL of a database, if a store is named by one; None: it is something else."""
    return _url(place, "postgresql", "postgres")


def server_url(place: str | Path) -> str | None:
    """Return the URL of a server, if a store is named by one; None: it is something else."""
    return _url(place, "http", "https")


def _url(place: str | Path, *schemes: str) -> str | None:
    scheme, _, rest = place.strip().partition("://") if isinstance(place, str) else ("", "", "")
    return f"{scheme.lower()}://{rest}" if scheme.lower() in schemes else None


def place_of(place: str | Path) -> Path | str:
    """Return the place of a store: a directory, or the URL of a database or of a server.

    :raises InvalidInputError: it is neither.
    """
    if not isinstance(place, str | Path):
        raise InvalidInputError(
            f"a store is in one directory or one database, not in a {type(place).__name__}: name it"
        )
    if (url := database_url(place) or server_url(place)) is not None:
        return url
    if _URL.match(str(place)):
        raise InvalidInputError(
            "no store can be opened by this URL: name a directory, or give as text a "
            "postgresql:// URL, or the http:// or https:// URL of a server"
        )
    return named(place)


def shown(place: str | Path) -> str:
    """Return the name of a store as it may be shown: a URL without its password.

    Everything before the last `@` counts as user and password, however badly it is written.
    """
    url = database_url(place) or server_url(place)
    if url is None:
        return str(place)
    scheme, _, rest = url.partition("://")
    login, at, rest = rest.rpartition("@")
    rest, _, query = rest.partition("#")[0].partition("?")
    named = "".join(f"?{one}" for one in query.split("&") if one.startswith("schema="))
    return f"{scheme}://{login.partition(':')[0]}{at}{rest}{named}"


def has_password(url: str) -> bool:
    """Say whether a password is in the URL of a database."""
    login = url.partition("://")[2].rpartition("@")[0]
    return ":" in login or "password=" in url


def read_address(directory: Path) -> Address | None:
    """Return the address of a store's current or last owner, or None if missing or damaged."""
    try:
        with os.fdopen(open_regular(directory / FILE), "rb") as file:
            address = msgspec.json.decode(file.read(ADDRESS_BYTES_MAX), type=Address)
    except (OSError, ValueError, LogUnavailable):  # a name that no file can have, or no JSON
        return None
    return address if address.port is None or is_loopback(address.host) else None


@contextmanager
def _short(directory: Path) -> Iterator[str]:
    path = str(directory / SOCKET)
    if len(os.fsencode(path)) <= PATH_BYTES_MAX:
        yield path
        return
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if not _OPEN_FILES.is_dir():
            raise OSError(errno.ENAMETOOLONG, "too long for a socket", path)
        yield f"{_OPEN_FILES}/{descriptor}/{SOCKET}"
    finally:
        os.close(descriptor)


def listening(directory: Path) -> tuple[socket.socket, Address]:
    """Return a socket that listens for clients of a store, and write down where it is.

    For who has the store's lock: what another owner left is replaced.
    """
    try:
        found, port = _listening_here(directory), None
    except OSError:
        found = socket.create_server(("127.0.0.1", 0), backlog=BACKLOG)
        port = found.getsockname()[1]
    try:
        return found, note(directory, port)
    except BaseException:
        found.close()
        raise


def note(directory: Path, port: int | None = None) -> Address:
    """Write down that this process has a store."""
    address = Address(pid=os.getpid(), since=time.time(), secret=secrets.token_hex(32), port=port)
    path, data = directory / FILE, msgspec.json.encode(address)
    try:
        _write(path, data)
    except OSError as error:
        kind = DiskFull if means_no_room(error) else LogUnavailable
        place = error.filename or path
        raise kind(f"cannot write {place}: {error.strerror}{advice(error)}") from error
    return address


def _listening_here(directory: Path) -> socket.socket:
    found = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        (directory / SOCKET).unlink(missing_ok=True)
        with _short(directory) as path:
            found.bind(path)
            (directory / SOCKET).chmod(OWNER_ONLY)
        found.listen(BACKLOG)  # only now can anybody connect
    except BaseException:
        found.close()
        raise
    return found


def _write(path: Path, data: bytes) -> None:
    """Write a file for its owner alone, whole or not at all.

    On a full disk what the last owner has left is written over: it has its room still.
    """
    scratch = _scratch(path)
    if not scratch.exists() and path.exists():
        path.replace(scratch)
    with os.fdopen(open_regular(scratch, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW), "r+b") as file:
        os.fchmod(file.fileno(), OWNER_ONLY)
        file.write(data.ljust(os.fstat(file.fileno()).st_size))
    scratch.replace(path)


def _scratch(path: Path) -> Path:
    return path.with_name(f"{path.name}.new")


def forget_socket(directory: Path) -> None:
    """Remove the socket, while the store is open here."""
    with suppress(OSError):
        (directory / SOCKET).unlink(missing_ok=True)


def forget_now(directory: Path, secrets: Container[str]) -> bool:
    """Remove the file if it is one of ours, and return whether it no longer is there."""
    turn = OpeningTurn(directory)
    is_our_turn = turn.taken()
    try:
        address = read_address(directory)
        if address is None or address.secret not in secrets:
            return True
        if is_our_turn:
            with suppress(OSError):  # the file goes, and its room is kept for the next owner
                with os.fdopen(open_regular(directory / FILE, os.O_RDWR), "r+b") as file:
                    file.write(b" " * os.fstat(file.fileno()).st_size)
                (directory / FILE).replace(_scratch(directory / FILE))
        return is_our_turn
    finally:
        turn.ended()


def is_loopback(host: str) -> bool:
    """Say whether only this machine can reach an address."""
    import ipaddress  # only for addresses that are no sockets of a directory

    try:
        return ipaddress.ip_address(host).is_loopback and "%" not in host  # a zone is looked up
    except ValueError:
        return host == "localhost"


def family_of(host: str) -> socket.AddressFamily:
    """Return the family of an address that is written as numbers."""
    return socket.AF_INET6 if ":" in host else socket.AF_INET


@contextmanager
def reachable(directory: Path, address: Address) -> Iterator[tuple[socket.socket, Any]]:
    """Hold a socket for an owner, and what it is to be connected with. The caller closes it."""
    if address.port is not None:
        yield (
            socket.socket(family_of(address.host), socket.SOCK_STREAM),
            (address.host, address.port),
        )
        return
    with _short(directory) as path:
        yield socket.socket(socket.AF_UNIX, socket.SOCK_STREAM), path


def is_missing(directory: Path) -> bool:
    """Say whether there is no such directory: several processes may make it at once."""
    try:
        return not directory.exists()
    except ValueError:  # a name that no directory can have: opening it says so
        return True


def is_served(directory: Path) -> bool:
    """Say whether somebody listens for clients of a store."""
    address = read_address(directory)
    if address is None:
        return False
    try:
        with reachable(directory, address) as (found, where), found:
            found.settimeout(LOOK_S_MAX)
            # One who is frozen has a full backlog: that is served, too.
            return found.connect_ex(where) in (0, errno.EAGAIN)
    except OSError:  # an address that this machine does not have
        return False


def is_shared(directory: Path) -> bool:
    """Say whether a process that lives has said that it shares a store, or is about to close it."""
    address = read_address(directory)
    if address is None:
        return False
    try:
        os.kill(address.pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass
    return True


def make_lockable(directory: Path) -> bool:
    """Make a directory that is missing, so that there is something to lock; say whether it was.

    If several processes make a store at the same moment, one then has the turn. Errors are left to
    the opening of the store, which reports them.
    """
    try:
        if directory.exists() or not directory.parent.is_dir():
            return False
        from eventlog.files.log_directory import finish_restore  # not for every client

        finish_restore(directory)  # which would find a store where there is a directory
        if directory.exists():
            return False
        make_directory(directory)
    except (LogUnavailable, OSError, ValueError):
        return False
    return True


class OpeningTurn:
    """The right to open a store, or to take it over: one process at a time tries.

    A lock of the directory itself. It says nothing about the store, whose log has its own; it only
    keeps processes that wait from loading all that an owner needs.
    """

    def __init__(self, directory: Path):
        self._directory = directory
        self._descriptor: int | None = None

    def taken(self) -> bool:
        """Try to take the turn, and return True on success; a missing directory counts as taken."""
        try:
            descriptor = os.open(self._directory, os.O_RDONLY | os.O_CLOEXEC)
        except (OSError, ValueError):
            return True  # opening the store says what is wrong, or makes it
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return False
        except OSError:
            os.close(descriptor)  # a file system without locks of directories
            return True
        self._descriptor = descriptor
        return True

    def ended(self) -> None:
        """Give it up."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
