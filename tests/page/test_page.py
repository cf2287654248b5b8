"""The page from disk in a browser: numbers are read from data attributes, never from pixels."""

import json
import runpy
import shutil
from urllib.parse import quote

import pytest
import torch

from assignadd.interventions.apply import apply, reference_sequences
from assignadd.interventions.specification import specification
from assignadd.model.accuracy import Exam
from assignadd.page.folder import circuits
from assignadd.runs.folder import Run
from assignadd.task.evalsets import EVAL_SETS
from assignadd.task.examples import padded
from assignadd.task.splits import pair_split
from assignadd.task.text import parse, render
from tests.page.numbers import rounded
from tests.page.pages import CONFIG, HOSTILE, SPIKE, STEPS, states

TASK = CONFIG.task
SUM = "d=3, a=5, c=7, d+6=?"
CUT = [{"action": "cut", "layer": 2, "query": "equals", "key": "first_value"}]
SPECIFICATIONS = (
    CUT,
    [{"action": "zero", "hook": "blocks.0.hook_attn_out"}],
    [{"action": "mean", "hook": "blocks.1.hook_attn_out"}],
    [{"action": "resample", "hook": "blocks.1.hook_resid_mid"}],
    [{"action": "patch", "hook": "blocks.1.hook_resid_pre", "positions": ["first_value"], "source": "e=2, e+1=?"}],
    [{"action": "zero", "hook": "blocks.1.mlp.hook_post", "frequencies": [1, 2]}],
    [{"action": "pattern", "layer": 2, "query": "equals", "weights": {"first_value": 0.5, "second_value": 0.5}}],
)
# Changes nothing: `=` cannot look ahead. Added to every other specification, so that the page shows it has changed.
MARK = {"action": "cut", "layer": 1, "query": 0, "key": 5}
PANELS = ("circuit", "step", "break", "attention", "weights", "neurons", "training", "compare", "wall")


def address(**parts: object) -> str:
    return "&".join(f"{k}={quote(v if isinstance(v, str) else json.dumps(v))}" for k, v in parts.items())


def answer_of(page) -> dict[str, float]:
    found = page.locator("#says")
    return {name: float(found.get_attribute(f"data-{name}")) for name in ("prediction", "truth", "margin", "circuit")}


def saved(page, panel: str, kind: str) -> bytes:
    with page.expect_download() as download:
        page.locator(f"#{panel} .saves button", has_text=kind).click()
    return download.value.path().read_bytes()


def torch_answer(text: str, spec=(), step: int = STEPS[-1]) -> tuple[int, float]:
    """Prediction and margin by the package, on the rounded weights that the page has."""
    nothing, adds, whole = states()
    one = rounded(nothing if step < 500 else adds if step < SPIKE else whole)
    tokens = torch.tensor([[parse(text, TASK)]])
    logits = apply(one, tokens, specification(list(spec)), reference_sequences(one.config))[0, 0]
    truth = 9
    rest = torch.cat([logits[:truth], logits[truth + 1 :]])
    return int(logits.argmax()), float(logits[truth] - rest.max())


def test_typing_a_sum_answers_it(tab):
    page = tab()
    page.fill("#prompt", SUM)
    page.wait_for_selector(f"#ask[data-tokens='{' '.join(map(str, parse(SUM, TASK)))}']")
    found = answer_of(page)
    assert (found["prediction"], found["truth"], found["circuit"]) == (9, 9, 9)
    assert found["margin"] == pytest.approx(torch_answer(SUM)[1], abs=1e-3)
    badges = page.locator(".badges")
    assert badges.get_attribute("data-vars") == "1" and badges.get_attribute("data-banned") == ""


def test_a_held_out_pair_is_named_by_its_class(tab):
    page, seen = tab(), pair_split(TASK, 0)
    kinds = {
        "seen pair": seen,
        "held out, other order seen": ~seen & seen.T,
        "held out in both orders": ~seen & ~seen.T,
    }
    kinds["held out in both orders"] = torch.triu(kinds["held out in both orders"], 1)
    kinds["held-out double"] = torch.diag(~seen.diag())
    for words, pairs in kinds.items():
        n, m = pairs.nonzero()[0].tolist()
        page.fill("#prompt", f"a=1, {n}+{m}=?")
        page.get_by_text(f"{n} + {m}: {words}", exact=True).wait_for()


