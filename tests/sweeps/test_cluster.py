"""The Ray engine on a real cluster: lost workers, nodes and drivers change nothing in the store."""

import importlib.util
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from assignadd.config import ConfigError
from assignadd.sweeps.engine import run_ray
from tests.sweeps.small import stores

INSTALLED = importlib.util.find_spec("ray") is not None
needs_ray = pytest.mark.skipif(not INSTALLED, reason="Ray is not installed (pip install 'assignadd[ray]')")
FLAGS = "--preset smoke --n-seeds 1 --steps 2000 --every 1000 --save-every 50 --device cpu --threads 1"


@pytest.mark.skipif(INSTALLED, reason="Ray is installed")
def test_without_ray_a_line_says_what_to_install():
    with pytest.raises(ConfigError, match=r"pip install 'assignadd\[ray\]'"):
        run_ray([], "cpu", None)


@pytest.fixture(scope="module")
def cluster():
    """A head on the loopback with two CPUs, as `make ray-up` starts it; the environment that reaches it."""
    with cluster_at("127.0.0.1", n_cpus=2) as environment:
        yield environment


@contextmanager
def cluster_at(address: str, n_cpus: int) -> Iterator[dict[str, str]]:
    """A head at this address with a token of its own, as `make ray-up ADDRESS=...` starts it.

    Yields the environment that reaches it, in which `HEAD` is its address and port.
    """
    # Sockets live below this folder, and their paths may not be long.
    folder = Path("/tmp") / f"ray-{secrets.token_hex(3)}"
    with socket.socket() as free:
        free.bind((address, 0))
        port = free.getsockname()[1]
    environment = os.environ | {
        "RAY_AUTH_TOKEN": secrets.token_hex(32), "RAY_TMPDIR": str(folder), "HEAD": f"{address}:{port}",
        "PYTHONPATH": str(Path(__file__).parents[2]), "OMP_NUM_THREADS": "1",
    }  # fmt: skip
    head = f"--head --node-ip-address {address} --port {port} --include-dashboard false --temp-dir {folder}"
    try:
        ray_start(environment | _set_by_make("ray-up"), f"{head} --num-cpus {n_cpus}")
        yield environment
    finally:  # also of a cluster that came up only in part
        for pid in _processes_with(str(folder)):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        shutil.rmtree(folder, ignore_errors=True)


def ray_start(environment: dict[str, str], flags: str) -> None:
    """Starts a node."""
    command = [sys.executable, "-m", "ray.scripts.scripts", "start", *flags.split(), "--disable-usage-stats"]
    started = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=90)
    assert started.returncode == 0, started.stdout + started.stderr


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
    grid = out.parent / "grid.json"
    grid.write_text('{"optim.batch": [32, 33]}')  # two stacks: batches of different sizes are not in one
    command = [sys.executable, "-m", "assignadd", "sweep", str(grid), *FLAGS.split(), "--out", str(out), *flags]
    return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def outcome(process: subprocess.Popen) -> tuple[int, str]:
    """Exit code, and what was said on stderr, whose pipe is closed with it."""
    errors = process.communicate(timeout=300)[1]  # Ray tries a wrong token again for a while
    return process.returncode, errors


def workers_in_training(out: Path, process: subprocess.Popen, n: int = 1) -> list[int]:
    """Who holds runs that have passed their first regular checkpoint, once there are `n` of them."""
    while True:
        assert process.poll() is None, process.communicate()[1]
        workers = []
        for lock in out.glob("stack-*/lock"):
            saved = sorted(p.name for p in (lock.parent / "states").glob("0*.safetensors"))
            if saved and "00000050.safetensors" <= saved[-1] < "00001950.safetensors" and (text := lock.read_text()):
                workers.append(int(text.split()[1]))  # "process 12 on NAME"
        if len(workers) >= n:
            return workers
        time.sleep(0.01)


def node_of(worker: int) -> int:
    """The process that has started a worker: its node's raylet."""
    return int(Path(f"/proc/{worker}/stat").read_text().rsplit(")", 1)[1].split()[1])


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
    os.kill(workers_in_training(tmp_path / "ray", first)[0], signal.SIGKILL)  # Ray starts the job again elsewhere
    assert outcome(first)[0] == outcome(local)[0] == 0

    second = sweep(tmp_path / "driver", cluster, *on_ray)
    workers_in_training(tmp_path / "driver", second)
    second.kill()
    assert outcome(second)[0] == -signal.SIGKILL
    assert 'finished": true' not in "".join(p.read_text() for p in (tmp_path / "driver").rglob("manifest.json"))
    assert outcome(sweep(tmp_path / "driver", cluster, *on_ray))[0] == 0

    expected = stores(tmp_path / "local")
    assert len(expected) == 2 and stores(tmp_path / "ray") == expected and stores(tmp_path / "driver") == expected


@needs_ray
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc, and has more loopback addresses than one")
def test_a_lost_node_leaves_its_stack_to_the_other(tmp_path):
    """The second node joins as docs/cluster.md says. Ray takes 127.0.0.1 for another address where nodes may join."""
    with cluster_at("127.0.0.2", n_cpus=1) as environment:
        address = environment["HEAD"]
        join = f"--address {address} --node-ip-address 127.0.0.3 --num-cpus 1"
        ray_start(environment | {"RAY_AUTH_MODE": "token"}, join)
        on_ray = sweep(tmp_path / "ray", environment, "--engine", "ray", "--address", address)
        nodes = [node_of(worker) for worker in workers_in_training(tmp_path / "ray", on_ray, n=2)]
        (second,) = [node for node in nodes if b"127.0.0.3" in Path(f"/proc/{node}/cmdline").read_bytes()]
        assert len(set(nodes)) == 2  # a stack on each node
        os.kill(second, signal.SIGKILL)
        local = sweep(tmp_path / "local", environment)
        assert outcome(on_ray)[0] == outcome(local)[0] == 0
        assert stores(tmp_path / "ray") == stores(tmp_path / "local")


@needs_ray
def test_a_wrong_token_is_turned_away(tmp_path, cluster):
    stranger = sweep(
        tmp_path / "x", cluster | {"RAY_AUTH_TOKEN": secrets.token_hex(32)}, "--engine", "ray", "--address", "auto"
    )
    code, errors = outcome(stranger)
    assert code == 2 and "assignadd: address = 'auto': expected a Ray cluster that accepts the token" in errors, errors
    assert not list(tmp_path.rglob("manifest.json"))
