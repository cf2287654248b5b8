"""What training says while it goes on."""

from assignadd.cli import train


def test_the_time_that_is_left_leaves_out_a_first_step_that_waited_for_the_compiler(monkeypatch):
    """40 seconds for the first step, then ten steps a second; a line every LOG_SECONDS."""
    lines: list[str] = []
    monkeypatch.setattr(train, "say", lines.append)
    clock = iter([100.0, 140.0, 171.0, 202.0])
    monkeypatch.setattr(train.time, "monotonic", lambda: next(clock))
    with train._training_screen("run", 1021, "steps") as show:
        for done in (0, 1, 311, 621):
            show(done, list)
    assert [line.split("steps", 1)[1] for line in lines] == [
        "", "", ", 10.0 steps/s, 1.2 min left", ", 10.0 steps/s, 0.7 min left"
    ]  # fmt: skip
