"""Importing TransformerLens state dicts: the authors' checkpoints, if present, and files that must be refused."""

from __future__ import annotations

import os
import pickle
import warnings
import zipfile
from pathlib import Path

import pytest
import torch

from assignadd.config import PRESETS
from assignadd.config.errors import RunError
from assignadd.model.stack import views, weight_shapes
from assignadd.runs import transformer_lens
from assignadd.runs.transformer_lens import import_state_dicts
from assignadd.task.splits import authors_split, pair_split
from tests.reference import REFERENCE
from tests.runs.small import CONFIG, hold, weights_at

AUTHORS = PRESETS["authors"]
needs_reference = pytest.mark.skipif(
    not (REFERENCE / "model_state_dict.pth").exists(),
    reason="the authors' checkpoints are not at hand (ASSIGNADD_REFERENCE)",
)


@needs_reference
def test_the_authors_run(tmp_path):
    paths = sorted(REFERENCE.glob("*.pth"))
    run = import_state_dicts(paths, AUTHORS, tmp_path / "run")
    assert run.steps == [1, 1001, 3001, 5301, 5401, 10001, 14501, 16001, 20001, 30001, 40000]
    assert run.finished and run.config.optim.steps == 40000 and [m.seed for m in run.members] == [0]
    assert run.verify() == []
    assert torch.equal(run.seen[0], authors_split(AUTHORS.task)) and int(run.seen.sum()) == 2436
    assert set(run.manifest.sources) == {path.name for path in paths}
    original = torch.load(REFERENCE / "checkpoint_step_5401.pth", weights_only=True)
    stack = run.checkpoint(5401)
    assert stack.flat.shape == (1, 281_216)
    assert all(torch.equal(weight[0], original[name]) for name, weight in stack.weights.items())


def state_dict(step: int = 0) -> dict[str, torch.Tensor]:
    """The first small model as TransformerLens 2.x saves it: with zero biases, an empty first MLP, and buffers."""
    T, d, h, N = CONFIG.task.length, CONFIG.model.d_model, 6, CONFIG.task.modulus
    weights = {name: w.clone() for name, w in views(CONFIG, weights_at(step)[0]).items()}
    zeros: dict[str, tuple[int, ...]] = {"blocks.0.mlp.W_in": (d, h), "blocks.0.mlp.W_out": (h, d), "unembed.b_U": (N,)}
    for layer in range(2):
        zeros |= {f"blocks.{layer}.attn.b_{x}": (1, d) for x in "QKV"} | {f"blocks.{layer}.attn.b_O": (d,)}
        zeros |= {f"blocks.{layer}.mlp.b_in": (h,), f"blocks.{layer}.mlp.b_out": (d,)}
        weights[f"blocks.{layer}.attn.mask"] = torch.ones(T, T, dtype=torch.bool).tril()
        weights[f"blocks.{layer}.attn.IGNORE"] = torch.tensor(-torch.inf)
    return weights | {name: torch.zeros(shape) for name, shape in zeros.items()}


def saved(folder: Path, content: object, name: str = "checkpoint_step_7.pth") -> Path:
    torch.save(content, folder / name)
    return folder / name


def test_made_up_checkpoints(tmp_path):
    last, first = saved(tmp_path, state_dict(9), "model_state_dict.pth"), saved(tmp_path, state_dict(7))
    run = import_state_dicts([last, first], CONFIG, tmp_path / "run")
    assert run.steps == [7, 40000]
    assert torch.equal(run.checkpoint(7).flat, weights_at(7)[:1])
    assert torch.equal(run.checkpoint(40000).flat, weights_at(9)[:1])
    assert torch.equal(run.seen[0], pair_split(CONFIG.task, 0))
    before = (tmp_path / "run/manifest.json").read_bytes()
    import_state_dicts([first, last], CONFIG, tmp_path / "run")  # again: nothing to do
    assert (tmp_path / "run/manifest.json").read_bytes() == before


