"""Claims that stand in the ledger before anything here measures them: never a guess."""

from __future__ import annotations

from assignadd.claims.record import Claim

LATER = (
    Claim("pair-threshold", "generalization_combined", "Held-out sums need a fraction f of all pairs in training.", "f about 0.25"),
    Claim("two-var-threshold", "generalization_combined", "Two-variable sums need a ratio r of two-variable to literal sums.", "r about 0.2"),
    Claim("all-seeds", "section 3", "The findings hold across initialisations.", "expected", all_seeds=True),
    Claim("theorem", "thm:c1", "One gradient step on QK2 gives the associative memory up to a small remainder.", "O(V (1/N + 1/T + T alpha))"),
)  # fmt: skip
