"""A server of `hf://` that answers with anything: the run as it was published, or one line, within bounds."""

from __future__ import annotations

import contextlib
import functools
import gzip
import hashlib
import os
import random
import resource
import tempfile
from pathlib import Path

import msgspec
from msgspec.structs import replace

from assignadd import api
from assignadd.runs.manifest import MANIFEST, File, Manifest
from tests.chaos.commands import call, prepared
from tests.chaos.inputs import refuses_in_a_line
from tests.chaos.promise import Promise
from tests.report.hub_server import COMMIT, Handler, hub
from tests.runs.kill import in_child

SECONDS, KILOBYTES = 200, 1_000_000
BODIES = (b"", b"null", b"[]", b"{}", b"[" * 10**6, b'{"a":' * 10**5, b"<html>", b"\xff\xfe", b"9" * 10**8, bytes(16),
          (2**62).to_bytes(8, "little") + b"{}")  # fmt: skip
HEADERS: tuple[dict[str, str], ...] = (
    {"X-Repo-Commit": "../../../escaped"}, {"ETag": '"../../../escaped"'}, {"ETag": "e" * 400}, {"X-Repo-Commit": ""},
    {"X-Linked-Size": "9" * 30}, {"X-Linked-Etag": '"../../../escaped"'}, {"Content-Encoding": "gzip"},
    {"Content-Length": "9" * 12}, {"X-Xet-Hash": "0" * 64, "X-Xet-Refresh-Route": "http://127.0.0.1:9/"},
)  # fmt: skip
REDIRECTS = ("file:///etc/passwd", "http://127.0.0.1:9/", "/owner/name/resolve/main/manifest.json", "\x1b[2J")
CODES = (200, 204, 206, 400, 401, 403, 404, 416, 500)


@functools.cache
def published() -> dict[str, bytes]:
    """The files of a small run as `runs publish` makes them."""
    folder = Path(tempfile.mkdtemp(prefix="chaos-published-"))

    def publish() -> None:
        prepared(folder, "publish")
        assert call("publish", folder) == 0

    outcome = in_child(publish)
    assert outcome.error is None, outcome.error
    return {str(p.relative_to(folder / "hub")): p.read_bytes() for p in (folder / "hub").rglob("*") if p.is_file()}


def answering(rng: random.Random, victim: str) -> type[Handler]:
    """A handler that answers oddly where one file is asked for, and as the Hub does for the others."""
    kind = rng.choice(("header", "redirect", "code", "endless", "unpacked"))
    code, part, times = 200, bytes(1 << 20), {"endless": 10**6, "unpacked": 100}.get(kind, 1)
    headers = {"X-Repo-Commit": COMMIT, "ETag": '"0"'}
    if kind == "header":
        headers |= rng.choice(HEADERS)
    elif kind == "redirect":
        code, headers = rng.choice((301, 302, 307)), headers | {"Location": rng.choice(REDIRECTS)}
    elif kind in ("code", "endless"):
        code = rng.choice(CODES)
    elif kind == "unpacked":
        headers, part = headers | {"Content-Encoding": "gzip"}, gzip.compress(bytes(1 << 26))

    class Odd(Handler):
        def _file(self, body: bool) -> None:
            if not self.path.endswith(victim):
                return super()._file(body)
            self.send_response(code)
            for name, value in ({"Content-Length": str(len(part) * times)} | headers).items():
                self.send_header(name, value)
            self.end_headers()
            with contextlib.suppress(OSError):  # of a client that has read enough
                for _ in range(times if body else 0):
                    self.wfile.write(part)

    return Odd


def hostile_hub(rng: random.Random, folder: Path) -> None:
    files = published()
    victim = rng.choice((MANIFEST, "config.json", max(name for name in files if name.startswith("checkpoints/"))))
    odd = answering(rng, victim) if rng.random() < 0.5 else Handler
    if odd is Handler:
        body, manifest = rng.choice(BODIES), msgspec.json.decode(files[MANIFEST], type=Manifest)
        files = files | {victim: body}
        if victim != MANIFEST and rng.random() < 0.7:  # the manifest agrees
            file = File(len(body), hashlib.sha256(body).hexdigest(), manifest.files[victim].step)
            files[MANIFEST] = replace(manifest, files=manifest.files | {victim: file}).sealed()

    def load() -> None:
        with hub() as server:
            server.RequestHandlerClass, server.files = odd, files
            os.environ |= {"HF_ENDPOINT": server.address, "HF_HOME": str(folder / "a" / "home"), "no_proxy": "*",
                           "HF_HUB_DISABLE_TELEMETRY": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}  # fmt: skip
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            refuses_in_a_line(api.load, "hf://owner/name")
            grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
            assert grown < KILOBYTES, f"{grown:,} kilobytes"

    outcome = in_child(load, kill_after=SECONDS)
    assert outcome.error is None and not outcome.killed, (odd, outcome.error)
    cache = folder / "a" / "home" / "assets" / "assignadd" / "owner--name"
    for path in (path for path in folder.rglob("*") if path.is_file()):
        name = path.relative_to(cache).as_posix().partition("/")[2]
        assert path.read_bytes() == files.get(name) or name == MANIFEST, path


PROMISES = (
    Promise("hostile-hub", "`hf://` from a server that answers with anything: the run or one line, within bounds",
            hostile_hub, 100, 0, "huggingface_hub"),
)  # fmt: skip
