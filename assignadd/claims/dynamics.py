"""Claims about training: the phases (sections 1 and 4, appendix B) and the two spikes (section 6)."""

from __future__ import annotations

from assignadd.claims.first_spike import FIRST_SPIKE
from assignadd.claims.late import LATE
from assignadd.claims.phases import PHASES
from assignadd.claims.plateau import ROUTING_PLATEAU

DYNAMICS = (*PHASES, *FIRST_SPIKE, *ROUTING_PLATEAU, *LATE)
