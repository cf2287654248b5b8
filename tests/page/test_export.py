"""What the export writes: weights in half precision, the checkpoints that matter, and data but no code."""

import json
import re
import shutil
from base64 import b64decode
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
import torch

from assignadd import palette
from assignadd.cli import main
from assignadd.config import PRESETS, ConfigError, Member
from assignadd.config.errors import DestinationError, RunError
from assignadd.dynamics.curves import Onset, Spike
from assignadd.dynamics.phases import Curves, Phases
from assignadd.dynamics.trajectory import curves_of, phases_of
from assignadd.measures.columns import measure_of
from assignadd.model.circuits import OV, QK
from assignadd.model.forward import answer_logits
from assignadd.model.handmade import handmade
from assignadd.model.stack import initial_stack
from assignadd.network import Network, networks_of, store_result
from assignadd.page import data
from assignadd.page.data import chosen_steps, phases_data, spikes_with_checkpoints
from assignadd.page.export import INDEX, PageFolder, export
from assignadd.page.folder import circuits, script
from assignadd.page.population import population_data
from assignadd.paper.ledger import CLAIMS
from assignadd.runs.folder import Run
from assignadd.sweeps.population import Populations
from assignadd.task.evalsets import ALL_SETS
from assignadd.task.splits import pair_split
from assignadd.task.text import answer, parse
from tests.page.pages import CONFIG, HOSTILE, SPIKE, STEPS, states
from tests.paper.generalisation.test_seed_figures import made_up
from tests.runs.test_destination import everything


def argument(path):
    """What a data file hands over, read as JSON; the file must be one call with literals alone."""
    text = path.read_text()
    assert text.startswith("assignadd.") and text.endswith(");\n")
    inside = text[text.index("JSON.parse(") + 11 : -len("));\n")]
    return json.loads(json.loads(inside))


def whole_numbers(text):
    return np.frombuffer(b64decode(text), dtype="<i2").tolist()


def test_a_checkpoint_holds_the_circuits_in_half_precision():
    stack = initial_stack(PRESETS["smoke"], [3])
    text = script("m0", 7, stack.weights)
    weights = np.frombuffer(b64decode(text.split('"')[3]), dtype="<f2").astype(np.float32)
    parts = [
        stack.W_E, stack.W_pos, QK(stack, 1), OV(stack, 1), QK(stack, 2), OV(stack, 2), stack["blocks.1.mlp.W_in"],
        stack["blocks.1.mlp.W_out"], stack.W_U,
    ]  # fmt: skip
    exact = torch.cat([part[0].flatten() for part in parts])
    assert text.startswith('assignadd.weights("m0",7,"') and len(weights) == len(exact)
    assert np.allclose(weights, exact, rtol=2**-10, atol=1e-6)
    names = ["W_E", "W_pos", "QK1", "OV1", "QK2", "OV2", "W_in", "W_out", "W_U"]
    shapes = [(name, matrix.shape) for name, matrix in circuits(stack.weights).items()]
    assert shapes == [(name, tuple(part.shape[1:])) for name, part in zip(names, parts, strict=True)]


def test_weights_that_half_precision_cannot_hold_are_refused():
    stack = initial_stack(PRESETS["smoke"], [0])
    stack["unembed.W_U"][0, 0, 0] = 1e6
    with pytest.raises(Exception, match="half precision"):
        script("m0", 0, stack.weights)


def test_checkpoints_are_dense_where_things_happen():
    steps = [0, 1, 2, 5, 10, 20, 50, *range(100, 30_001, 100)]
    spike = Spike(5300, 5400, 0.5, 0.9, 5200, 5600)
    kept = chosen_steps(steps, [spike], 40)
    assert len(kept) == 40 and kept == sorted(set(kept)) and set(kept) <= set(steps)
    assert {0, 5300, 5400, 30_000} <= set(kept)
    around = sum(5000 <= s <= 5700 for s in kept)
    assert around >= 4 > sum(25_000 <= s <= 25_700 for s in kept)
    assert sum(s <= 1000 for s in kept) >= 10
    assert chosen_steps(steps, [spike], len(steps)) == steps


