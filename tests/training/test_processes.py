"""Processes that train side by side: shared memory, order, failures, and no one left behind."""

import os
import signal
import threading
import time

import pytest
import torch

from assignadd.training.processes import ProcessDied, ProcessPool, in_background, in_parallel, shared


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rsplit(")", 1)[1].split()[0] == "Z"


class Item:
    """What the processes have."""

    def __init__(self, number: int, tensor: torch.Tensor | None = None):
        self.number, self.tensor = number, tensor

    def scale(self, factor: int) -> int:
        return self.number * factor

    def where(self) -> int:
        return os.getpid()

    def add(self, x: float) -> float:
        return self.tensor[self.number].add_(x).sum().item()

    def fail(self) -> None:
        raise ValueError(f"item {self.number} is bad")


@pytest.mark.parametrize("processes", [1, 2, 3])
def test_results_come_in_the_order_of_the_items(processes):
    pool = ProcessPool([Item(n) for n in (10, 20, 30, 40)], processes)
    assert pool.call("scale", 3) == [30, 60, 90, 120]
    where = set(pool.call("where"))
    pool.close()
    assert len(where) == processes
    assert where == {os.getpid()} if processes == 1 else os.getpid() not in where and all(map(gone, where))


def test_shared_tensors_are_seen_on_both_sides():
    tensor = shared(torch.arange(6.0).view(2, 3))
    assert tensor.tolist() == [[0, 1, 2], [3, 4, 5]]
    pool = ProcessPool([Item(0, tensor), Item(1, tensor)], 2)
    tensor[1] = 100
    assert pool.call("add", 1.0) == [6.0, 303.0]
    assert tensor.tolist() == [[1, 2, 3], [101, 101, 101]]
    pool.close()


def test_a_failure_is_told_and_a_death_noticed():
    pool = ProcessPool([Item(1), Item(2)], 2)
    with pytest.raises(RuntimeError, match="item 1 is bad"):
        pool.call("fail")
    pool.close()
    pool = ProcessPool([Item(1), Item(2)], 2)
    os.kill(pool.call("where")[1], signal.SIGKILL)
    with pytest.raises(ProcessDied, match="the same command"):
        pool.call("where")
    pool.close()


@pytest.mark.parametrize("processes", [1, 3])
def test_each_argument_is_answered_once_with_tensors_by_value(processes):
    """More arguments than processes, of which one takes longer than all others together."""

    def square(x: int) -> tuple[int, dict[str, torch.Tensor]]:
        if x == 2:
            time.sleep(0.2)
        return os.getpid(), {"square": torch.tensor([x * x]), "odd": torch.tensor(x % 2 == 1)}

    found = dict(in_parallel(square, range(2, 9), processes))
    assert {i: (int(t["square"]), bool(t["odd"])) for i, (_, t) in found.items()} == {
        i: ((i + 2) ** 2, i % 2 == 1) for i in range(7)
    }
    where = {pid for pid, _ in found.values()}
    assert where == {os.getpid()} if processes == 1 else os.getpid() not in where and all(map(gone, where))


def test_a_failure_in_parallel_is_told_and_leaves_no_process():
    def fail(x: int) -> int:
        raise ValueError(f"{x} is bad in {os.getpid()}")

    with pytest.raises(RuntimeError, match="is bad in") as error:
        list(in_parallel(fail, [1, 2], 2))
    assert gone(int(str(error.value).rsplit(" ", 1)[1]))


def write_pid(path):
    path.write_text(str(os.getpid()))
    if path.name.startswith("slow"):
        time.sleep(20)
        path.with_suffix(".done").touch()


@pytest.mark.parametrize("processes", [1, 3])
def test_calls_in_the_background_are_done_in_the_end(processes, tmp_path):
    paths = [tmp_path / str(i) for i in range(5)]
    with in_background(write_pid, paths, processes):
        if processes > 1:
            assert any(all(path.is_file() for path in paths) or time.sleep(0.05) for _ in range(200))
        else:
            assert not paths[0].exists()
    pids = {int(path.read_text()) for path in paths}
    assert (os.getpid() in pids) == (processes == 1) and all(gone(pid) for pid in pids - {os.getpid()})


@pytest.mark.parametrize("waits", [True, False], ids=["after the body", "in the body"])
def test_an_interrupt_ends_what_is_in_the_background(waits, tmp_path):
    """Before the calls are done, which takes 20 seconds; also where the tests were started in the background."""
    before, paths = signal.signal(signal.SIGINT, signal.default_int_handler), [tmp_path / f"slow{i}" for i in range(2)]

    def interrupt():
        while not all(path.is_file() and path.read_text() for path in paths):
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt), in_background(write_pid, paths, 2):
        if not waits:
            time.sleep(15)
    signal.signal(signal.SIGINT, before)
    assert all(gone(int(path.read_text())) for path in paths)
    assert not list(tmp_path.glob("*.done"))
