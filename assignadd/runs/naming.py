"""The folder of a run for which none is named."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from operator import attrgetter, ne
from pathlib import Path

from assignadd.config import PRESETS, SETTINGS, Config, Member
from assignadd.runs.config_json import read_run_document, run_document


def default_folder(config: Config, members: Sequence[Member]) -> Path:
    """The folder under runs/ for a run of these settings, the same however they are given.

    paper-seed-0            the settings of a preset, one seed
    paper-seeds-0-31        consecutive seeds
    tiny-seeds-0+4+7        up to six other seeds; more are counted, and the hash below tells them apart
    paper-seed-0-1f3a9c     other settings: the preset they differ from in the fewest fields, and six digits of the
                            hash of the settings' JSON
    copying-seed-0-1f3a9c   a task or a network of the user's own, in copying.py
    """
    document = run_document(config, members)
    config, members = read_run_document(document)  # lr = 1 and lr = 1.0 are one setting
    values_of = attrgetter(*SETTINGS)  # of a configuration: the value of every setting

    def n_differences(preset: str) -> int:
        return sum(map(ne, values_of(config), values_of(PRESETS[preset])))

    preset = min(PRESETS, key=n_differences)
    file_of_user = config.task.file or config.model.file
    name = preset if file_of_user is None else re.sub(r"[^A-Za-z0-9_-]", "-", Path(file_of_user.name).stem)
    label = _label_of_seeds([member.seed for member in members])
    is_preset = config == PRESETS[preset] and not any(member.settings for member in members)
    if not is_preset or label.endswith("seeds"):  # a label such as 12-seeds does not say which seeds
        label += f"-{hashlib.sha256(document).hexdigest()[:6]}"
    return Path("runs") / f"{name}-{label}"


def _label_of_seeds(seeds: list[int]) -> str:
    """The seeds as a part of a folder's name; more than six that are not consecutive are only counted."""
    if len(seeds) == 1:
        return f"seed-{seeds[0]}"
    if seeds == list(range(seeds[0], seeds[0] + len(seeds))):
        return f"seeds-{seeds[0]}-{seeds[-1]}"
    if len(seeds) <= 6:
        return "seeds-" + "+".join(map(str, seeds))
    return f"{len(seeds)}-seeds"
