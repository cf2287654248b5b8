"""Runs on the Hugging Face Hub: a published repository is a run folder, with a card and the claims beside it.

    manifest.json, config.json, splits.safetensors, metrics.jsonl, checkpoints/   a run, without its training states
    model.safetensors        the first model at the last of these checkpoints, by the field's names
    claims.json, README.md   what was measured, and the card

`report/hub_folder.py` writes it. `hf://OWNER/NAME` is a run in a folder of the user's cache, and a file is fetched when
it is first read. The server is not trusted: a file is read up to the size that it may have, and written only if it has
the size and sha256 of the manifest, after whose own sha256 the folder is named. Nothing fetched is run or unpickled:
JSON is read strictly, and weights are safetensors.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from assignadd import __version__
from assignadd.config.errors import ConfigError, RunError, UsageError, printable
from assignadd.runs import atomic
from assignadd.runs.files import MARK, MOST_BYTES
from assignadd.runs.manifest import MANIFEST, MOST_OF_MANIFEST, Blob

SCHEME = "hf://"
SECONDS = 30  # the longest wait for the next part of the server's answer
REPOSITORY = re.compile(r"\w[\w.-]*/\w[\w.-]*", re.ASCII)
COMMIT = re.compile("[0-9a-f]{40}")


class Source(NamedTuple):
    """Where a run is published: OWNER/NAME, and a commit, tag or branch; "" is the newest commit."""

    repository: str
    revision: str

    @property
    def address(self) -> str:
        """The source as a user types it: `hf://OWNER/NAME`, or `hf://OWNER/NAME@REVISION` if it has a revision."""
        address = SCHEME + self.repository
        return f"{address}@{self.revision}" if self.revision else address

    def fetch(self, name: str, file: Blob, most: int, folder: Path) -> None:
        """Fetches the file `name` of the run into its folder; a RunError if it has another size or hash than `file`.

        At most `most` bytes are read.
        """
        data, _ = _fetch(self, name, min(file.size, most, MOST_BYTES))
        if problem := file.problem(data):
            raise RunError(f"{self.address}: {name} {problem}")
        atomic.make_directory((folder / name).parent)
        atomic.write(folder / name, data)


def published(address: str) -> tuple[Path, Source]:
    """The folder in the cache for the run at `hf://OWNER/NAME` or `hf://OWNER/NAME@REVISION`, and its source.

    The manifest is in the folder. The source names its commit, so that all further files are of the same commit.
    """
    repository, _, revision = address.removeprefix(SCHEME).partition("@")
    check_repository(repository)
    manifest, commit = _fetch(Source(repository, revision), MANIFEST, MOST_OF_MANIFEST)
    digest = hashlib.sha256(manifest).hexdigest()
    with _client_errors(f"{address} could not be stored"):
        folder = Path(client().cached_assets_path("assignadd", namespace=repository, subfolder=digest))
    if not (folder / MANIFEST).exists():
        atomic.write(folder / MANIFEST, manifest)
    return folder, Source(repository, commit or revision)


def upload(folder: Path, repository: str, private: bool, message: str) -> str:
    """The address of the commit in which a folder is uploaded; the repository is made where there is none."""
    api = client().HfApi(library_name="assignadd", library_version=__version__)
    with _client_errors(f"{repository} could not be uploaded"):
        api.create_repo(repository, private=private, exist_ok=True)
        commit = api.upload_folder(repo_id=repository, folder_path=folder, commit_message=message, ignore_patterns=MARK)
        return str(commit.commit_url)


def check_repository(repository: str) -> None:
    """Raises a ConfigError for what is not the name of a repository."""
    if not REPOSITORY.fullmatch(repository):
        raise ConfigError("repo", repository, "OWNER/NAME, letters, digits, dots, dashes and underscores")


def client() -> Any:
    """The package `huggingface_hub`, imported where it is needed; a UsageError where it is not installed."""
    if find_spec("huggingface_hub") is None:
        raise UsageError("the Hugging Face Hub needs huggingface_hub: pip install 'assignadd[hub]'")
    return import_module("huggingface_hub")


@contextmanager
def _client_errors(failure: str) -> Iterator[None]:
    """Turns an error of the client in this context into a RunError of one line, which begins with `failure`."""
    try:
        yield
    except Exception as error:  # the client passes on those of the library that it makes requests with
        first_line = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise RunError(f"{failure}: {printable(first_line)}") from error


def _fetch(source: Source, name: str, most: int) -> tuple[bytes, str]:
    """The bytes of a published file, at most `most`, and the commit that it is of; "" where the server names no commit.

    The cache of the client is not used: it takes names and sizes of files from the server.
    """
    hub, data = client(), bytearray()
    with _client_errors(f"{source.address}: {name} could not be fetched"):
        url = hub.hf_hub_url(source.repository, name, revision=source.revision or None)
        headers = hub.utils.build_hf_headers(library_name="assignadd", library_version=__version__)
        with hub.get_session().stream("GET", url, headers=headers, timeout=SECONDS) as response:
            if response.status_code != 200:
                raise ValueError(f"the server answers {response.status_code} {response.reason_phrase}")
            for part in response.iter_bytes():
                data += part
                if len(data) > most:
                    raise ValueError(f"it has more than the {most:,} bytes that are read")
            first_response = [*response.history, response][0]  # before redirections
            named_commit = first_response.headers.get("X-Repo-Commit", "")
    commit = named_commit if COMMIT.fullmatch(named_commit) else ""
    return bytes(data), commit
