"""The verdicts on the appendix and on the main text's section about it, each computed from the numbers of a study."""

from __future__ import annotations

from assignadd.theory import proof_verdicts, step_verdicts, theorem_verdicts
from assignadd.theory.study import Study
from assignadd.theory.verdict import Verdict


def verdicts(study: Study) -> list[Verdict]:
    return [*proof_verdicts.verdicts(study), *theorem_verdicts.verdicts(study), *step_verdicts.verdicts(study)]
