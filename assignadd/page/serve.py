"""A server for one page on this machine alone: loopback, GET and HEAD, and no other Host than its own."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socket import SHUT_RDWR, socket
from typing import Any

HOST = "127.0.0.1"
READ_SECONDS = 10.0
MOST_CONNECTIONS = 64
NOWHERE = ".no-such-file"
# What the page may load and do: its own files; no connection, no frame, no form.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "base-uri 'none'; form-action 'none'"
)


class Handler(SimpleHTTPRequestHandler):
    """Files of one folder. Only GET and HEAD exist here; every other method is answered 501 by the base class."""

    timeout = READ_SECONDS

    def do_GET(self) -> None:
        if self._is_ours():
            super().do_GET()

    def do_HEAD(self) -> None:
        if self._is_ours():
            super().do_HEAD()

    def _is_ours(self) -> bool:
        """A page of another site that resolves its own name to this machine sends that name as Host."""
        port = self.connection.getsockname()[1]
        if self.headers.get("Host") in (f"{HOST}:{port}", f"localhost:{port}"):
            return True
        self.send_error(HTTPStatus.FORBIDDEN, "This server answers to its own address alone")
        return False

    def translate_path(self, path: str) -> str:
        """The file that a request names; what leads out of the folder, or cannot be a name, leads nowhere."""
        root = os.path.realpath(self.directory)
        file = super().translate_path(path)
        try:
            is_inside = os.path.commonpath([root, os.path.realpath(file)]) == root
        except ValueError:  # a NUL
            is_inside = False
        return file if is_inside else os.path.join(root, NOWHERE)

    def list_directory(self, path: object) -> None:
        self.send_error(HTTPStatus.NOT_FOUND)

    def end_headers(self) -> None:
        self.send_header("Content-Security-Policy", POLICY)
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Cache-Control", "no-cache")
        super().end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Quiet: the terminal is for the address."""


class Server(ThreadingHTTPServer):
    """A thread for each connection, and a bound on their number: the oldest is closed for a new one."""

    request_queue_size = MOST_CONNECTIONS

    def __init__(self, folder: Path, port: int = 0):
        self._open: dict[socket, None] = {}
        super().__init__((HOST, port), partial(Handler, directory=str(folder)))

    def process_request(self, request: Any, client_address: Any) -> None:
        while len(self._open) >= MOST_CONNECTIONS:
            oldest = next(iter(self._open))
            self._open.pop(oldest, None)
            with suppress(OSError):
                oldest.shutdown(SHUT_RDWR)
        self._open[request] = None
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Quiet: a client that went away is not an error of ours."""


def serve(folder: Path, port: int, announce: Callable[[str], None]) -> None:
    """Serves the folder until it is stopped; port 0 takes any that is free."""
    with Server(folder, port) as made:
        announce(f"http://{HOST}:{made.server_address[1]}/")
        made.serve_forever()
