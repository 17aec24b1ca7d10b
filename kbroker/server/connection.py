"""One connection: frames in, answers out, in order, one request in progress at a time.

What a frame says is ``dispatch``'s business; here are framing, back-pressure and the end of a connection.

- Frames are parsed in place in the server's one receive buffer. Whatever outlives the callback that brought it is
  copied: the begin of a frame, the frames behind a request that waits.
- All answers of one received chunk leave in one write. There is no task per request.
- While a request waits, the client reads slowly or the connection is muted, no further request is served. Reading goes
  on until something arrives, so that a client that leaves meanwhile is noticed, and pauses then: a connection holds at
  most one receive buffer of unserved bytes.
- A frame that breaks the protocol ends its connection and nothing else.

States: serving; busy (``_waiting``, ``_muted``, ``_kept_out`` or an outbox that is not empty); leaving (``_leaving``:
what is in progress is answered, nothing new is served); closed (``_closed``).
"""

from __future__ import annotations

import asyncio
import logging
import struct
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias, cast

from kbroker.handlers.context import ConnectionMustCloseError
from kbroker.host import Clock, Timer
from kbroker.protocol.errors import ProtocolError
from kbroker.server.outbox import Outbox, Part, TornAnswerError
from kbroker.server.receive import RECEIVE_SIZE, BufferPool, overwrite
from kbroker.server.strangers import stranger

logger = logging.getLogger(__name__)

HELD_MAX = 1024
"""The begin of a frame up to this size is kept as it is and put before the next chunk; a larger one gets a buffer."""
UNSENT_MAX = 64 * 1024
"""Answers that have gathered to this size leave before the chunk that asked for them is done."""

_frame_size = struct.Struct(">i").unpack_from


class Waiting:
    """A request whose handler waits: ``finish(future)`` makes its answer when the future is done.

    ``finish`` is called even when the connection is gone (the answer is then dropped). A future that belongs to the
    request alone (``abandon``) is cancelled when the connection is lost; whoever completes it looks at ``done()``
    first. A future with a method ``hurry`` is asked by it to be done now when the server stops.
    """

    __slots__ = ("abandon", "finish", "future")

    def __init__(
        self, future: asyncio.Future[Any], finish: Callable[[asyncio.Future[Any]], Answered], *, abandon: bool
    ):
        self.future = future
        self.finish = finish
        self.abandon = abandon


Answered: TypeAlias = bytes | list[Part] | None
"""An answer with its length in front, whole or in parts; None when the request has none."""
Dispatch: TypeAlias = "Callable[[Connection, memoryview], Answered | Waiting]"
"""Serves one frame (without its length). The view dies when it returns. Raises ``ProtocolError`` or
``ConnectionMustCloseError``."""


class Shared:
    """What the connections of one server share. Owner: ``Server``."""

    __slots__ = (
        "admit",
        "clock",
        "connections",
        "dispatch",
        "forget",
        "overwrite",
        "pool",
        "receive_buffer",
        "request_size_max",
        "uses",
    )

    def __init__(
        self,
        dispatch: Dispatch,
        clock: Clock,
        *,
        request_size_max: int,
        admit: Callable[[Connection], str | None],
        forget: Callable[[Connection], None],
        overwrite_buffers: bool = False,
    ) -> None:
        self.dispatch = dispatch
        """Replaceable while the server runs: fault injection costs nothing when unused."""
        self.clock = clock
        self.request_size_max = request_size_max
        self.admit = admit
        """Called with a new connection; a reason when it must not stay."""
        self.forget = forget
        """Called when a connection has ended."""
        self.overwrite = overwrite_buffers
        self.receive_buffer = memoryview(bytearray(RECEIVE_SIZE))
        self.pool = BufferPool(overwrite=overwrite_buffers)
        self.connections: set[Connection] = set()
        self.uses = 0
        """Grows whenever something happens on a connection, which keeps the number: who was unused for longest?"""


