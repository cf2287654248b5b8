"""A command as a user types it: what it says, or what it complains of."""

from assignadd.cli import main


def said(capsys, *arguments: str) -> str:
    assert main(arguments) == 0
    return capsys.readouterr().out


def complaint(capsys, *arguments: str, code: int = 2) -> str:
    assert main(arguments) == code
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.startswith("assignadd: ") and captured.err.count("\n") == 1, captured
    return captured.err
