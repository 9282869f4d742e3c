"""The owner's side of the socket: who may come in, and what each may ask for at once.

A peer says hello within seconds and in few bytes, with the secret of the store's own directory, or
is gone. Then every call is a task of its own. If a peer has too many calls in progress, the server
stops reading from it until some are answered. If a peer does not read its answers, it gets no more
of them. The unfinished frames and unread answers of all peers together are limited: the peer with
the most is disconnected.

A call goes on when its connection is lost. It may be asked again over another one, and waits then
for the one that runs: so it is carried out once.
"""

import asyncio
import hmac
import os
import select
import socket
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from operator import attrgetter
from typing import Final

from memory_actors.api.parts import Choices, as_text, check
from memory_actors.api.system import MemorySystem
from memory_actors.base.errors import InvalidInputError, SystemClosedError, UnavailableError
from memory_actors.sharing import frames
from memory_actors.sharing.address import Address
from memory_actors.sharing.answering import Answering, ClientSession
from memory_actors.sharing.declaration import Caller, How
from memory_actors.sharing.frames import FrameLink
from memory_actors.sharing.generated_operations import DECLARED
from memory_actors.sharing.invocations import FORGET, OWNED_HERE, OwnedHere
from memory_actors.sharing.values import error_bytes

CONNECTIONS_MAX: Final = 512
STRANGERS_MAX: Final = 128  # who have not said hello yet: more than are accepted in one turn
HELLO_S_MAX: Final = 5.0
CALLS_MAX: Final = 1024  # of one client at once, as an actor's mailbox
CARRIED_OUT_MAX: Final = 32  # of those: more at once make answers no sooner, and take memory
INCOMING_BYTES_MAX: Final = 512 << 20  # of incomplete frames, of all peers together
UNREAD_BYTES_MAX: Final = 512 << 20  # of answers, of all peers together
CLOSE_S: Final = 10.0
LEAVE_S: Final = 1.0
"""A client may take so long to read its last answers; then its connection is cut off."""
REST_S_MAX: Final = 0.5
"""A loop that does not run for so long, while somebody waits, loses the store."""
LOOK_MS: Final = 2000  # between two looks whether it is over


