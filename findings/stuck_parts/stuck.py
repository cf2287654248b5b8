"""Writes stuck.json, the seeds that do not bind in the run from which the study starts.

python -m findings.stuck_parts.stuck runs/before-stuck-parts
"""

import json
import sys
from pathlib import Path

from assignadd import open_run
from assignadd.dynamics import binds
from assignadd.ledger import networks_of

FILE = Path(__file__).with_name("stuck.json")

if __name__ == "__main__":
    networks, _ = networks_of(open_run(sys.argv[1]))
    FILE.write_text(json.dumps([network.seed for network in networks if not binds(network)]) + "\n")