class Connection(asyncio.BufferedProtocol):
    """One client. ``info`` is what dispatch knows about it and belongs to dispatch."""

    __slots__ = (
        "_closed",
        "_filled",
        "_frame_end",
        "_held",
        "_kept_out",
        "_leaving",
        "_muted",
        "_outbox",
        "_partial",
        "_reading_paused",
        "_shared",
        "_transport",
        "_waiting",
        "info",
        "last_use",
        "listener",
        "local_address",
        "peer_address",
    )

    def __init__(self, shared: Shared, listener: str) -> None:
        self._shared = shared
        self.listener = listener
        self.info: Any = None
        self.peer_address: tuple[str, int] = ("", 0)
        self.local_address: tuple[str, int] = ("", 0)
        self._held = b""
        self._partial: bytearray | None = None
        self._filled = 0
        self._frame_end = 0
        self._waiting: Waiting | None = None
        self._muted: Timer | None = None
        self._kept_out = False
        self._reading_paused = False
        self._leaving = False
        self._closed = False
        self._note_use()

    def __str__(self) -> str:
        host, port = self.peer_address
        return f"connection of {f'[{host}]' if ':' in host else host}:{port} on {self.listener}"

    def _note_use(self) -> None:
        shared = self._shared
        shared.uses = self.last_use = shared.uses + 1

    # --- what the transport calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is none by inheritance
        self._outbox = Outbox(self._transport)
        self.peer_address = _address(transport.get_extra_info("peername"))
        self.local_address = _address(transport.get_extra_info("sockname"))
        self._shared.connections.add(self)
        refusal = self._shared.admit(self)
        if refusal is not None:
            self.refuse(refusal)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 (the transport's signature)
        self._closed = True
        self._shared.connections.discard(self)
        self._outbox.clear()
        self._release_partial()
        self._held = b""
        if self._muted is not None:
            self._muted.cancel()
            self._muted = None
        waiting = self._waiting
        if waiting is not None and waiting.abandon:
            waiting.future.cancel()
        self._shared.forget(self)

    def pause_writing(self) -> None:
        self._outbox.paused = True

    def resume_writing(self) -> None:
        self._outbox.paused = False
        self._note_use()
        if not self._closed and self._send(()):
            self._go_on()

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 (the transport's signature)
        if self._partial is not None:
            return memoryview(self._partial)[self._filled : self._frame_end]
        size = len(self._held)
        return self._shared.receive_buffer[size:] if 0 < size <= HELD_MAX else self._shared.receive_buffer

    def buffer_updated(self, nbytes: int) -> None:
        shared = self._shared
        shared.uses = self.last_use = shared.uses + 1
        if self._partial is not None:
            self._filled += nbytes
            if self._filled == self._frame_end:
                self._partial_is_full()
            return
        buffer = shared.receive_buffer
        held = self._held
        size = len(held)
        if self._is_busy():
            begin = size if size <= HELD_MAX else 0
            self._hold_more(buffer[begin : begin + nbytes])
            return
        if held:
            buffer[:size] = held
            self._held = b""
            nbytes += size
        self._serve(buffer, nbytes)
        if shared.overwrite:
            overwrite(buffer[:nbytes])

    def eof_received(self) -> bool:
        return False

    # --- serving

    def _serve(self, view: memoryview, end: int) -> None:
        """Serve the whole frames of ``view[:end]``, keep what is left, let the answers leave."""
        shared = self._shared
        dispatch = shared.dispatch
        size_max = shared.request_size_max
        answers: list[Part] = []
        unsent = 0
        position = 0
        try:
            while end - position >= 4 and not self._leaving:
                (size,) = _frame_size(view, position)
                if not 0 <= size <= size_max:
                    self._send(answers)
                    self._refuse_size(size, view[position:end])
                    return
                frame_end = position + 4 + size
                if frame_end > end:
                    break
                answer = dispatch(self, view[position + 4 : frame_end])
                position = frame_end
                if isinstance(answer, bytes):
                    answers.append(answer)
                    unsent += len(answer)
                elif isinstance(answer, list):
                    answers += answer
                    unsent += sum(map(len, answer))
                elif answer is not None:
                    self._wait(answer)
                    break
                if self._muted is not None:
                    break
                if unsent >= UNSENT_MAX:
                    if not self._send(answers):
                        answers = []
                        break
                    answers = []
                    unsent = 0
        except Exception as error:  # noqa: BLE001 (whatever it is ends this connection, and only this one)
            self._send(answers)
            self._fail(error)
            return
        if position < end:
            self._keep(view[position:end])
        if answers:
            self._send(answers)
        elif self._leaving:
            self._leave_when_done()

    def _send(self, answers: Iterable[Part]) -> bool:
        """Hand over answers, or what is left of earlier ones. True when the transport has taken everything."""
        if self._closed:
            return True
        outbox = self._outbox
        if outbox.is_empty and isinstance(answers, list) and len(answers) == 1 and isinstance(answers[0], bytes):
            self._transport.write(answers[0])
        else:
            try:
                if not outbox.put(answers):
                    return False
            except TornAnswerError as error:
                logger.error("%s closed: %s", self, error)
                self.abort()
                return True
        if self._leaving:
            self._leave_when_done()
        return not outbox.paused

    def _wait(self, waiting: Waiting) -> None:
        self._waiting = waiting
        waiting.future.add_done_callback(self._finish_waiting)

    def _finish_waiting(self, future: asyncio.Future[Any]) -> None:
        waiting = self._waiting
        assert waiting is not None
        try:
            answer = waiting.finish(future)
        except Exception as error:  # noqa: BLE001 (whatever it is ends this connection, and only this one)
            self._waiting = None
            self._fail(error)
            return
        self._waiting = None
        if self._closed:
            return
        self._note_use()
        if answer is None:
            self._leave_when_done()
            self._go_on()
        elif self._send([answer] if isinstance(answer, bytes) else answer):
            self._go_on()

    def mute(self, duration_ms: float) -> None:
        """Serve nothing more for a while (a throttled client); the answer of the request in progress leaves at once."""
        if self._muted is not None:
            self._muted.cancel()
        self._muted = self._shared.clock.call_later(duration_ms, self._unmute)

    def _unmute(self) -> None:
        self._muted = None
        self._go_on()

    def keep_waiting(self) -> None:
        """Serve nothing until ``begin``: there is no room for this client yet."""
        self._kept_out = True

    def begin(self) -> None:
        """Serve what has arrived meanwhile, and what comes."""
        self._kept_out = False
        self._go_on()

    def _is_busy(self) -> bool:
        return (
            self._waiting is not None
            or self._muted is not None
            or self._outbox.paused
            or not self._outbox.is_empty
            or self._kept_out
        )

    def _go_on(self) -> None:
        """Serve what was held, and read again when nothing stands in the way."""
        if self._closed or self._is_busy():
            return
        held = self._held
        if held:
            self._held = b""
            self._serve(memoryview(held), len(held))
            if self._closed or self._is_busy():
                return
        if self._reading_paused:
            self._reading_paused = False
            self._transport.resume_reading()

    # --- what arrives out of turn

    def _hold_more(self, chunk: memoryview) -> None:
        """Something arrived while the connection is busy: keep it and stop reading until it is its turn."""
        self._held += bytes(chunk)
        self._stop_reading()
        if self._shared.overwrite:
            overwrite(chunk)

    def _stop_reading(self) -> None:
        if not self._reading_paused and not self._closed:
            self._reading_paused = True
            self._transport.pause_reading()

    def _keep(self, rest: memoryview) -> None:
        """Copy out what was not served: frames that must wait their turn, or the begin of one that is not whole."""
        size = len(rest)
        if self._leaving or self._closed:
            return
        if size <= HELD_MAX or self._is_busy() or self._is_whole(rest):
            self._held = bytes(rest)
            if size > HELD_MAX:
                self._stop_reading()
            return
        frame_size = 4 + int.from_bytes(rest[:4], "big")
        partial = self._shared.pool.take(frame_size, size)
        partial[:size] = rest
        self._partial = partial
        self._filled = size
        self._frame_end = min(frame_size, len(partial))

    @staticmethod
    def _is_whole(rest: memoryview) -> bool:
        return len(rest) >= 4 + int.from_bytes(rest[:4], "big")

    def _partial_is_full(self) -> None:
        """The buffer of a frame is full: serve the frame, or go on in a larger buffer."""
        partial = self._partial
        assert partial is not None
        pool = self._shared.pool
        frame_size = 4 + int.from_bytes(partial[:4], "big")
        if self._filled < frame_size:
            # A new buffer and not a longer one: the transport still looks at this one.
            larger = pool.take(frame_size, self._filled)
            larger[: self._filled] = partial[: self._filled]
            self._partial = larger
            self._frame_end = min(frame_size, len(larger))
            pool.give_back(partial)
            return
        self._partial = None
        if self._is_busy():
            self._hold_more(memoryview(partial)[:frame_size])
        else:
            self._serve(memoryview(partial), frame_size)
        pool.give_back(partial)

    def _release_partial(self) -> None:
        if self._partial is not None:
            self._shared.pool.give_back(self._partial)
            self._partial = None

    # --- the end

    def _fail(self, error: Exception) -> None:
        if self._closed:
            return
        if isinstance(error, (ProtocolError, TornAnswerError)):
            logger.warning("%s closed: %s", self, error)
        elif isinstance(error, ConnectionMustCloseError):
            logger.info("%s closed: %s", self, error)
        else:
            logger.error("%s closed: a request could not be served", self, exc_info=error)
        self.close()

    def _refuse_size(self, size: int, rest: memoryview) -> None:
        """The length in front of a frame cannot be one: say who most probably speaks there."""
        text, answer = stranger(bytes(rest[:64]), size, self._shared.request_size_max)
        logger.warning("%s closed: %s", self, text)
        if answer:
            self._send([answer])
        self.close()

    def close(self) -> None:
        """Serve nothing more; close when the transport has sent what it holds."""
        self._leaving = True
        self._held = b""
        if not self._closed:
            self._outbox.clear()
            self._transport.close()

    def abort(self) -> None:
        """Close without sending what is still held."""
        self._leaving = True
        self._held = b""
        if not self._closed:
            self._outbox.clear()
            self._transport.abort()

    def refuse(self, reason: str) -> None:
        """Close a connection that must not stay."""
        logger.info("%s refused: %s", self, reason)
        self.abort()

    def leave(self) -> None:
        """Answer what is in progress, serve nothing new, then close."""
        self._leaving = True
        self._held = b""
        if self._waiting is not None:
            hurry = getattr(self._waiting.future, "hurry", None)
            if hurry is not None:
                hurry()
        self._leave_when_done()

    def _leave_when_done(self) -> None:
        if self._leaving and not self._closed and self._waiting is None and self._outbox.is_empty:
            self._transport.close()

    @property
    def descriptor(self) -> int:
        """Of its socket; -1 when it has none any more."""
        socket = self._transport.get_extra_info("socket")
        return -1 if socket is None or self._closed else int(socket.fileno())

    @property
    def is_waiting(self) -> bool:
        """Whether a request is in progress."""
        return self._waiting is not None

    @property
    def buffered_size(self) -> int:
        """Bytes of memory that wait here for the rest of their frame or for their turn."""
        return len(self._held) + (len(self._partial) if self._partial is not None else 0)


def _address(name: Any) -> tuple[str, int]:
    """Host and port of a socket's name; a Unix socket or a test's transport may have none."""
    if isinstance(name, tuple) and len(name) >= 2:
        return str(name[0]), int(name[1])
    return ("", 0)