class OwnerServer:
    """Serves a store to other processes, from `start` until `close`."""

    def __init__(
        self,
        memory: MemorySystem,
        choices: Choices,
        give_up: Callable[[], object] | None = None,
        *,
        listen: Callable[[], tuple[socket.socket, Address]],
        unlisten: Callable[[], object] = lambda: None,
        release: Callable[[], object] = lambda: None,
    ):
        """Make one that listens on what `listen` returns; `unlisten` takes its address down.

        `release` lets go of the store where the event loop is over, or does not run.
        """
        self._memory, self._choices = memory, choices
        self.give_up = give_up
        """None: this process keeps the store. Otherwise it goes to the first who wants to."""
        self.answering = Answering(memory)
        self.everywhere: Caller | None = None
        """Of a node: carries out what clients ask that are no nodes, wherever the users are."""
        self.address: Address
        self.closing = False
        """True: it takes no more calls."""
        self.running: dict[str, asyncio.Future[frames.Message]] = {}
        """The answers of calls that are being carried out, by client and number."""
        self._listen, self._unlisten, self._release = listen, unlisten, release
        self._peers: set[_Peer] = set()
        self._alone = asyncio.Event()
        """Set while nobody is connected."""
        self._alone.set()
        self.strangers: dict[_Peer, None] = {}
        """Peers that have not said hello, in the order in which they came."""
        self._server: asyncio.Server | None = None
        self._listening: socket.socket | None = None
        self._taking: asyncio.Task[None] | None = None
        self.is_over = False
        """True: the store is closed, or this process has let go of it."""

    @property
    def choices(self) -> Choices:
        """The choices that were made for the store, and the name of its embedder."""
        name = self._memory._services.embeddings.name  # noqa: SLF001 - which may change
        return self._choices if name is None else {**self._choices, "embedder": as_text(name)}

    async def start(self) -> None:
        """Listen."""
        self._listening, self.address = self._listen()
        self._listening.setblocking(False)
        self._loop = asyncio.get_running_loop()
        # Serving begins apart: a cancellation leaves a server that `close` can end.
        self._server = await self._loop.create_server(
            self._came, sock=self._listening, start_serving=False
        )
        OWNED_HERE[self.address.secret] = OwnedHere(
            self.answering.at_once, self._loop, self._release
        )
        await self._server.start_serving()
        self._taking = asyncio.create_task(self._take_calls())
        watched = weakref.ref(self), self._listening
        threading.Thread(target=_watch_loop, args=watched, name="store-door", daemon=True).start()

    async def _take_calls(self) -> None:
        """Take calls until all tasks are cancelled, as where the loop ends: the next owner does."""
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if not self.is_over and self._listening is not None:  # who comes waits for the next
                self._loop.remove_reader(self._listening)
            self._tell_closing()

    def _tell_closing(self) -> None:
        """Take no more calls. Clients hear it first: they ask the next owner what is refused."""
        if self.closing:
            return
        self.closing = True
        for peer in self._peers:
            peer.link.send(frames.Closing())
            peer.end_iterations()

    def let_go(self) -> None:
        """Let go of the store if its loop does not run."""
        if not self.is_over and not self._loop.is_running():
            self._release()

    def close_sockets(self) -> None:
        """Close the sockets of a loop that has ended, or a forked child's copies of its parent's.

        Otherwise connected and connecting clients would not notice that the parent is gone.
        """
        if self._listening is not None:
            self._listening.close()
        for peer in self._peers:
            peer.link.close_socket()

    def release(self) -> None:
        """Stop listening and end all connections, from a thread: the loop is over, or rests."""
        self.closing = self.is_over = True
        if self._listening is None:
            return
        OWNED_HERE.pop(self.address.secret, None)
        self._unlisten()
        with suppress(OSError):  # until nobody else waits
            while True:
                self._listening.accept()[0].close()
        try:
            self._loop.call_soon_threadsafe(self._end_sockets)  # it has them in its selector
        except RuntimeError:
            self.close_sockets()
        else:
            for peer in list(self._peers):
                peer.link.shut_down()

    def _end_sockets(self) -> None:
        if self._server is not None:
            self._server.close()
        for peer in list(self._peers):
            peer.link.abort()

    def _came(self) -> FrameLink:
        if len(self.strangers) >= STRANGERS_MAX:
            next(iter(self.strangers)).link.abort()
        peer = _Peer(self)
        self._peers.add(peer)
        self._alone.clear()
        self.strangers[peer] = None
        if self.closing:  # it was accepted before
            peer.link.abort()
        return peer.link

    def left(self, peer: "_Peer") -> None:
        """Forget a peer."""
        self._peers.discard(peer)
        if not self._peers:
            self._alone.set()
        self.strangers.pop(peer, None)

    @property
    def is_full(self) -> bool:
        """True if nobody else may come in."""
        return len(self._peers) - len(self.strangers) > CONNECTIONS_MAX

    def make_room(self) -> None:
        """End the connection of who has sent or not read the most, if all have too much."""
        links = [peer.link for peer in self._peers if not peer.link.is_closing]
        incoming, unread = attrgetter("frames.waiting_bytes"), attrgetter("unread_bytes")
        for held, most in ((incoming, INCOMING_BYTES_MAX), (unread, UNREAD_BYTES_MAX)):
            if sum(map(held, links)) > most:
                max(links, key=held).abort()

    async def close(self) -> None:
        """Take no more calls, wait for those in hand, and end all connections."""
        self._tell_closing()
        self.is_over = True
        if self._server is None or self._listening is None:
            return
        OWNED_HERE.pop(self.address.secret, None)
        self._unlisten()
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)  # ends the thread that watches it
        self._server.close()
        if self._taking is not None:
            self._taking.cancel()
            await asyncio.wait([self._taking])
        if self.running:
            await asyncio.wait(self.running.values(), timeout=CLOSE_S)
        peers = list(self._peers)
        for peer in peers:
            peer.link.close()
        with suppress(TimeoutError):  # one that reads nothing would keep its socket open
            await asyncio.wait_for(self._alone.wait(), LEAVE_S)
        for peer in list(self._peers):
            peer.link.abort()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._alone.wait(), LEAVE_S)
        await asyncio.gather(*(peer.closed() for peer in peers))


def _watch_loop(serving: "weakref.ref[OwnerServer]", listening: socket.socket) -> None:
    """Let go of a store when somebody waits outside and the loop does not run."""
    door = select.poll()
    door.register(listening, select.POLLIN)

    def is_open() -> bool:  # between two looks nothing keeps a server
        server = serving()
        return server is not None and not server.is_over

    while is_open():
        if door.poll(LOOK_MS) and is_open():
            time.sleep(REST_S_MAX)
            if door.poll(0) and (server := serving()) is not None:
                server.let_go()
                del server


