"""A small server on loopback with the endpoints of the Hugging Face Hub that its client uses, for one repository."""

import base64
import hashlib
import json
import re
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

COMMIT = "5" * 40
TOKEN = "hf_test"


class Hub(ThreadingHTTPServer):
    """What was committed, uploaded and asked for. `files` has each file's bytes by its path."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server_address[1]}"
        self.forget()

    def forget(self):
        """As a server that nobody has used."""
        self.files: dict[str, bytes] = {}
        self.objects: dict[str, bytes] = {}
        self.created: dict = {}
        self.fetched: list[str] = []
        self.commit = COMMIT
        self.unknown: list[str] = []


class Handler(BaseHTTPRequestHandler):
    server: Hub

    def log_message(self, *_) -> None:
        pass

    def do_HEAD(self) -> None:
        self._file(body=False)

    def do_GET(self) -> None:
        self._file(body=True)

    def _file(self, body: bool) -> None:
        match = re.fullmatch(r"/owner/name/resolve/(?:main|[0-9a-f]{40})/(.+)", self.path)
        if match is None or match[1] not in self.server.files:
            self.server.unknown.append(f"{self.command} {self.path}")
            self._answer(404, b"", {"X-Error-Code": "EntryNotFound" if match else "RepoNotFound"})
            return
        data = self.server.files[match[1]]
        if body:
            self.server.fetched.append(match[1])
        self._answer(
            200, data, {"X-Repo-Commit": self.server.commit, "ETag": f'"{hashlib.sha256(data).hexdigest()}"'}, body
        )

    def do_PUT(self) -> None:
        data = self._body()
        assert hashlib.sha256(data).hexdigest() == self.path.removeprefix("/objects/")
        self.server.objects[self.path.removeprefix("/objects/")] = data
        self._answer(200)

    def do_POST(self) -> None:
        data = self._body()
        if self.headers.get("Authorization") != f"Bearer {TOKEN}" and self.path != "/api/validate-yaml":
            self._answer(401)
        elif self.path == "/api/repos/create":
            self.server.created = json.loads(data)
            self._json({"url": f"{self.server.address}/owner/name"})
        elif self.path == "/api/validate-yaml":
            assert json.loads(data)["content"].startswith("---\n")
            self._json({"errors": [], "warnings": []})
        elif self.path == "/api/models/owner/name/preupload/main":
            modes = {True: "lfs", False: "regular"}
            self._json({"files": [
                {"path": f["path"], "uploadMode": modes[f["path"].endswith(".safetensors")], "shouldIgnore": False}
                for f in json.loads(data)["files"]
            ]})  # fmt: skip
        elif self.path == "/owner/name.git/info/lfs/objects/batch":
            wanted = json.loads(data)["objects"]
            self._json({"transfer": "basic", "objects": [
                o | {"actions": {"upload": {"href": f"{self.server.address}/objects/{o['oid']}"}}} for o in wanted
            ]})  # fmt: skip
        elif self.path == "/api/models/owner/name/commit/main":
            self._commit([json.loads(line) for line in data.splitlines()])
            self._json({"commitUrl": f"{self.server.address}/owner/name/commit/{COMMIT}", "commitOid": COMMIT})
        else:
            self.server.unknown.append(f"POST {self.path}")
            self._answer(404)

    def _commit(self, lines: list[dict]) -> None:
        for line in lines:
            value = line["value"]
            if line["key"] == "file":
                self.server.files[value["path"]] = base64.b64decode(value["content"])
            elif line["key"] == "lfsFile":
                self.server.files[value["path"]] = self.server.objects[value["oid"]]

    def _body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def _json(self, value: object) -> None:
        self._answer(200, json.dumps(value).encode(), {"Content-Type": "application/json"})

    def _answer(self, code: int, data: bytes = b"", headers: dict[str, str] | None = None, body: bool = True) -> None:
        self.send_response(code)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if body:
            self.wfile.write(data)


@contextmanager
def hub():
    with Hub() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
