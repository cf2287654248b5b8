"""What the ledger says of the paper's own network: its checkpoints, imported, with each claim about one network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

import msgspec


@dataclass(frozen=True)
class PaperResult:
    value: float
    low: float
    high: float
    verdict: str


class _Stored(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    command: str
    commit: str
    sources: dict[str, str]
    """The imported files by their sha256."""
    claims: dict[str, PaperResult]


@lru_cache(maxsize=1)
def paper_network() -> Mapping[str, PaperResult]:
    """By the id of the claim, for all that could be asked of it."""
    stored = files("assignadd") / "results" / "paper-network.json"
    return msgspec.json.decode(stored.read_bytes(), type=_Stored).claims