def test_errors_stand_under_the_character_at_fault(tab):
    page = tab()
    page.fill("#prompt", "d=3, d+99=?")
    page.wait_for_selector("#ask[data-error='8']")
    assert page.locator("#prompt").get_attribute("aria-invalid") == "true"
    assert page.locator(".error .caret").text_content() == " " * 7 + "▲"
    page.fill("#prompt", SUM)
    page.wait_for_selector("#ask:not([data-error])")


def test_what_cannot_be_read_has_no_answer(tab):
    """The panels show the last prompt that could be read, dimmed, and the page says so."""
    page = tab(address(p=SUM))
    assert page.locator(".stale").count() == 0 and page.locator("#says").get_attribute("data-stale") == "false"
    page.fill("#prompt", "d=3, d+")
    page.wait_for_selector("#says[data-stale=true]")
    assert "no answer" in page.locator("#says").text_content() and page.locator(".badges").count() == 0
    assert page.locator("#circuit .stale").count() == 1 and page.locator("#step .stale").count() == 1
    page.fill("#prompt", SUM)
    page.wait_for_selector("#says[data-stale=false]")
    assert page.locator(".stale").count() == 0


def test_two_numbers_alone_are_a_prompt(tab):
    page = tab()
    page.fill("#prompt", "4+6=?")
    page.wait_for_selector("#ask:not([data-error])")
    assert answer_of(page)["prediction"] == 10
    assert "a=0, 4+6=?" in page.locator("#prompt-error").text_content()


def test_token_boxes_are_edited(tab):
    page = tab(address(p=SUM))
    page.get_by_text("Tokens, one by one").click()
    tokens = parse(SUM, TASK)
    page.get_by_label("Token 10", exact=True).fill("8")
    page.keyboard.press("Enter")
    page.get_by_label("Token 10", exact=True).blur()
    wanted = [*tokens[:10], 8, tokens[11]]
    page.wait_for_selector(f"#ask[data-tokens='{' '.join(map(str, wanted))}']")
    assert page.input_value("#prompt") == render(wanted, TASK)
    assert answer_of(page)["prediction"] == 11


def test_a_list_of_tokens_is_shown_as_text_with_its_padding(tab):
    tokens = ". d 3 . a 5 c 7 + d 6 ="
    page = tab(address(p=tokens))
    assert page.locator("#ask").get_attribute("data-tokens") == " ".join(map(str, parse(tokens, TASK)))
    assert page.input_value("#prompt") == SUM
    page.wait_for_function("() => new URLSearchParams(location.hash.slice(1)).get('r') === '1.1.0.0'")
    again = page.evaluate("location.hash")
    assert tab(again.removeprefix("#")).locator("#ask").get_attribute("data-tokens") == " ".join(
        map(str, parse(tokens, TASK))
    )
    page.fill("#prompt", "e 1 d 2 . . + e 4 =")
    page.locator("#prompt").press("Tab")
    page.wait_for_function("() => document.getElementById('prompt').value === 'e=1, d=2, e+4=?'")


