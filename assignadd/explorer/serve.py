"""A server for one page on this machine alone: loopback, GET and HEAD, and no other Host than its own."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

HOST = "127.0.0.1"
# What the page may load and do: its own files; no connection, no frame, no form.
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self' 'unsafe-inline'",
        "img-src 'self' data: blob:",
        "base-uri 'none'",
        "form-action 'none'",
    )
)


class Handler(SimpleHTTPRequestHandler):
    """Files of one folder. Only GET and HEAD exist here; every other method is answered 501 by the base class."""

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

    def list_directory(self, path: object) -> None:
        self.send_error(HTTPStatus.NOT_FOUND)

    def end_headers(self) -> None:
        self.send_header("Content-Security-Policy", POLICY)
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Cache-Control", "no-cache")
        super().end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Quiet: the terminal is for the address."""


def serve(folder: Path, port: int, announce: Callable[[str], None]) -> None:
    """Serves the folder until it is stopped; port 0 takes any that is free."""
    with server(folder, port) as made:
        announce(f"http://{HOST}:{made.server_address[1]}/")
        made.serve_forever()


def server(folder: Path, port: int = 0) -> ThreadingHTTPServer:
    return ThreadingHTTPServer((HOST, port), partial(Handler, directory=str(folder)))
