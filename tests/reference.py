"""Where the paper's own checkpoints may be: beside the checkout, or where ASSIGNADD_REFERENCE says. Never inside it."""

import os
from pathlib import Path

REFERENCE = Path(os.environ.get("ASSIGNADD_REFERENCE", Path(__file__).parents[2] / "shared" / "reference"))
