"""Claims that stand in the ledger before anything here measures them: never a guess."""

from __future__ import annotations

from assignadd.claims.record import Claim

LATER = (
    Claim("theorem", "thm:c1", "One gradient step on QK2 gives the associative memory up to a small remainder.", "O(V (1/N + 1/T + T alpha))"),
)  # fmt: skip
