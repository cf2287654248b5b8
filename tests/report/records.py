"""Records as the ledger writes them, one for each kind of verdict, their words as hostile as words can be."""

from assignadd.ledger.claim import Record, SeedResult
from assignadd.stats import FAILS, HOLDS, UNMEASURED, UNTESTABLE

HOSTILE = "<script>alert(1)</script>\"' & `<img src=x onerror=alert(2)>`"


def record(id: str, value: float | None, verdict: str, label: str = "attention", n: int = 100) -> Record:
    low, high = (None, None) if value is None else (value - 0.01, value + 0.01)
    by_seed = (SeedResult("r", 0, 0.5, 0.4, 0.6, HOLDS), SeedResult("r", 1, 0.5, 0.4, 0.6, FAILS))
    return Record(
        id=id, label=label, claim=f"claim {id} {HOSTILE}", paper=HOSTILE, value=value, low=low, high=high, n=n,
        unit="pairs", seeds=2, verdict=verdict, rule=HOSTILE, comment=HOSTILE, by_seed=by_seed,
        command=f"assignadd claims {HOSTILE}",
    )  # fmt: skip


# Values whose order as numbers is not their order as text.
RECORDS = (
    record("nine", 9.0, HOLDS, n=1000),
    record("none", None, UNMEASURED, n=0),
    record("ten", 10.0, FAILS, n=90, label="qk0"),
    record("minus", -3.5, "1 holds, 2 fail", n=8),
    record("tiny", 1e-5, "2 hold, 1 undecided", n=70),
    record("half", 0.5, UNTESTABLE, n=600),
)
