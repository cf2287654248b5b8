"""The files beside a report's page: its claims for other programs, and what to cite."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import asdict
from operator import attrgetter
from pathlib import Path

from assignadd import __version__
from assignadd.ledger.claim import Record
from assignadd.runs import atomic

ARXIV = "2605.31497"
BIBTEX = f"""\
@article{{exoo2026assign,
  title = {{Assign and Add: A Mechanistic Study of Compositional Arithmetic}},
  author = {{Exoo, Brady and Bietti, Alberto and Sous, John}},
  journal = {{arXiv preprint arXiv:{ARXIV}}},
  year = {{2026}},
  url = {{https://arxiv.org/abs/{ARXIV}}}
}}

@software{{assignadd,
  title = {{assignadd: reproduce, question and extend Assign and Add}},
  author = {{{{The assignadd authors}}}},
  version = {{{__version__}}},
  license = {{MIT}}
}}
"""
# The fields of a record that are columns of claims.csv.
COLUMNS = ("id", "label", "claim", "paper", "value", "low", "high", "n", "unit", "seeds", "verdict")
# The files that `write_beside` writes.
BESIDE = ("claims.json", "claims.csv", "cite.bib")


def claims_json(records: Sequence[Record]) -> bytes:
    """The bytes of claims.json: a list with every field of every record."""
    return json.dumps([asdict(record) for record in records], indent=1, allow_nan=False).encode() + b"\n"


def claims_csv(records: Sequence[Record]) -> bytes:
    """The bytes of claims.csv: a row for each record, after a row with the names of its COLUMNS."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([COLUMNS, *map(attrgetter(*COLUMNS), records)])
    return text.getvalue().encode()


def write_beside(folder: Path, records: Sequence[Record]) -> None:
    """Writes the files of BESIDE into the folder of a report: the claims twice, and what to cite."""
    contents = (claims_json(records), claims_csv(records), BIBTEX.encode())
    for name, content in zip(BESIDE, contents, strict=True):
        atomic.write(folder / name, content)