def test_back_and_forward_go_through_prompts_cuts_networks_and_sections(tab):
    page = tab(address(p=SUM))
    page.wait_for_timeout(300)
    page.locator(".chips[aria-label=Examples] .chip").nth(1).click()
    example = page.input_value("#prompt")
    page.wait_for_timeout(300)
    page.locator("#circuit [data-edge]").first.dispatch_event("click")
    page.get_by_role("button", name="Cut this edge").click()
    page.wait_for_timeout(300)
    page.locator(".top .picker select").select_option("m1")
    page.wait_for_timeout(300)
    page.get_by_label("Training step").focus()
    page.keyboard.press("ArrowLeft")  # the step is not a place of its own
    page.wait_for_timeout(300)
    page.get_by_role("button", name="Read the story").click()
    page.wait_for_selector("#story[data-at='0']")
    page.wait_for_timeout(300)
    page.locator("article.told footer .primary").click()
    page.wait_for_selector("#story[data-at='1']")
    page.wait_for_timeout(300)

    def is_at(story: str | None, prompt: str | None, changes: str | None, network: str | None) -> None:
        if story is not None:
            page.wait_for_selector(f"#story[data-at='{story}']")
            assert page.evaluate("document.activeElement.textContent") == page.text_content("article.told h2")
            return
        page.wait_for_selector(f"#break .changes[data-count='{changes}']")
        page.wait_for_function("n => document.querySelector('.top .picker select').value === n", arg=network)
        page.wait_for_function("p => document.getElementById('prompt').value === p", arg=prompt)

    places = [
        (None, SUM, "0", "m0"), (None, example, "0", "m0"), (None, example, "1", "m0"), (None, example, "1", "m1"),
        ("0", None, None, None), ("1", None, None, None),
    ]  # fmt: skip
    for place in reversed(places[:-1]):
        page.go_back()
        is_at(*place)
    for place in places[1:]:
        page.go_forward()
        is_at(*place)


def test_a_change_does_not_overwrite_an_address_that_is_about_to_be_read(tab):
    """On a busy machine a change is due after Back or Forward has changed the address and before its event comes."""
    page = tab(address(p=SUM))
    page.wait_for_timeout(300)
    page.evaluate("hash => history.replaceState(null, '', hash)", "#" + address(p="e=1, d=2, e+4=?"))
    page.get_by_label("Training step").focus()
    page.keyboard.press("ArrowLeft")
    page.wait_for_timeout(300)
    page.evaluate("window.dispatchEvent(new HashChangeEvent('hashchange'))")
    page.wait_for_function("() => document.getElementById('prompt').value === 'e=1, d=2, e+4=?'")


def test_a_prompt_is_stepped_through(tab):
    page = tab(address(p=SUM))
    page.get_by_role("button", name="Step through this prompt").click()
    said = []
    for step in range(6):
        page.wait_for_selector(f".flow[data-reached='{step}']")
        said.append(page.text_content(".flow [role=status]"))
        later = page.locator("#circuit .edge.later").count()
        assert (later > 0) == (step < 3)
        if step < 5:
            page.get_by_role("button", name="Next step").click()
    assert "3 gives" in said[1] and "to d" in said[1] and "to 3" in said[3] and "highest at 9" in said[5]
    page.get_by_role("button", name="Show all").click()
    assert page.locator("#circuit .later").count() == 0


def test_padding_is_rolled_as_the_package_rolls_it(tab):
    page = tab(address(p=SUM, r="17"))
    assert page.locator("#ask").get_attribute("data-tokens") == " ".join(map(str, padded(parse(SUM, TASK), TASK, 17)))
    before = page.locator("#ask").get_attribute("data-tokens")
    page.get_by_text("Tokens, one by one").click()
    for _ in range(3):  # a roll may fall as the one before
        page.get_by_role("button", name="Re-roll padding").click()
    page.wait_for_timeout(200)
    after = page.locator("#ask").get_attribute("data-tokens")
    assert sorted(before.split()) == sorted(after.split()) and answer_of(page)["prediction"] == 9


def test_hostile_text_never_becomes_markup(tab):
    page = tab(address(p="<img src=x onerror=alert(1)>"))
    page.fill("#prompt", '"><script>alert(2)</script>')
    page.wait_for_selector("#ask[data-error]")
    assert page.locator("#app img, #app script").count() == 0
    assert f"{HOSTILE[:17]}…" in page.locator("#wall").text_content()
    spec = [{"action": "swap", "component": "mlp2", "run": "<b>bold</b>", "step": 0}]
    page = tab(address(i=spec))
    assert "<b>bold</b>" in page.locator(".change .what").text_content() and page.locator(".change b").count() == 0