def test_few_checkpoints_are_the_ends_then_the_sides_of_the_spikes():
    steps = list(range(0, 2001, 100))
    spikes = [Spike(200, 300, 0, 0.5, 200, 300), Spike(400, 500, 0.5, 1, 400, 500)]
    expected = {2: [0, 2000], 3: [0, 200, 2000], 4: [0, 200, 300, 2000], 6: [0, 200, 300, 400, 500, 2000]}
    assert {most: chosen_steps(steps, spikes, most) for most in expected} == expected
    side_by_side = [spikes[0], Spike(300, 400, 0.5, 1, 300, 400)]
    assert chosen_steps(steps, side_by_side, 5) == [0, 200, 300, 400, 2000]


def test_the_index_names_the_models(page_folder):
    index = argument(page_folder / "data" / "index.js")
    first, second = index["models"]
    assert (first["run"], first["seed"], first["binds"], second["binds"]) == (HOSTILE, 0, True, False)
    assert first["phases"]["spikes"][0]["after"] == SPIKE and first["steps"] == list(STEPS)
    assert first["task"] == second["task"] == 0 and len(index["tasks"]) == 1 and index["story"] == first["key"]
    assert {r["id"] for r in index["ledger"]} >= {"ov-mlp-99.94", "qk2-identity"}
    # Networks of another task than the paper's: its census is not quoted.
    assert not any(r["id"].startswith("every-") for r in index["ledger"]) and index["population"] is None
    for model in index["models"]:
        for step in model["steps"]:
            assert (page_folder / "data" / model["key"] / f"{step:08d}.js").is_file()


def test_spikes_without_checkpoints_are_no_places_to_jump_to():
    spike = Spike(1000, 1500, 0.3, 1.0, 1000, 1500)
    phases = Phases(Onset(500, 500, 500), Onset(1500, 1500, 1500), None, spike, None, True, None)
    assert (
        list(spikes_with_checkpoints(phases, [0, 1000, 1500, 3000])) == ["first"]
        and spikes_with_checkpoints(phases, [3000]) == {}
    )


def test_a_model_s_file_has_its_exam_and_its_pairs(page_folder):
    model = argument(page_folder / "data" / "m0.js")
    assert model["seen"] == "".join("1" if s else "0" for s in pair_split(CONFIG.task, 0).flatten())
    tokens = np.frombuffer(b64decode(model["exam"]["tokens"]), dtype="<i2").reshape(512, CONFIG.task.length)
    labels = np.frombuffer(b64decode(model["exam"]["labels"]), dtype="<i2")
    assert [answer(row.tolist(), CONFIG.task) for row in tokens] == labels.tolist()
    assert model["exam"]["sets"][0] == ["0-var train", 0, 57] and model["exam"]["sets"][-1][2] == 512


def test_the_example_answered_wrong_is_answered_wrong():
    nothing, _, whole = states()
    seen = pair_split(CONFIG.task, 0)
    assert data.wrong_answer(whole.config, seen, whole) is None
    text = data.wrong_answer(nothing.config, seen, nothing)
    tokens = torch.tensor(parse(text, CONFIG.task))
    assert int(answer_logits(nothing, tokens[None, None]).argmax()) != answer(tokens.tolist(), CONFIG.task)


def test_examples_read_and_are_what_they_say():
    config = PRESETS["paper"]
    found = {
        e["label"]: parse(e["text"], config.task)
        for e in data.examples(config, pair_split(config.task, 0), handmade(config))
    }
    assert {"from the paper", "held-out pair", "banned slot"} <= found.keys()
    first, second = found["banned slot"][13:15]
    assert first in (62, 63) or second in (68, 69)