def test_a_damaged_import_says_how_to_make_it_again(tmp_path):
    path = saved(tmp_path, state_dict())
    run = import_state_dicts([path], CONFIG, tmp_path / "run")
    (run.path / "checkpoints/00000007.safetensors").write_bytes(b"damaged")
    with pytest.raises(RunError, match=r"00000007.safetensors is truncated.*; remove .*run to import it again"):
        import_state_dicts([path], CONFIG, tmp_path / "run")


def test_an_import_and_a_training_do_not_share_a_folder(tmp_path):
    path = saved(tmp_path, state_dict())
    import_state_dicts([path], CONFIG, tmp_path / "imported")
    with (
        pytest.raises(RunError, match="was imported from other files; choose another --out"),
        hold(tmp_path / "imported"),
    ):
        pass
    with hold(tmp_path / "trained"):
        pass
    with pytest.raises(RunError, match="was trained, not imported"):
        import_state_dicts([path], CONFIG, tmp_path / "trained")
    saved(tmp_path, state_dict(3))
    with pytest.raises(RunError, match="imported from other files"):
        import_state_dicts([path], CONFIG, tmp_path / "imported")


def without(name: str) -> dict[str, torch.Tensor]:
    return {k: t for k, t in state_dict().items() if k != name}


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (
            state_dict() | {"embed.W_E": torch.zeros(3, 4)},
            r"W_E is torch.float32 \(3, 4\), expected",
        ),
        (
            state_dict() | {"blocks.1.attn.W_Q": torch.zeros(1, 4, 4).double()},
            r"W_Q is torch.float64 \(1, 4, 4\)",
        ),
        (state_dict() | {"unembed.W_U": torch.full((4, 5), torch.nan)}, "unembed.W_U has entries that are not finite"),
        (state_dict() | {"blocks.0.attn.b_Q": torch.tensor([[0.0, 0, 1e-9, 0]])}, "blocks.0.attn.b_Q is not zero"),
        (state_dict() | {"unembed.b_U": torch.full((5,), torch.nan)}, "unembed.b_U is not zero"),
        (
            state_dict() | {"blocks.0.mlp.W_in": torch.ones(4, 6)},
            "blocks.0.mlp.W_in is not zero, and the model has no such weight",
        ),
        (state_dict() | {"blocks.0.ln1.w": torch.ones(4)}, "blocks.0.ln1.w is not zero"),
        (state_dict() | {"embed.W_E": torch.zeros(11, 4).to_sparse()}, "embed.W_E is not a plain tensor"),
        (state_dict() | {"blocks.0.attn.b_Q": torch.zeros(1).expand(10**6, 10**6)}, "b_Q is not a plain tensor"),
        (state_dict() | {"blocks.1.attn.IGNORE": torch.zeros(1).expand(10**9)}, "IGNORE is not a plain tensor"),
        (state_dict() | {"unembed.b_U": torch.zeros(5, dtype=torch.uint16)}, "b_U is not a plain tensor"),
        (state_dict() | {"unembed.b_U": torch.zeros(5).to(torch.float8_e4m3fn)}, "b_U is not a plain tensor"),
        (state_dict() | {"embed.W_E": torch.zeros(11, 4, dtype=torch.complex64)}, "W_E is not a plain tensor"),
        (without("unembed.W_U"), "unembed.W_U is missing"),
        ({}, "blocks.0.attn.W_K is missing"),
        (torch.zeros(3), "not a state dict"),
        ({"embed.W_E": 3}, "not a state dict"),
        ({3: torch.zeros(3)}, "not a state dict"),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path, content, says):
    with pytest.raises(RunError, match=says) as caught:
        import_state_dicts([saved(tmp_path, content)], CONFIG, tmp_path / "run")
    assert "checkpoint_step_7.pth" in str(caught.value) and "\n" not in str(caught.value)
    assert not (tmp_path / "run").exists()


