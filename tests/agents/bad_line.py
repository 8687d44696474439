"""A bad line between agents and their hub: it cuts, waits and refuses, at random moments."""

from __future__ import annotations

import random
import socket
import threading
import time
from contextlib import suppress


class BadLine:
    """Listens at `port` and passes everything on to the hub's, until it does not."""

    def __init__(self, hub: int, seed: int = 1) -> None:
        self._hub, self._random = hub, random.Random(seed)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self.bad = False
        self.cuts = 0
        self._open: set[socket.socket] = set()
        threading.Thread(target=self._accept, daemon=True).start()
        threading.Thread(target=self._cut, daemon=True).start()

    def close(self) -> None:
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)  # whoever waits in accept would take one more
        self._listening.close()
        self.cut_all()

    def cut_all(self) -> None:
        for one in list(self._open):
            self._open.discard(one)
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listening.accept()
            except OSError:
                return
            if self.bad and self._random.random() < 0.2:
                near.close()
                continue
            try:
                far = socket.create_connection(("127.0.0.1", self._hub), 5)
            except OSError:
                near.close()
                continue
            self._open |= {near, far}
            for source, sink in ((near, far), (far, near)):
                threading.Thread(target=self._pass, args=(source, sink), daemon=True).start()

    def _pass(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while piece := source.recv(65536):
                if self.bad and self._random.random() < 0.02:
                    time.sleep(self._random.random() * 0.3)
                if self.bad and self._random.random() < 0.01:
                    sink.sendall(piece[: len(piece) // 2])  # cut in the middle of something
                    self.cuts += 1
                    break
                sink.sendall(piece)
        for one in (source, sink):
            self._open.discard(one)
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def _cut(self) -> None:
        while self._listening.fileno() >= 0:
            time.sleep(0.2 + self._random.random())
            if self.bad and self._random.random() < 0.4:
                self.cuts += 1
                self.cut_all()
