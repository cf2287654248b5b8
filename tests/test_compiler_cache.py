"""What the compiler kept is read only where nobody else can have written it and it is whole; else it is made again."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("numba")

from assignadd import compiler_cache
from tests.runs.test_damage import flip

pytestmark = pytest.mark.skipif(compiler_cache.IN_PYTHON, reason="the compiler is switched off")
SOURCE = "def twice(x):\n    return 2 * x\n"


@pytest.fixture
def source(tmp_path, monkeypatch) -> Path:
    """A file with a function, in a folder beside which its compiled form is kept."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    folder = tmp_path / "package"
    folder.mkdir(mode=0o755)
    (folder / "file.py").write_text(SOURCE)
    return folder / "file.py"


@pytest.fixture(autouse=True)
def as_at_the_start():
    for function in (compiler_cache._folder, compiler_cache._stamp, compiler_cache._say):
        function.cache_clear()
    yield
    for function in (compiler_cache._folder, compiler_cache._stamp, compiler_cache._say):
        function.cache_clear()


def start(source: Path, note: str = ""):
    """The function as the next process would have it, called once; how often it was loaded and compiled."""
    for function in (compiler_cache._folder, compiler_cache._stamp):
        function.cache_clear()
    names: dict = {}
    exec(compile(source.read_text(), str(source), "exec"), names)
    twice = compiler_cache.with_stored_code(names["twice"], [source], note)
    assert twice(21) == 42
    return sum(twice.stats.cache_hits.values()), sum(twice.stats.cache_misses.values())


LOADED, COMPILED = (1, 0), (0, 1)


def test_the_second_start_loads_and_another_source_is_compiled(source):
    assert (start(source), start(source)) == (COMPILED, LOADED)
    source.write_text(SOURCE + "# another\n")
    assert (start(source), start(source)) == (COMPILED, LOADED)
    (file,) = (source.parent / "__pycache__").iterdir()
    assert file.stat().st_mode & 0o077 == 0


def test_a_note_is_printed_once_and_only_where_something_is_compiled(source, capsys):
    for expected in ("assignadd: wait\n", "", ""):
        start(source, "wait")
        assert capsys.readouterr().err == expected


@pytest.mark.parametrize("damage", ["empty", "cut", "digest", "content", "end", "longer", "foreign", "folder", "fifo"])
def test_a_damaged_file_is_compiled_again_without_a_word_and_written_anew(source, damage, capsys):
    start(source)
    (file,) = (source.parent / "__pycache__").iterdir()
    whole = file.read_bytes()
    if damage in ("digest", "content", "end"):
        flip(file, {"digest": 3, "content": 40, "end": len(whole) - 1}[damage], 2)
    elif damage in ("folder", "fifo"):
        file.unlink()
        {"folder": os.mkdir, "fifo": os.mkfifo}[damage](file)
    else:
        forms = {"empty": b"", "cut": whole[:-100], "longer": whole + b"\0", "foreign": b"\x80\x05]q\0." * 30}
        file.write_bytes(forms[damage])
    assert start(source) == COMPILED
    if damage != "folder":
        assert start(source) == LOADED and capsys.readouterr() == ("", "")


def test_a_file_of_the_previous_code_under_the_same_name_is_not_taken(source):
    start(source)
    (file,) = (source.parent / "__pycache__").iterdir()
    before = file.read_bytes()
    source.write_text(SOURCE.replace("2 * x", "x + x"))
    start(source)
    file.write_bytes(before)
    assert start(source) == COMPILED


@pytest.mark.parametrize("mode", [0o777, 0o775, 0o757])
def test_a_folder_that_others_can_write_to_is_not_read(source, mode, tmp_path, capsys):
    """A private one in the user's cache directory is taken instead."""
    start(source)
    (source.parent / "__pycache__").chmod(mode)
    assert (start(source), start(source)) == (COMPILED, LOADED)
    (private,) = (tmp_path / "home" / "numba").iterdir()
    assert private.stat().st_mode & 0o777 == 0o700 and len(list(private.iterdir())) == 1
    private.chmod(mode)
    assert (start(source), start(source)) == (COMPILED, COMPILED)
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "other users can write to it" in error and str(private) in error


@pytest.mark.parametrize("what", ["file", "link"])
def test_a_file_that_others_could_have_written_is_not_read(source, what, monkeypatch, tmp_path):
    """Even one whose digest fits: that is no secret."""
    start(source)
    (file,) = (source.parent / "__pycache__").iterdir()
    if what == "file":
        file.chmod(0o666)
    else:
        file.rename(tmp_path / "elsewhere")
        file.symlink_to(tmp_path / "elsewhere")
    monkeypatch.setattr(compiler_cache, "loads", lambda data: pytest.fail("read"))
    assert start(source) == COMPILED


def test_a_folder_or_a_link_of_another_user_is_not_read(source, monkeypatch, capsys):
    start(source)
    monkeypatch.setattr(compiler_cache.os, "geteuid", lambda: os.getuid() + 1)
    assert start(source) == COMPILED
    assert capsys.readouterr().err.count("\n") == 1
    monkeypatch.undo()
    folder = source.parent / "__pycache__"
    folder.rename(source.parent / "elsewhere")
    folder.symlink_to(source.parent / "elsewhere")
    assert compiler_cache.problem(folder) == "not a folder"


def test_where_nothing_can_be_written_it_runs_and_says_so_once(source, monkeypatch, capsys):
    monkeypatch.setattr(compiler_cache.os, "access", lambda path, mode: False)
    assert (start(source), start(source)) == (COMPILED, COMPILED)
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "compiled at every start" in error and "Traceback" not in error


def test_without_a_home_folder_nothing_is_kept_in_the_working_folder(source, monkeypatch, tmp_path, capsys):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    (source.parent / "__pycache__").write_text("in the way")
    start(source)
    assert list(Path().iterdir()) == [] and "there is no home folder" in capsys.readouterr().err


def test_a_disk_that_is_full_is_one_line(source, monkeypatch, capsys):
    def full(path, data):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(compiler_cache, "_write", full)
    assert (start(source), start(source)) == (COMPILED, COMPILED)
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "No space left on device" in error
    assert list((source.parent / "__pycache__").iterdir()) == []


def test_a_settings_file_in_the_working_folder_leads_the_cache_nowhere(tmp_path):
    """Numba reads `.numba_config.yaml` there, which may name a folder with somebody's pickles."""
    pytest.importorskip("yaml", reason="the client of the Hub, which brings yaml, is not installed")
    (tmp_path / ".numba_config.yaml").write_text(f"cache_dir: {tmp_path / 'theirs'}\n")
    code = "import numba; from assignadd.task.numba_sampler import digit; import numpy as np; u = np.uint64\n"
    code += "print(numba.config.CACHE_DIR); digit(u(5), u(7)); print(digit._cache.cache_path)"
    root = Path(__file__).parents[1]
    environment = os.environ | {"PYTHONPATH": str(root)}
    environment.pop("NUMBA_CACHE_DIR", None)
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    numbas, ours = done.stdout.split()
    assert "theirs" in numbas and "theirs" not in ours


def test_every_function_of_the_package_is_kept_this_way():
    """Numba's own cache, `cache=True`, is nowhere."""
    files = [path for path in Path(compiler_cache.__file__).parent.rglob("*.py") if "node_modules" not in path.parts]
    assert [path for path in files if "cache=True" in path.read_text()] == []
