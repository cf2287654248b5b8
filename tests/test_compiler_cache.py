"""What the compiler kept is read only where it is whole and of the same code; else it is made again."""

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
    assert len(list((source.parent / "__pycache__").iterdir())) == 1


def test_a_note_is_printed_once_and_only_where_something_is_compiled(source, capsys):
    for expected in ("assignadd: wait\n", "", ""):
        start(source, "wait")
        assert capsys.readouterr().err == expected


@pytest.mark.parametrize("damage", ["empty", "cut", "digest", "content", "end", "longer", "foreign"])
def test_a_damaged_file_is_compiled_again_without_a_word_and_written_anew(source, damage, capsys):
    start(source)
    (file,) = (source.parent / "__pycache__").iterdir()
    whole = file.read_bytes()
    if damage in ("digest", "content", "end"):
        flip(file, {"digest": 3, "content": 40, "end": len(whole) - 1}[damage], 2)
    else:
        forms = {"empty": b"", "cut": whole[:-100], "longer": whole + b"\0", "foreign": b"\x80\x05]q\0." * 30}
        file.write_bytes(forms[damage])
    assert (start(source), start(source)) == (COMPILED, LOADED)
    assert capsys.readouterr() == ("", "")


def test_a_file_of_the_previous_code_under_the_same_name_is_not_taken(source):
    start(source)
    (file,) = (source.parent / "__pycache__").iterdir()
    before = file.read_bytes()
    source.write_text(SOURCE.replace("2 * x", "x + x"))
    start(source)
    file.write_bytes(before)
    assert start(source) == COMPILED


def test_where_the_package_cannot_be_written_the_users_folder_is_taken(source, tmp_path):
    (source.parent / "__pycache__").write_text("in the way")
    assert (start(source), start(source)) == (COMPILED, LOADED)
    (folder,) = (tmp_path / "home" / "numba").iterdir()
    assert len(list(folder.iterdir())) == 1


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
    assert list(Path().iterdir()) == [] and "compiled at every start" in capsys.readouterr().err


def test_a_disk_that_is_full_is_one_line(source, monkeypatch, capsys):
    def full(path, data):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    assert (start(source), start(source)) == (COMPILED, COMPILED)
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "No space left on device" in error


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
