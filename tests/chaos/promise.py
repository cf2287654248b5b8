"""What a promise is: a sentence, a function that tries to break it once, and how often to try.

A trial gets a random generator that depends on the promise and the trial's number alone, and an empty folder. It ends
where the promise was kept, and raises where it was broken.
"""

from __future__ import annotations

import random
import tempfile
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Promise:
    name: str
    says: str
    trial: Callable[[random.Random, Path], None]
    full: int
    """Trials of `make chaos`."""
    quick: int
    """Trials in `make test`."""
    needs: str | None = None
    """A package that is not always installed."""

    def try_once(self, number: int) -> str | None:
        """What went wrong in one trial; the same number is the same trial."""
        with tempfile.TemporaryDirectory(prefix="chaos-") as folder:
            try:
                self.trial(random.Random(f"{self.name} {number}"), Path(folder))
            except Exception:
                return traceback.format_exc()
        return None
