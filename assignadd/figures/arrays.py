"""What a figure shows, as arrays: the half of a figure that is saved beside it and needs no plotting library."""

from __future__ import annotations

import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True)
class FigureData:
    """Base of every figure's data: fields are arrays, numbers or lists of words."""

    def arrays(self) -> dict[str, np.ndarray]:
        """The fields by name, as `np.savez` takes them: no pickled objects."""
        return {field.name: np.asarray(getattr(self, field.name)) for field in dataclasses.fields(self)}