class _Peer:
    def __init__(self, server: OwnerServer):
        self._server = server
        self._session: ClientSession | None = None
        self._client = ""
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._iterations: set[int] = set()
        self._paused = False
        self._ending: asyncio.Task[None] | None = None
        self._turns = asyncio.Semaphore(CARRIED_OUT_MAX)
        self.link = FrameLink(self._heard, self._lost, frames.HELLO_BYTES_MAX, server.make_room)
        loop = asyncio.get_running_loop()
        self._late = loop.call_later(HELLO_S_MAX, self.link.abort)

    def _heard(self, _: FrameLink, message: frames.Said) -> None:
        if isinstance(message, frames.Hello) and self._session is None:
            self._hello(message)
        elif isinstance(message, frames.Hello) or self._session is None:
            self.link.abort()
        elif isinstance(message, frames.Call):
            self._call(message, self._session)
        elif isinstance(message, frames.Ping):
            self.link.send(frames.Pong())
        elif isinstance(message, frames.Cancel):
            if (task := self._tasks.get(message.number)) is not None:
                task.cancel()
        else:
            self._session.heard(message)

    # --- hello

    def _hello(self, hello: frames.Hello) -> None:
        self._late.cancel()
        server = self._server
        server.strangers.pop(self, None)
        try:
            self._check(hello)
            position = server.answering.position
        except Exception as error:
            self.link.send(frames.Refused(error_bytes(error)))
            self.link.close()
            return
        self.link.frames.bytes_max = frames.FRAME_BYTES_MAX
        self._client = hello.client
        everywhere = None if hello.keeps else server.everywhere
        self._session = ClientSession(server.answering, hello.client, self.link.send, everywhere)
        since = server.address.since
        self.link.send(frames.Welcome(os.getpid(), since, position, server.choices))

    def _check(self, hello: frames.Hello) -> None:
        server = self._server
        if not hmac.compare_digest(hello.secret.encode(), server.address.secret.encode()):
            raise UnavailableError("this is no client of this store: it does not know the secret")
        if hello.protocol != frames.PROTOCOL:
            raise UnavailableError(
                f"process {os.getpid()} has the store and speaks version {frames.PROTOCOL} of the "
                f"protocol, this one {hello.protocol}: run one version of memory-actors in both"
            )
        if server.is_full:
            raise UnavailableError(f"{CONNECTIONS_MAX} clients are connected: close some of them")
        if server.give_up is not None and hello.keeps and not server.closing:
            server.give_up()
            raise SystemClosedError("the store is about to be yours: try again")
        if server.closing:
            raise SystemClosedError("the memory system is closing: try again")
        check(hello.choices, server.choices, os.getpid())

    # --- calls

    def _call(self, call: frames.Call, session: ClientSession) -> None:
        if (earlier := self._tasks.get(call.number)) is not None:
            if earlier.cancelling():  # it was asked again before it had ended: nobody answers it
                earlier.add_done_callback(lambda _: self._call(call, session))
            return
        self._tasks[call.number] = asyncio.create_task(self._answered(call, session))
        # Not by the task itself: one that is cancelled before it has begun carries nothing out.
        self._tasks[call.number].add_done_callback(lambda _: self._done(call, session))
        declared = DECLARED.get(call.operation)
        if declared is None or declared.how is How.ITERATED:
            self._iterations.add(call.number)
        if len(self._tasks) >= CALLS_MAX and not self._paused:
            self._paused = True
            self.link.read(go_on=False)

    async def _answered(self, call: frames.Call, session: ClientSession) -> None:
        try:
            if call.number in self._iterations or call.operation == FORGET:
                # An iteration may have no end; and who erases a user may be waited for by others.
                answer = await self._carried_out(call, session)
            else:
                async with self._turns:
                    await self.link.drained()  # nothing is made for who does not read
                    if self.link.is_closing:
                        return
                    answer = await self._answer(call, session)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                return
            # Another task cancelled the work that this call waited for: the client would wait for
            # ever.
            error = UnavailableError("the call was ended at its owner: read, then retry")
            answer = frames.CallFailed(call.number, error_bytes(error))
        self.link.send(answer)

    async def _answer(self, call: frames.Call, session: ClientSession) -> frames.Message:
        """Carry out a call, or wait for it where it is being carried out already."""
        name, running = f"{self._client}:{call.number}", self._server.running
        while (earlier := running.get(name)) is not None:
            await asyncio.wait([earlier])
            if not earlier.cancelled():
                return earlier.result()
        answer: asyncio.Future[frames.Message] = asyncio.get_running_loop().create_future()
        running[name] = answer
        try:
            answer.set_result(await self._carried_out(call, session))
        finally:
            answer.cancel()  # if it has none
            del running[name]
        return answer.result()

    async def _carried_out(self, call: frames.Call, session: ClientSession) -> frames.Message:
        try:
            if self._server.closing:
                raise SystemClosedError("the memory system is closing: try again")
            value = await session.answer(call)
            if len(value) > frames.VALUE_BYTES_MAX:
                raise InvalidInputError(
                    f"the result takes {len(value):,} bytes (max: {frames.VALUE_BYTES_MAX:,}): ask "
                    "for less at once"
                )
            return frames.Answered(call.number, value)
        except Exception as error:
            return frames.CallFailed(call.number, error_bytes(error))

    def _done(self, call: frames.Call, session: ClientSession) -> None:
        self._tasks.pop(call.number, None)
        self._iterations.discard(call.number)
        session.done(call.number)
        if self._paused and len(self._tasks) < CALLS_MAX // 2:
            self._paused = False
            self.link.read(go_on=True)

    # --- the end

    def end_iterations(self) -> None:
        """End what would never end by itself: the client goes on with it at the next owner."""
        for number in list(self._iterations):
            self._tasks[number].cancel()

    def _lost(self, _link: FrameLink, _error: Exception | None) -> None:
        """End what needs the client; the rest goes on, for it may be asked again."""
        self._late.cancel()
        self.end_iterations()
        for number in set() if self._session is None else self._session.bound:
            self._tasks[number].cancel()
        self._server.left(self)
        if self._session is not None:
            self._ending = asyncio.create_task(self._session.close())

    async def closed(self) -> None:
        """Return when what the client had open is closed."""
        if self._ending is not None:
            await self._ending
