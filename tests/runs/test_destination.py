"""Files of others stay as they are: a command writes into what is absent, empty or its own, and through no link."""

import os
import shutil
from pathlib import Path

import pytest

from assignadd.config.errors import DestinationError, RunError
from assignadd.runs import atomic
from assignadd.runs.files import MARK, claim_file, claim_folder, folder_inside
from tests.runs.kill import in_child
from tests.runs.small import train


def everything(folder: Path) -> dict[str, bytes | str]:
    """Every file and link below a folder."""
    found = sorted(folder.rglob("*"))
    return {
        str(p): os.readlink(p) if p.is_symlink() else p.read_bytes() for p in found if p.is_symlink() or p.is_file()
    }


def refused(folder: Path, function, *arguments) -> str:
    before = everything(folder)
    with pytest.raises((DestinationError, RunError)) as caught:
        function(*arguments)
    assert everything(folder) == before and "\n" not in str(caught.value)
    return str(caught.value)


def test_absent_empty_and_ours_are_claimed_again_and_again(tmp_path):
    (tmp_path / "empty").mkdir()
    for folder in (tmp_path / "new" / "deep", tmp_path / "empty"):
        claim_folder(folder, "report")
        (folder / "index.html").write_text("ours")
        claim_folder(folder, "report")
        assert (folder / "index.html").read_text() == "ours"
        assert "an assignadd report" in refused(folder, claim_folder, folder, "explorer page")


@pytest.mark.parametrize("name", ["thesis.tex", "index.html", "data/index.js", "manifest.json", ".hidden"])
def test_a_folder_of_others_is_refused(tmp_path, name):
    file = tmp_path / "site" / name
    file.parent.mkdir(parents=True)
    file.write_text("years of work")
    said = refused(tmp_path, claim_folder, tmp_path / "site", "report")
    assert str(tmp_path / "site") in said and name.split("/")[0] in said


def test_a_mark_is_a_regular_file_with_our_words(tmp_path):
    for i, make in enumerate((Path.mkdir, lambda p: p.write_text("theirs"), lambda p: p.symlink_to("/etc/hostname"))):
        (tmp_path / str(i)).mkdir()
        make(tmp_path / str(i) / MARK)
        refused(tmp_path, claim_folder, tmp_path / str(i), "report")


def test_links_are_not_written_through(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert "link" in refused(tmp_path, claim_folder, tmp_path / "link", "report")
    claim_folder(tmp_path / "page", "report")
    (tmp_path / "page" / "data").symlink_to(tmp_path / "real")
    assert "link" in refused(tmp_path, folder_inside, tmp_path / "page", "data/m0")
    assert "link" in refused(tmp_path, train, tmp_path / "link")
    (tmp_path / "nowhere").symlink_to("absent")
    assert "link" in refused(tmp_path, train, tmp_path / "nowhere")
    train(tmp_path / "run", 10)
    (tmp_path / "latest").symlink_to("run")
    assert "link" in refused(tmp_path, train, tmp_path / "latest")


def test_a_folder_inside_that_is_ours_is_no_obstacle(tmp_path):
    """`make quick` writes reproduction/tiny, and then `make reproduce` reproduction/."""
    claim_folder(tmp_path / "tiny", "report")
    claim_folder(tmp_path, "report")


def test_killed_while_claiming_at_every_operation(tmp_path):
    k, killed = 1, True
    while killed:
        killed = in_child(lambda k=k: claim_folder(tmp_path / str(k), "report"), kill_at=k).killed
        claim_folder(tmp_path / str(k), "report")
        assert [p.name for p in (tmp_path / str(k)).iterdir()] == [MARK], k
        k += 1
    assert k > 5


def test_leftovers_go_unless_a_process_is_writing_them(tmp_path):
    claim_folder(tmp_path, "report")
    dead, alive = tmp_path / ".index.html.0123abcd.tmp", tmp_path / ".index.html.4567abcd.tmp"
    dead.write_text("half")
    alive.write_text("half")
    fd = os.open(alive, os.O_RDWR)
    atomic.lock(fd)
    claim_folder(tmp_path, "report")
    assert not dead.exists() and alive.exists()
    os.close(fd)
    claim_folder(tmp_path, "report")
    assert not alive.exists()


def test_a_file_is_written_over_its_own_kind_alone(tmp_path):
    train(tmp_path / "run", 10)

    def claim(path: Path) -> None:
        claim_file(path, lambda data: b"assignadd-seal:" in data)

    for name in ("manifest.json", "config.json", "metrics.jsonl", "checkpoints/00000010.safetensors", "new.parquet"):
        assert "inside the run" in refused(tmp_path, claim, tmp_path / "run" / name)
    claim(tmp_path / "run" / "measures.parquet")
    (tmp_path / "mine.parquet").write_bytes(b"PAR1 checkpoints PAR1")
    (tmp_path / "link.parquet").symlink_to("mine.parquet")
    for name in ("mine.parquet", "link.parquet", "run"):
        refused(tmp_path, claim, tmp_path / name)
    (tmp_path / "ours.parquet").write_bytes(b"PAR1 checkpoints assignadd-seal: PAR1")
    claim(tmp_path / "ours.parquet")
    claim(tmp_path / "absent.parquet")
    with (tmp_path / "ours.parquet").open("r+b") as file:
        file.truncate(1 << 30)  # larger than what any command writes as one file: it is not read
    refused(tmp_path, claim, tmp_path / "ours.parquet")


@pytest.mark.parametrize("name", ["config.json", "metrics.jsonl", "splits.safetensors", "lock", "manifest.json"])
def test_training_into_a_folder_with_somebodys_files(tmp_path, name):
    """Also with names that ours have."""
    folder = tmp_path / "theirs"
    folder.mkdir()
    (folder / name).write_text('{"name": "a web app"}')
    (folder / ".notes.0123abcd.tmp").write_text("somebody's")
    refused(tmp_path, train, folder)
    shutil.rmtree(folder)
    train(folder, 10)


def test_what_an_interrupted_write_left_beside_a_file_is_removed(tmp_path):
    """With the names that our writes give: files of others stay."""
    (tmp_path / ".table.csv.0123abcd.tmp").write_text("half")
    for name in (".table.csv.mine.tmp", ".other.csv.0123abcd.tmp"):
        (tmp_path / name).write_text("somebody's")
    atomic.write(tmp_path / "table.csv", b"whole")
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        ".other.csv.0123abcd.tmp",
        ".table.csv.mine.tmp",
        "table.csv",
    ]