def test_the_slider_moves_every_panel(tab):
    page = tab(address(p=SUM))
    slider = page.get_by_label("Training step")
    slider.focus()
    slider.press("Home")
    page.wait_for_selector("#timeline[data-step='0'][data-loaded=yes]")
    for _ in range(2):
        slider.press("ArrowRight")
    page.wait_for_selector("#timeline[data-step='1000'][data-loaded=yes]")
    prediction, margin = torch_answer(SUM, step=1000)
    found = answer_of(page)
    assert found["prediction"] == prediction != 9 and found["margin"] == pytest.approx(margin, abs=1e-3)
    page.get_by_label("1st spike: jump to just after it").click()
    page.wait_for_selector(f"#timeline[data-step='{SPIKE}'][data-loaded=yes]")
    assert answer_of(page)["prediction"] == 9
    shown = page.locator("[data-chart='1-var train'] [data-value]").get_attribute("data-value")
    assert float(shown) == 1.0


def test_playing_moves_on(tab):
    page = tab(address(s="0"))
    page.evaluate(
        "() => { window.steps = []; const dock = document.getElementById('timeline');"
        "new MutationObserver(() => steps.push(Number(dock.dataset.step)))."
        "observe(dock, { attributeFilter: ['data-step'] }); }"
    )
    page.get_by_label("Play training").click()
    page.wait_for_function("last => steps.at(-1) === last", arg=STEPS[-1])
    assert page.evaluate("steps") == list(STEPS[1:])
    page.wait_for_selector("[aria-label='Play training']")  # it stops at the end


def test_interventions_answer_as_the_package_does(tab):
    page = tab(address(p=SUM))
    for i, spec in enumerate(SPECIFICATIONS):
        page.evaluate("h => { location.hash = h; }", address(p=SUM, i=[*spec, MARK] if i % 2 else spec))
        page.wait_for_selector(f"#break .changes[data-count='{1 + i % 2}']")
        page.wait_for_timeout(60)
        prediction, margin = torch_answer(SUM, spec)
        found = answer_of(page)
        assert found["prediction"] == prediction and found["margin"] == pytest.approx(margin, abs=2e-3), spec


def test_interventions_are_added_counted_and_taken_back(tab):
    page = tab(address(p=SUM))
    page.wait_for_selector("#break [data-before='1']")
    page.get_by_role("form", name="New intervention").get_by_role("button", name="Add").click()
    page.wait_for_selector("#break .change[data-accuracy]")
    after = float(page.locator("#break [data-after]").first.get_attribute("data-after"))
    assert after < 0.4 and float(page.locator(".change").get_attribute("data-accuracy")) == after
    assert answer_of(page)["prediction"] != 9
    page.get_by_role("button", name="Undo").click()
    page.wait_for_selector("#break .changes[data-count='0']")
    assert answer_of(page)["prediction"] == 9
    page.locator("body").press("Control+Shift+z")
    page.wait_for_selector("#break .changes[data-count='1']")
    page.get_by_label("Take back: cut layer 2: = → first value").click()
    page.wait_for_selector("#break .changes[data-count='0']")


def test_the_accuracy_under_a_cut_is_the_package_s(tab, page_folder):
    page = tab(address(i=CUT))
    page.wait_for_selector("#break .change[data-accuracy]")
    page.wait_for_selector("#break[data-ready=yes] .change[data-accuracy]")
    shown = json.loads(saved(page, "break", "JSON"))["data"]["accuracy"]["after"]
    one = rounded(states()[2])
    config = one.config
    exam = Exam([config], pair_split(config.task, 0)[None], EVAL_SETS, 57)
    guesses = apply(one, exam.tokens[:, :512], specification(CUT), reference_sequences(config))[0].argmax(-1)
    assert shown["n"] == 512 and shown["right"] == int((guesses == exam.labels[0, :512]).sum())


