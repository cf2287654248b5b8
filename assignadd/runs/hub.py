"""One model of a run published on the Hugging Face Hub, fetched and checked.

    files.json                  every other file with its size and sha256
    config.json                 the settings, and for each model its seed and what differs, as in the run folder
    splits.safetensors          which pairs of numbers each model trained on
    metrics.jsonl               a row per model and evaluation during training
    model.safetensors           the first seed's last weights
    checkpoints/seed-0/00000100.safetensors   one model's weights by the field's names; its metadata has seed and step
    claims.json, README.md      what was measured, and the card

`report/hub_folder.py` writes it. Nothing fetched is run or unpickled: JSON is read strictly and weights as safetensors.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from assignadd import __version__
from assignadd.config.errors import ConfigError, RunError, UsageError, printable
from assignadd.model.transformer import Transformer
from assignadd.runs.config_json import read_run_document
from assignadd.runs.encoding import decode_tensors, stack_of
from assignadd.runs.files import MARK, MOST_BYTES, MOST_SETTINGS
from assignadd.runs.manifest import CONFIG, Blob

SCHEME = "hf://"
FILES = "files.json"
SECONDS = 30  # that the server may take to go on with its answer
CHECKPOINT = re.compile(r"checkpoints/seed-(?P<seed>\d+)/(?P<step>\d{8,})\.safetensors", re.ASCII)
REPOSITORY = re.compile(r"\w[\w.-]*/\w[\w.-]*", re.ASCII)


class Index(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What `files.json` holds."""

    run: str
    seeds: Annotated[tuple[int, ...], msgspec.Meta(min_length=1)]
    files: dict[str, Blob]
    format: Literal[1] = 1

    def steps(self, seed: int) -> list[int]:
        """The steps at which there are weights of this seed, in order."""
        matches = [match for name in self.files if (match := CHECKPOINT.fullmatch(name))]
        return sorted(int(match["step"]) for match in matches if int(match["seed"]) == seed)


def checkpoint_name(seed: int, step: int) -> str:
    """The file of one model's weights: `checkpoints/seed-0/00000100.safetensors`."""
    return f"checkpoints/seed-{seed}/{step:08d}.safetensors"


def load_published(address: str, step: int | None = None, seed: int | None = None) -> Transformer:
    """One model at `hf://OWNER/NAME` or `hf://OWNER/NAME@REVISION`: the first seed and its last step unless given.

    Three files are fetched: the list of files, the settings and the weights; the last two must have the size and sha256
    of the list. With a commit for REVISION the list itself is fixed too.
    """
    repository, _, revision = address.removeprefix(SCHEME).partition("@")
    check_repository(repository)
    try:
        index = msgspec.json.decode(_fetch(repository, FILES, revision, MOST_SETTINGS), type=Index)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RunError(f"{address}: {FILES} is not one that this `assignadd runs publish` wrote: {error}") from error
    seed = index.seeds[0] if seed is None else seed
    steps = index.steps(seed)
    if not steps:
        raise RunError(f"{address} has no seed {seed}; it has {', '.join(map(str, index.seeds))}")
    step = steps[-1] if step is None else step
    if step not in steps:
        raise RunError(f"{address} has no weights of seed {seed} at step {step}; it has {', '.join(map(str, steps))}")
    name = checkpoint_name(seed, step)
    config, _ = read_run_document(_fetch_checked(repository, CONFIG, revision, index))
    weights = decode_tensors(_fetch_checked(repository, name, revision, index), f"{address}/{name}")
    weights_of_stack = {weight: tensor[None] for weight, tensor in weights.items()}  # (1, ...)
    stack = stack_of(config, weights_of_stack, 1, f"{address}/{name}")
    return Transformer.from_stack(stack, 0)


def upload(folder: Path, repository: str, private: bool, message: str) -> str:
    """The address of the commit in which a folder is uploaded; the repository is made where there is none."""
    api = _client().HfApi(library_name="assignadd", library_version=__version__)
    with _client_errors(f"{repository} could not be uploaded"):
        api.create_repo(repository, private=private, exist_ok=True)
        commit = api.upload_folder(repo_id=repository, folder_path=folder, commit_message=message, ignore_patterns=MARK)
        return str(commit.commit_url)


def check_repository(repository: str) -> None:
    """Raises a ConfigError for what is not the name of a repository."""
    if not REPOSITORY.fullmatch(repository):
        raise ConfigError("repo", repository, "OWNER/NAME, letters, digits, dots, dashes and underscores")


def check_client() -> None:
    """Raises an error where the client of the Hub, which is optional, is not installed."""
    if find_spec("huggingface_hub") is None:
        raise UsageError("the Hugging Face Hub needs huggingface_hub: pip install 'assignadd[hub]'")


def _client() -> Any:
    """The package `huggingface_hub`, which is imported only where it is needed."""
    check_client()
    return import_module("huggingface_hub")


@contextmanager
def _client_errors(what: str) -> Iterator[None]:
    """Turns an error of the client in this context into a RunError of one line, which begins with `what`."""
    try:
        yield
    except Exception as error:  # the client passes on those of the library that it makes requests with
        first_line = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise RunError(f"{what}: {printable(first_line)}") from error


def _fetch(repository: str, name: str, revision: str, most: int) -> bytes:
    """The bytes of a file of the repository, at most `most`; revision "" is the newest.

    Nothing is written: the client's cache would take names and sizes of files from the server.
    """
    client, data = _client(), bytearray()
    with _client_errors(f"{SCHEME}{repository}/{name} could not be fetched"):
        url = client.hf_hub_url(repository, name, revision=revision or None)
        headers = client.utils.build_hf_headers(library_name="assignadd", library_version=__version__)
        with client.get_session().stream("GET", url, headers=headers, timeout=SECONDS) as response:
            if response.status_code != 200:
                raise ValueError(f"the server answers {response.status_code} {response.reason_phrase}")
            for part in response.iter_bytes():
                data += part
                if len(data) > most:
                    raise ValueError(f"it has more than the {most:,} bytes that are read")
    return bytes(data)


def _fetch_checked(repository: str, name: str, revision: str, index: Index) -> bytes:
    """The bytes of a file of the repository, which must have the size and sha256 that the list of files says."""
    if name not in index.files:
        raise RunError(f"{SCHEME}{repository}: {FILES} does not list {name}")
    data = _fetch(repository, name, revision, min(index.files[name].size, MOST_BYTES))
    if problem := index.files[name].problem(data):
        raise RunError(f"{SCHEME}{repository}/{name} {problem}")
    return data
