"""The server: a socket, and a thread for each connection.

Whatever a client sends breaks at most its own connection. A thread reads a message, hands it to the session and writes
what comes back as it comes; a client that reads slowly slows only itself. A request to cancel comes by a connection of
its own and must know the number that only the client was told.
"""

from __future__ import annotations

import logging
import secrets
import socket
import ssl
import struct
import threading
from contextlib import suppress
from dataclasses import dataclass
from itertools import count

from headwater.serve import messages
from headwater.serve.answers import Limits
from headwater.serve.errors import Refused, explained
from headwater.serve.login import Account, Login
from headwater.serve.messages import Body, Malformed
from headwater.serve.session import Ended, Session
from headwater.serve.states import States

log = logging.getLogger(__name__)

LOGIN_SECONDS = 15.0
"""Who has not logged in by then goes."""
CLOSE_SECONDS = 2.0
STRANGERS = 100
"""Connections beyond those that are allowed: to log in, or to cancel."""


@dataclass(frozen=True)
class Terms:
    """What clients may, and may take."""

    account: Account
    limits: Limits
    connections: int = 100
    tls: ssl.SSLContext | None = None


class Server:
    """Answers at a socket until it is closed."""

    def __init__(self, listening: socket.socket, states: States, terms: Terms) -> None:
        self._listening, self._states, self._terms = listening, states, terms
        self._lock = threading.Lock()
        self._sockets: dict[socket.socket, threading.Thread] = {}
        self._sessions: dict[int, tuple[int, Session]] = {}
        self._numbers, self._closed = count(1), False

    def run(self) -> None:
        """Until `close`."""
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                if self._closed:
                    return
                log.warning("a connection could not be taken", exc_info=True)
                continue
            thread = threading.Thread(target=self._serve, args=[connection], name="headwater-client", daemon=True)
            with self._lock:
                full = len(self._sockets) >= self._terms.connections + STRANGERS
                if not full:
                    self._sockets[connection] = thread
            if full:  # whoever they are, they do not take more threads
                _say(connection, messages.error("FATAL", "53300", "sorry, too many clients already"))
                connection.close()
            else:
                thread.start()

    def close(self) -> None:
        """Ends what runs, and everybody's connection."""
        self._closed = True
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        with self._lock:
            sockets, sessions = dict(self._sockets), [session for _, session in self._sessions.values()]
        for session in sessions:
            session.stopped.cancel("the server stops")
        for connection in sockets:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in sockets.values():
            thread.join(timeout=CLOSE_SECONDS)
        self._states.close()

    def cancel(self, process: int, secret: int) -> None:
        with self._lock:
            found = self._sessions.get(process)
        if found is not None and secrets.compare_digest(str(found[0]), str(secret)):
            found[1].stopped.cancel()

    def _serve(self, connection: socket.socket) -> None:
        original, process = connection, 0
        try:
            connection.settimeout(LOGIN_SECONDS)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            connection, login = self._greeted(connection)
            if login is None:
                return
            process = self._talk(connection, login)
        except Ended:
            pass
        except Malformed as error:
            _say(connection, messages.error("FATAL", "08P01", error.what, "this server speaks protocol 3.0"))
        except Refused as error:
            _say(connection, messages.error("FATAL", error.state, error.what, error.fix))
        except (OSError, EOFError):
            pass  # it went away
        except Exception as error:
            log.error("a connection failed", exc_info=True)
            told = explained(error)
            _say(connection, messages.error("FATAL", told.state, told.what, told.fix))
        finally:
            with self._lock:
                self._sockets.pop(original, None)
                self._sessions.pop(process, None)
            with suppress(OSError):
                connection.close()
            original.close()

    def _greeted(self, connection: socket.socket) -> tuple[socket.socket, Login | None]:
        """A log-in that begins, over TLS if the client wants it and there is a certificate; None: it only cancelled."""
        for _ in range(3):  # at most a word about GSS, one about TLS, and the start
            body = Body(_exactly(connection, _length(_exactly(connection, 4), messages.MOST_BYTES_BEFORE)))
            code = body.int32()
            if code == messages.CANCEL:
                self.cancel(body.int32(), body.int32())
                return connection, None
            if code == messages.SSL and self._terms.tls is not None:
                connection.sendall(b"S")
                connection = self._terms.tls.wrap_socket(connection, server_side=True)
            elif code in (messages.SSL, messages.GSS):
                connection.sendall(b"N")
            elif code >> 16 == 3:
                said = messages.startup(body)
                unknown = [name for name in said if name.startswith("_pq_.")]
                if code & 0xFFFF or unknown:
                    connection.sendall(messages.older_version(unknown))
                return connection, Login(self._terms.account, said)
            else:
                raise Malformed(f"protocol {code >> 16}.{code & 0xFFFF} is not spoken here")
        raise Malformed("a connection begins with its start")

    def _talk(self, connection: socket.socket, login: Login) -> int:
        connection.sendall(login.first())
        while not login.done:
            kind, data = _message(connection, messages.MOST_BYTES_BEFORE)
            for part in login.answer(kind, data):
                connection.sendall(part)
        session, secret, process = Session(self._states, self._terms.limits, login.said), secrets.randbits(31), 0
        try:
            with self._lock:
                if len(self._sessions) >= self._terms.connections:
                    raise Refused("53300", "sorry, too many clients already", "raise [serve] connections")
                process = next(self._numbers)
                self._sessions[process] = (secret, session)
            connection.sendall(login.welcome(process, secret))
            connection.settimeout(None)
            self._answer(connection, session)
        finally:
            session.close()
            with self._lock:
                self._sessions.pop(process, None)
        return process

    def _answer(self, connection: socket.socket, session: Session) -> None:
        """Small answers go out together: at a Sync, a Flush, or when there is enough."""
        waiting = bytearray()
        while True:
            kind, data = _message(connection, messages.MOST_BYTES)
            for part in session.answer(kind, data):
                waiting += part
                if len(waiting) > 64 * 1024:
                    connection.sendall(waiting)
                    waiting.clear()
            if kind in (b"S", b"H", b"Q") and waiting:
                connection.sendall(waiting)
                waiting.clear()


def _message(connection: socket.socket, most: int) -> tuple[bytes, bytes]:
    head = _exactly(connection, 5)
    return head[:1], _exactly(connection, _length(head[1:], most))


def _length(head: bytes, most: int) -> int:
    length: int = struct.unpack("!i", head)[0] - 4
    if not 0 <= length <= most:
        raise Malformed(f"a message of {length:,} bytes is announced; at most {most:,} are taken")
    return length


def _exactly(connection: socket.socket, length: int) -> bytes:
    parts: list[bytes] = []
    while length:
        part = connection.recv(min(length, 1 << 20))
        if not part:
            raise EOFError
        parts.append(part)
        length -= len(part)
    return b"".join(parts)


def _say(connection: socket.socket, message: bytes) -> None:
    with suppress(OSError):
        connection.sendall(message)