def test_an_edge_is_read_before_it_is_cut(tab):
    page = tab(address(p=SUM))
    edge = page.locator("#circuit [data-edge^='2,11,']").first
    weight, effect = (float(edge.get_attribute(f"data-{name}")) for name in ("weight", "effect"))
    edge.dispatch_event("click")
    button = page.get_by_role("button", name="Cut this edge")
    button.wait_for()
    assert page.locator("#break .changes").get_attribute("data-count") == "0"  # nothing is cut by looking
    assert f"{100 * weight:.1f}\u00a0%" in page.locator("#circuit .readout").text_content()
    before = answer_of(page)["margin"]
    button.click()
    page.wait_for_selector("#break .changes[data-count='1']")
    assert before - answer_of(page)["margin"] == pytest.approx(effect, abs=1e-3)
    page.get_by_role("button", name="Restore this edge").click()
    page.wait_for_selector("#break .changes[data-count='0']")


def test_nodes_open_their_computation(tab):
    page = tab(address(p=SUM))
    page.locator("#circuit [aria-label^='Layer 2 at =']").dispatch_event("click")
    page.get_by_role("heading", name="Step: layer 2, what = attends to").wait_for()
    weights = page.eval_on_selector_all("#step [data-weight]", "all => all.map(bar => Number(bar.dataset.weight))")
    assert len(weights) == TASK.length and sum(weights) == pytest.approx(1, abs=1e-4)
    page.locator("#circuit [aria-label^='MLP']").dispatch_event("click")
    page.locator("#step [data-part^='frequency']").first.wait_for()
    page.get_by_role("button", name="Remove frequency").first.click()
    page.wait_for_selector("#break .changes[data-count='1']")
    assert "frequency" in page.locator(".change .what").text_content()


def test_expected_edges_are_ticked_or_crossed(tab):
    page = tab(address(p=SUM))
    ticks = page.locator("#circuit .verdict")
    assert ticks.count() == 7 and page.locator("#circuit .verdict.fails").count() == 0
    page = tab(address(p=SUM, m="m1"))
    assert page.locator("#circuit .verdict.fails[data-layer='2']").count() >= 1


def test_what_the_package_refuses_is_refused_in_its_words(tab):
    spec = [{"action": "zero", "hook": "blocks.1.mlp.hook_post", "neurons": [99999]}, *CUT]
    page = tab(address(p=SUM, i=spec))
    assert "expected neurons from 0 to" in page.locator(".change").first.text_content()
    prediction, margin = torch_answer(SUM, CUT)
    assert answer_of(page)["margin"] == pytest.approx(margin, abs=2e-3) and answer_of(page)["prediction"] == prediction
    page.get_by_role("form", name="New intervention").get_by_role("button", name="Add").click()
    assert "in the list already" in page.get_by_role("alert").text_content()
    assert page.locator("#break .changes").get_attribute("data-count") == "2"


def test_a_prompt_that_both_networks_read_stays(tab):
    page = tab(address(p=SUM))
    page.locator(".top .picker select").select_option("m1")
    page.wait_for_selector(".picker[data-ready=yes]")
    assert page.input_value("#prompt") == SUM


def test_a_comparison_applies_the_interventions_to_both(tab):
    page = tab(address(p=SUM, c="m0@3000", i=CUT))
    page.wait_for_selector("#compare[data-ready=yes]")
    own, other = (page.locator("#compare [data-own]").get_attribute(f"data-{side}") for side in ("own", "other"))
    assert own == other == str(torch_answer(SUM, CUT)[0])
    assert "applied to both" in page.locator("#compare .lead").text_content()


def test_the_address_holds_the_whole_state(tab):
    page = tab(
        address(m="m1", s="1000", p=SUM, r="5", i=CUT, c="m0@3000", q="scores", g="1@11", n="4", o="share", d="dark")
    )
    page.wait_for_timeout(400)
    first = page.evaluate("location.hash")
    page.get_by_role("button", name="Weights", exact=True).click()
    page.wait_for_function("() => location.hash.includes('q=') === false")
    page.get_by_role("button", name="Scores", exact=True).click()
    page.wait_for_function("h => location.hash === h", arg=first)
    page = tab(first.removeprefix("#"))
    page.wait_for_timeout(400)
    assert page.evaluate("location.hash") == first
    assert page.locator("#timeline").get_attribute("data-step") == "1000"
    assert page.locator("#compare [data-other]").get_attribute("data-other") is not None
    assert page.locator("html").get_attribute("data-theme") == "dark"
    assert page.get_by_role("heading", name="Step: layer 1, what = attends to").count() == 1