def test_a_folder_with_other_files_is_left_alone(tmp_path, page_folder):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(DestinationError, match="other files"):
        export(networks_of(Run.open(page_folder.parent / HOSTILE))[0], tmp_path, "", ledger=False)
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.tex"]


def written(out, checkpoints, stop_after=100):
    """Writes a page's files as the export does, in its order; the disk is full after some of them."""
    folder = PageFolder(out)
    for i, name in enumerate(("index.html", *(f"data/m0/{c:08d}.js" for c in checkpoints), "data/m0.js", INDEX)):
        if i == stop_after:
            raise RunError("the disk is full")
        folder.write(name, name.encode())
    folder.remove_others()


def test_an_interrupted_export_goes_on_and_old_checkpoints_go(tmp_path):
    written(tmp_path / "page", (1, 2, 3))
    wanted = everything(tmp_path / "page")
    for k in range(6):
        out = tmp_path / f"page{k}"
        with pytest.raises(RunError, match="full"):
            written(out, (1, 2, 3), stop_after=k)
        (out / ".index.html.0123abcd.tmp").write_text("half")
        written(out, (1, 2, 3))
        assert {n.replace(str(out), str(tmp_path / "page")): data for n, data in everything(out).items()} == wanted
    (tmp_path / "page" / "data" / "notes.js").write_text("mine")
    (tmp_path / "page" / "data" / "m1").mkdir()
    (tmp_path / "page" / "data" / "m1" / "00000001.js").write_text("of a model that is no longer there")
    written(tmp_path / "page", (2, 4))
    left = {str(p.relative_to(tmp_path / "page" / "data")) for p in (tmp_path / "page" / "data").rglob("*")}
    assert left == {"index.js", "m0.js", "notes.js", "m0", "m0/00000002.js", "m0/00000004.js"}


def test_nothing_is_written_or_removed_through_a_link(tmp_path):
    written(tmp_path / "page", (1, 2))
    shutil.move(tmp_path / "page" / "data" / "m0", tmp_path / "elsewhere")
    (tmp_path / "page" / "data" / "m0").symlink_to(tmp_path / "elsewhere")
    before = everything(tmp_path / "elsewhere")
    with pytest.raises(DestinationError, match="symbolic link"):
        written(tmp_path / "page", (1, 3))
    (tmp_path / "page" / "data" / "m0").rename(tmp_path / "page" / "data" / "m7")
    written(tmp_path / "page", (1, 3))
    assert everything(tmp_path / "elsewhere") == before


