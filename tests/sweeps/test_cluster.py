"""The Ray engine on a real cluster of two workers: killed workers and drivers change nothing in the store."""

import importlib.util
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from assignadd.config import ConfigError
from assignadd.sweeps.engine import run_ray
from tests.sweeps.small import stores

INSTALLED = importlib.util.find_spec("ray") is not None
needs_ray = pytest.mark.skipif(not INSTALLED, reason="Ray is not installed (pip install 'assignadd[ray]')")
FLAGS = "--preset smoke --n-seeds 2 --steps 2000 --every 1000 --save-every 50 --device cpu --threads 1"


@pytest.mark.skipif(INSTALLED, reason="Ray is installed")
def test_without_ray_a_line_says_what_to_install():
    with pytest.raises(ConfigError, match=r"pip install 'assignadd\[ray\]'"):
        run_ray([], "cpu", None)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """A head on the loopback with two CPUs, a token of its own and no dashboard; the environment that reaches it."""
    # Sockets live below this folder, and their paths may not be long.
    folder = Path("/tmp") / f"ray-{secrets.token_hex(3)}"
    environment = os.environ | {
        "RAY_AUTH_TOKEN": secrets.token_hex(32), "RAY_TMPDIR": str(folder),
        "PYTHONPATH": str(Path(__file__).parents[2]), "OMP_NUM_THREADS": "1",
    }  # fmt: skip
    ray = [sys.executable, "-m", "ray.scripts.scripts"]
    start = (
        "start --head --node-ip-address 127.0.0.1 --port 0 --include-dashboard false --num-cpus 2 --disable-usage-stats"
    )
    try:
        started = subprocess.run(
            [*ray, *start.split(), "--temp-dir", str(folder)],
            env=environment | _set_by_make("ray-up"),
            capture_output=True,
            text=True,
        )
        assert started.returncode == 0, started.stdout + started.stderr
        yield environment
    finally:  # also of a cluster that came up only in part
        for pid in _processes_with(str(folder)):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        shutil.rmtree(folder, ignore_errors=True)


def _set_by_make(target: str) -> dict[str, str]:
    """The variables that a target of the Makefile gives to Ray."""
    recipe = (Path(__file__).parents[2] / "Makefile").read_text().partition(f"\n{target}:")[2].partition("\n\n")[0]
    return dict(re.findall(r"(RAY_\w+)=(\w+)", recipe))


def _processes_with(text: str) -> list[int]:
    """This cluster's own processes: those that name its folder."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                if text.encode() in (entry / "cmdline").read_bytes() and int(entry.name) != os.getpid():
                    found.append(int(entry.name))
    return found


def sweep(out: Path, environment, *flags: str) -> subprocess.Popen:
    command = [sys.executable, "-m", "assignadd", "sweep", "seeds", *FLAGS.split(), "--out", str(out), *flags]
    return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def outcome(process: subprocess.Popen) -> tuple[int, str]:
    """Exit code, and what was said on stderr, whose pipe is closed with it."""
    errors = process.communicate(timeout=300)[1]  # Ray tries a wrong token again for a while
    return process.returncode, errors


def worker_in_training(out: Path, process: subprocess.Popen) -> int:
    """Who holds a run that has passed its first regular checkpoint."""
    while True:
        assert process.poll() is None, process.communicate()[1]
        for lock in out.glob("stack-*/lock"):
            saved = sorted(p.name for p in (lock.parent / "states").glob("0*.safetensors"))
            if saved and "00000050.safetensors" <= saved[-1] < "00001950.safetensors":
                return int(lock.read_text().split()[0])
        time.sleep(0.01)


def listening(pids: list[int]) -> set[str]:
    """The addresses, as the kernel writes them, at which these processes take connections."""
    links = [os.readlink(f) for pid in pids for f in Path(f"/proc/{pid}/fd").iterdir() if f.is_socket()]
    lines = [line.split() for name in ("tcp", "tcp6") for line in Path("/proc/net", name).read_text().splitlines()[1:]]
    return {line[1].partition(":")[0] for line in lines if line[3] == "0A" and f"socket:[{line[9]}]" in links}


@needs_ray
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_no_other_machine_reaches_the_cluster(cluster):
    loopback = {
        "0100007F",
        "0000000000000000FFFF00000100007F",
        "00000000000000000000000001000000",
    }  # of IPv4, the same in IPv6, IPv6
    found = listening(_processes_with(cluster["RAY_TMPDIR"]))
    assert found and found <= loopback


@needs_ray
def test_killed_workers_and_drivers_leave_the_store_as_the_local_engine_makes_it(tmp_path, cluster):
    local = sweep(tmp_path / "local", cluster)
    on_ray = ("--engine", "ray", "--address", "auto")
    first = sweep(tmp_path / "ray", cluster, *on_ray)
    os.kill(worker_in_training(tmp_path / "ray", first), signal.SIGKILL)  # Ray starts the job again elsewhere
    assert outcome(first)[0] == outcome(local)[0] == 0

    second = sweep(tmp_path / "driver", cluster, *on_ray)
    worker_in_training(tmp_path / "driver", second)
    second.kill()
    assert outcome(second)[0] == -signal.SIGKILL
    assert 'finished": true' not in "".join(p.read_text() for p in (tmp_path / "driver").rglob("manifest.json"))
    assert outcome(sweep(tmp_path / "driver", cluster, *on_ray))[0] == 0

    expected = stores(tmp_path / "local")
    assert len(expected) == 2 and stores(tmp_path / "ray") == expected and stores(tmp_path / "driver") == expected


@needs_ray
def test_a_wrong_token_is_turned_away(tmp_path, cluster):
    stranger = sweep(
        tmp_path / "x", cluster | {"RAY_AUTH_TOKEN": secrets.token_hex(32)}, "--engine", "ray", "--address", "auto"
    )
    code, errors = outcome(stranger)
    assert code == 2 and "assignadd: address = 'auto': expected a Ray cluster that accepts the token" in errors, errors
    assert not list(tmp_path.rglob("manifest.json"))