def test_a_broken_address_is_put_right(tab):
    page = tab("m=nobody&s=-1&i=[{&n=x&q=<b>&c=m9@7&g=7@99")
    assert page.locator("#timeline").get_attribute("data-step") == str(STEPS[-1])


# Keeps what would be saved, instead of a download for each: [[name, text], ...], a PNG as its first bytes.
KEEP = """() => {
  window.kept = [];
  const make = URL.createObjectURL;
  URL.createObjectURL = blob => { window.last = blob; return make(blob); };
  HTMLAnchorElement.prototype.click = function () {
    const [name, blob] = [this.download, window.last];
    blob.text().then(text => window.kept.push([name, name.endsWith(".png") ? text.slice(1, 4) : text]));
  };
}"""


def test_panels_save_what_they_draw(tab):
    page = tab(address(p=SUM, c="m1@3000", i=CUT))
    page.evaluate(KEEP)
    for panel in PANELS:
        page.wait_for_selector(f"#{panel}[data-ready=yes]")
        page.evaluate(
            "panel => document.querySelectorAll(`#${panel} .saves button`).forEach(button => button.click())", panel
        )
    page.wait_for_function("n => window.kept.length === n", arg=3 * len(PANELS))
    kept = dict(page.evaluate("window.kept"))
    files = {panel: json.loads(kept[f"assignadd-{panel}.json"]) for panel in PANELS}
    numbers = {panel: file["data"] for panel, file in files.items()}
    for panel in PANELS:
        svg, made = kept[f"assignadd-{panel}.svg"], files[panel]
        assert (made["run"], made["seed"], made["step"], made["interventions"]) == (HOSTILE, 0, STEPS[-1], CUT)
        assert "seed 0, step 3,000" in svg and "cut layer 2" in svg  # what the image was made from
        assert kept[f"assignadd-{panel}.png"] == "PNG"
        assert svg.startswith("<svg") and "var(--" not in svg and "<script" not in svg
    assert "first operand" in kept["assignadd-circuit.svg"]  # its legend
    bars = page.eval_on_selector_all("#step rect[data-p]", "all => all.map(bar => Number(bar.dataset.p))")
    assert numbers["step"]["probabilities"] == bars
    assert numbers["step"]["prediction"] == answer_of(page)["prediction"]
    edges = page.eval_on_selector_all("#circuit [data-edge]", "all => all.map(edge => Number(edge.dataset.weight))")
    weights = {w for layer in numbers["attention"]["layers"] for row in layer["weights"] for w in row}
    assert set(edges) <= weights and len(edges) >= 7
    shown = page.locator("#neurons .neurons").get_attribute("data-frequencies")
    assert " ".join(map(str, numbers["neurons"]["frequencies"])) == shown
    sets = page.eval_on_selector_all(
        "#break g[data-set]", "all => all.map(set => [set.dataset.set, Number(set.dataset.after)])"
    )
    assert sets == [[s["name"], s["right"] / s["n"]] for s in numbers["break"]["accuracy"]["after"]["bySet"]]
    points = page.eval_on_selector_all(
        "#training [data-chart='0-var train'] [data-value]", "all => all.map(p => Number(p.dataset.value))"
    )
    assert points == [numbers["training"]["accuracies"]["values"]["0-var train"][-1]]
    exact = {name: torch.tensor(matrix) for name, matrix in circuits(rounded(states()[2]).weights).items()}
    table = torch.cat([exact["W_E"], exact["W_pos"]])
    assert torch.allclose(
        torch.tensor(numbers["weights"]["qk1"]).float(), table @ exact["QK1"] @ table.T, atol=1e-2, rtol=1e-3
    )


def test_a_narrow_screen_shows_the_answer_and_does_not_scroll_sideways(tab):
    page = tab(address(p=SUM, c="m1@3000"), width=390)
    assert page.evaluate("document.getElementById('says').getBoundingClientRect().bottom") < 700
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.evaluate("[...document.querySelectorAll('.panel')].every(p => p.scrollWidth <= p.clientWidth + 1)")
    assert answer_of(page)["prediction"] == 9