@needs_reference
def test_the_authors_files_do_not_fit_another_task(tmp_path):
    with pytest.raises(RunError, match=r"embed.W_E is torch.float32 \(74, 128\), expected torch.float32 \(11, 4\)"):
        import_state_dicts([REFERENCE / "checkpoint_step_1.pth"], CONFIG, tmp_path / "run")


class Evil:
    def __init__(self, mark: str):
        self.mark = mark

    def __reduce__(self):
        return os.mkdir, (self.mark,)


def test_code_in_a_pickle_does_not_run(tmp_path):
    mark = tmp_path / "executed"
    plain = tmp_path / "checkpoint_step_1.pth"
    plain.write_bytes(pickle.dumps({"embed.W_E": Evil(str(mark))}))
    zipped = saved(tmp_path, {"embed.W_E": Evil(str(mark))}, "checkpoint_step_2.pth")
    for path in (plain, zipped):
        with pytest.raises(RunError, match="is not a file of plain tensors") as caught:
            import_state_dicts([path], CONFIG, tmp_path / "run")
        assert "\n" not in str(caught.value) and "weights_only" not in str(caught.value)
    assert not mark.exists()
    pickle.loads(plain.read_bytes())  # the control: it would have
    assert mark.exists()


@pytest.mark.parametrize("data", [b"", b"hello", b"PK\x03\x04 not a zip", b"\x80\x02."])
def test_files_of_another_kind(tmp_path, data):
    path = tmp_path / "checkpoint_step_1.pth"
    path.write_bytes(data)
    with pytest.raises(RunError, match=r"checkpoint_step_1.pth is not"):
        import_state_dicts([path], CONFIG, tmp_path / "run")


def test_nested_tensors_are_refused(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch: nested tensors are a prototype
        content = state_dict() | {"unembed.b_U": torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)])}
        path = saved(tmp_path, content)
        with pytest.raises(RunError, match=r"checkpoint_step_7.pth"):
            import_state_dicts([path], CONFIG, tmp_path / "run")


def test_files_that_would_take_all_memory_or_never_end(tmp_path, monkeypatch):
    path = saved(tmp_path, state_dict())
    packed = tmp_path / "checkpoint_step_8.pth"
    with zipfile.ZipFile(path) as plain, zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as small:
        for name in plain.namelist():
            small.writestr(name, plain.read(name) + b"\0" * (1 << 22) * name.endswith("/data/0"))
    with pytest.raises(RunError, match="unpacks to"):
        import_state_dicts([packed], CONFIG, tmp_path / "run")
    os.mkfifo(tmp_path / "checkpoint_step_9.pth")
    with pytest.raises(RunError, match="not a regular file"):
        import_state_dicts([tmp_path / "checkpoint_step_9.pth"], CONFIG, tmp_path / "run")
    monkeypatch.setattr(transformer_lens, "MOST_BESIDES", 0)
    path.write_bytes(b"\0" * 1_000_000)
    with pytest.raises(RunError, match="1,000,000 bytes, of which at most"):
        import_state_dicts([path], CONFIG, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_truncated_file(tmp_path):
    path = saved(tmp_path, state_dict())
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(RunError, match="is not a file of plain tensors"):
        import_state_dicts([path], CONFIG, tmp_path / "run")


def test_names_tell_the_step(tmp_path):
    with pytest.raises(RunError, match=r"mine.pth: expected a file named checkpoint_step_N.pth"):
        import_state_dicts([saved(tmp_path, state_dict(), "mine.pth")], CONFIG, tmp_path / "run")
    with pytest.raises(RunError, match="1 different step"):
        path = saved(tmp_path, state_dict())
        import_state_dicts([path, path], CONFIG, tmp_path / "run")
    with pytest.raises(RunError, match="could not be read: No such file"):
        import_state_dicts([tmp_path / "checkpoint_step_3.pth"], CONFIG, tmp_path / "run")
    with pytest.raises(RunError, match="at least one"):
        import_state_dicts([], CONFIG, tmp_path / "run")


def test_the_made_up_ones_are_complete():
    assert set(weight_shapes(CONFIG)) < set(state_dict())