def test_the_command_writes_a_page_and_says_what_it_needs(tmp_path, page_folder, capsys):
    run = str(page_folder.parent / HOSTILE)
    assert (
        main(["explore", run, "-o", str(tmp_path / "page"), "--no-ledger", "--checkpoints", "3", "--threads", "1"]) == 0
    )
    assert len(list((tmp_path / "page" / "data" / "m0").iterdir())) == 3
    assert argument(tmp_path / "page" / "data" / "index.js")["ledger"] == []
    capsys.readouterr()
    assert main(["explore", run, "--checkpoints", "1"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_first_view_is_small():
    """The paper's network: page, index, one model, one checkpoint, under 3 MB."""
    page = sum(
        len((files("assignadd.page") / "built" / name).read_bytes()) for name in ("index.html", "app.js", "app.css")
    )
    assert page + len(script("m0", 30_000, initial_stack(PRESETS["paper"], [0]).weights)) < 1_000_000


def test_onsets_are_those_of_the_phases_and_spikes_name_the_checkpoints_beside_them():
    """Also of a skill that came at the very end: the page says no other step than `assignadd phases`."""
    spike = Spike(1000, 1500, 0.3, 1.0, 900, 1600)
    came = Onset(1000, 0, 1000), Onset(1500, 1000, 1500), Onset(2500, 1500, None)
    config = Member(0).config(PRESETS["smoke"])
    one = Network(initial_stack(config, [0]), config, pair_split(config.task, 0))
    one.steps = [0, 900, 1600, 3000]
    store_result(one, curves_of, Curves(np.array([0, 1000, 1500, 3000]), {}, 64))
    store_result(one, phases_of, Phases(*came, spike, None, True, None))
    found = phases_data(one, {"first": spike})
    assert found["onsets"] == {"addition": 1000, "binding": 1500, "refinement": 2500}
    assert found["spikes"] == [
        {"name": "first", "before": 1000, "after": 1500, "low": 0.3, "high": 1.0, "begin": 900, "end": 1600,
         "checkpoints": (900, 1600)}
    ]  # fmt: skip
    store_result(one, phases_of, Phases(came[0], None, None, None, None, False, None))
    assert phases_data(one, {}) == {"onsets": {"addition": 1000, "binding": None, "refinement": None}, "spikes": []}
    store_result(one, curves_of, Curves(np.array([3000]), {}, 64))  # one evaluation says what was learned, not when
    assert phases_data(one, {})["onsets"] == dict.fromkeys(("addition", "binding", "refinement"))


def test_labels_and_colours_are_those_of_the_package_s_tables():
    ours = data.package_tables()
    rows = {row["name"]: row for row in ours["measures"]}
    assert set(rows) == set(data.MEASURED) and len({row["family"] for row in rows.values()}) == 7
    for name, row in rows.items():
        measure = measure_of(name)
        assert (row["title"], row["unit"]) == (measure.label, measure.unit)
    assert rows["attn_l1_num_to_prev (2-var)"]["colour"] == palette.GREEN == ours["palette"]["green"]
    assert {s["name"]: s["label"] for s in ours["sets"]} == {s.name: s.label for s in ALL_SETS}


@pytest.mark.parametrize("setting", [{"hops": 1}, {"rebinding": 0.5}])
def test_a_task_that_the_page_cannot_show_is_refused_by_name(setting):
    data.require_shown(CONFIG)
    (name,) = setting
    with pytest.raises(ConfigError, match=rf"task\.{name} = .*: the page can show no other"):
        data.require_shown(replace(CONFIG, task=replace(CONFIG.task, **setting)))


def test_what_the_story_quotes_is_in_the_ledger_and_has_a_section():
    lines = {c.id for c in CLAIMS} | {f"{c.id}:{r.id}" for c in CLAIMS for r in c.readings}
    assert set(data.STORY_CLAIMS) <= lines
    sources = Path(data.__file__).parent / "web" / "src" / "story" / "sections.ts"
    assert set(data.STORY_CLAIMS.values()) <= set(re.findall(r'\bid: (?:told \? )?"(\w+)"', sources.read_text()))


def test_a_reading_of_a_claim_is_told_with_its_own_sentence():
    """For the hand-made network, whose neurons are waves, and which answers every double."""
    config = Member(0).config(PRESETS["paper"])
    one = Network(handmade(config), config, pair_split(config.task, 0), 200)
    told = {r["id"]: r for r in data.story_records(one, "assignadd explore x", Populations())}
    assert set(told) <= set(data.STORY_CLAIMS) and "every-seed-binds" not in told  # no population is given
    assert told["fourier-best-neuron:median"]["claim"] == "So is that of the median neuron."
    assert told["held-out-pairs-99.4:doubles"]["value"] == 1.0


def test_a_population_is_counted_seed_by_seed():
    found = population_data(Populations((made_up((5000, 12_000), (8000, None), (None, None)),)))
    assert found["sweeps"] == [] and (found["census"]["n"], found["census"]["bind"]) == (3, 2)
    skills = {skill["name"]: skill["steps"] for skill in found["census"]["skills"]}
    assert skills == {"addition": [1000, 1000, 1000], "binding": [5000, 8000], "refinement": [12_000]}
    assert population_data(Populations()) is None