# What can be pressed and is smaller than 24 pixels either way; words within a sentence may be (WCAG 2.5.8).
SMALL = """() => [...document.querySelectorAll("button, a, select, input, summary, [role=button]:not(.edge)")]
  .filter(e => e.checkVisibility() && !e.matches("p a, li.badge button, button.term, button.link, .sr"))
  .map(e => [e.getAttribute("aria-label") ?? e.textContent, e.getBoundingClientRect()])
  .filter(([_, box]) => box.width > 0 && (box.width < 23.9 || box.height < 23.9))
  .map(([name, box]) => `${name}: ${box.width} x ${box.height}`)"""


@pytest.mark.parametrize("part", [{"c": "m1@3000", "i": CUT}, {"t": "4"}, {"t": "9"}])
@pytest.mark.parametrize(("width", "height"), [(390, 844), (720, 450)])
def test_narrow_or_at_double_zoom_nothing_is_cut_off_or_too_small(tab, part, width, height):
    page = tab(address(p=SUM, **part), width=width)
    page.set_viewport_size({"width": width, "height": height})
    page.wait_for_selector("#circuit[data-ready=yes]")
    page.wait_for_timeout(200)
    assert page.evaluate(SMALL) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize(("width", "height"), [(390, 844), (720, 450)])
def test_the_story_never_covers_the_figure(tab, width, height):
    page = tab(address(t="2"), width=width)
    page.set_viewport_size({"width": width, "height": height})
    page.wait_for_selector("#circuit[data-ready=yes]")
    assert page.locator("#story article:visible").count() == 1
    bottom, top = page.evaluate(
        "[document.getElementById('story').getBoundingClientRect().bottom,"
        " document.querySelector('.stage').getBoundingClientRect().top]"
    )
    assert bottom <= top + 1


def test_the_policy_of_the_page_allows_what_it_ships_and_nothing_else(browser, page_folder):
    """Also from disk and on any host, as it is in the page itself."""
    assert "default-src 'none'; script-src 'self'" in (page_folder / "index.html").read_text()
    page, refused = browser.new_page(), []
    page.on("console", lambda m: refused.append(m.text) if "Content Security Policy" in m.text else None)
    page.goto(f"{page_folder.as_uri()}/index.html")
    page.wait_for_selector("#says[data-stale=false]")
    assert refused == []
    page.evaluate(
        """async () => {
            const script = text => {
                const s = document.createElement("script");
                Object.assign(s, text);
                document.head.append(s);
            };
            script({textContent: "window.owned = 1"});
            script({src: "data:text/javascript,window.owned=1"});
            await fetch("data/index.js").catch(() => {});
            const frame = document.createElement("iframe");
            frame.src = "data:text/html,hello";
            document.body.append(frame);
        }"""
    )
    assert page.evaluate("window.owned") is None and len(refused) >= 4
    page.close()


def test_a_page_whose_files_are_missing_says_so(browser, page_folder, tmp_path):
    copy = tmp_path / "page"
    shutil.copytree(page_folder, copy)
    (copy / "data" / "m0" / "00003000.js").unlink()
    page = browser.new_page()
    page.goto(f"{copy.as_uri()}/index.html")
    assert "data/m0/00003000.js" in page.get_by_role("alert").text_content()
    page.close()


def test_python_that_the_page_copies_runs(tab, page_folder, tmp_path, capsys):
    page = tab(address(p=SUM, i=CUT))
    page.evaluate("navigator.clipboard.writeText = text => { window.copied = text; return Promise.resolve(); }")
    page.get_by_role("button", name="Copy Python").click()
    script = page.evaluate("window.copied")
    run = Run.open(page_folder.parent / HOSTILE)
    script = script.replace("open_run(", f"open_run({str(run.path.parent)!r} + '/' + ")
    (tmp_path / "copied.py").write_text(script)
    runpy.run_path(str(tmp_path / "copied.py"))
    assert int(capsys.readouterr().out) == answer_of(page)["prediction"]
