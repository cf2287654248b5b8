"""The page for every reader: axe-core on every panel, the keyboard alone, the story, two tasks in one page."""

import json

import pytest
import torch

from assignadd.config import Config, Member, Optim, Recording, Task
from assignadd.model.accuracy import Exam
from assignadd.model.handmade import handmade
from assignadd.network import Network, networks_of
from assignadd.page.export import export
from assignadd.runs.folder import Run
from assignadd.runs.writer import Writer
from assignadd.task.evalsets import EVAL_SETS
from assignadd.task.splits import pair_split
from tests.axe import AXE, axe_problems
from tests.page.pages import CONFIG, HERE, HOSTILE, SPIKE, STEPS, accuracies
from tests.page.test_page import CUT, SUM, address, answer_of

OTHER = Config(
    task=Task(modulus=7, n_vars=3, length=8, max_assignments=2, banned_first="a", banned_second="b"),
    optim=Optim(steps=10),
    record=Recording(eval_sequences=16),
)


@pytest.mark.skipif(
    not AXE.is_file(), reason="no Node packages for the page's sources; `make explorer-web` installs them"
)
@pytest.mark.parametrize(("theme", "width"), [("light", 1280), ("dark", 390)])
def test_axe_finds_nothing(tab, theme, width):
    """On every panel with attention as the step, then on the MLP's step beside the story."""
    page = tab(address(p=SUM, i=CUT, c="m1@3000", g="2@11", q="scores", d=theme), width=width)
    page.wait_for_selector("#compare[data-ready=yes]")
    assert axe_problems(page) == []
    page = tab(address(t="4", d=theme), width=width)
    page.wait_for_selector("#step [data-part]")
    assert axe_problems(page) == []


CUT_OFF = """() => [...document.querySelectorAll("svg.figure")].flatMap((figure) => {
  const outer = figure.getBoundingClientRect();
  const isOutside = ({ left, right, top, bottom }) =>
    left < outer.left - 1 || right > outer.right + 1 || top < outer.top - 1 || bottom > outer.bottom + 1;
  return [...figure.querySelectorAll("text")].filter((t) => t.textContent && isOutside(t.getBoundingClientRect()))
    .map((t) => `${figure.getAttribute("aria-label")}: ${t.textContent}`);
})"""


@pytest.mark.parametrize("width", [1440, 1280, 390])
def test_no_word_of_a_figure_is_cut_off(tab, width):
    page = tab(address(p=SUM, i=CUT, c="m1@3000"), width=width)
    page.wait_for_selector("#compare[data-ready=yes]")
    assert page.evaluate("document.querySelectorAll('svg.figure text').length") > 100
    assert page.evaluate(CUT_OFF) == []


def test_a_network_that_does_not_bind_is_not_said_to(tab):
    page = tab(address(m="m1"))
    assert "does not look them up" in page.locator(".tagline").text_content()
    assert "does not bind" in page.locator("#training .lead").text_content()
    page.locator(".top .picker select").select_option("m0")
    page.wait_for_function(
        "() => document.querySelector('.tagline').textContent.includes('has learned to look variables up')"
    )


def focused(page) -> str:
    return page.evaluate("document.activeElement.getAttribute('aria-label') ?? document.activeElement.textContent")


def tab_to(page, words: str, most: int = 200) -> None:
    for _ in range(most):
        page.keyboard.press("Tab")
        if words in focused(page):
            return
    raise AssertionError(f"no {words!r} within {most} tabs")


def test_the_keyboard_alone_asks_cuts_undoes_reads_and_saves(tab):
    page = tab(address(p=SUM))
    page.locator("#prompt").focus()
    page.keyboard.press("Control+a")
    page.keyboard.type("d=2, a=5, c=7, d+6=?")
    page.wait_for_selector("#says[data-prediction='8']")
    tab_to(page, "Layer 2: = at 11 attends to 2")
    page.keyboard.press(" ")
    page.wait_for_function("() => document.activeElement.textContent.includes('Cut this edge')")
    assert page.locator("#break .changes").get_attribute("data-count") == "0"
    page.keyboard.press("Enter")
    page.wait_for_selector("#break .changes[data-count='1']")
    page.keyboard.press("Control+z")
    page.wait_for_selector("#break .changes[data-count='0']")
    tab_to(page, "Attention of layer 1")
    before = page.locator("#attention .readout").text_content()
    page.keyboard.press("ArrowRight")
    page.wait_for_function("old => document.querySelector('#attention .readout').textContent !== old", arg=before)
    tab_to(page, "seed 1")
    page.keyboard.press("Enter")
    page.wait_for_function("() => document.querySelector('.top .picker select').value === 'm1'")
    page.get_by_label("Training step").focus()
    page.keyboard.press("Home")
    page.wait_for_selector("#timeline[data-step='0'][data-loaded=yes]")
    page.locator("#circuit .saves button", has_text="JSON").focus()
    with page.expect_download() as download:
        page.keyboard.press("Enter")
    assert json.loads(download.value.path().read_bytes())["seed"] == 1


def test_every_panel_is_reached_by_keyboard_and_everything_has_a_name(tab):
    page = tab()
    reached: set[str] = set()
    for _ in range(260):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.closest('section[id]')?.id"))
        if "timeline" in reached:
            break
    panels = set(page.eval_on_selector_all("section.panel", "all => all.map(p => p.id)"))
    assert len(panels) == 9 and panels | {"ask", "timeline"} <= reached
    assert page.locator("h1").count() == 1


def test_the_story_drives_the_page_and_gives_it_back(tab):
    page = tab(address(p=SUM, i=CUT, s="1000"))
    before = answer_of(page)
    page.get_by_role("button", name="Read the story").click()
    titles = []
    for i in range(20):
        page.wait_for_selector(f"#story[data-at='{i}']")
        page.wait_for_timeout(60)
        titles.append(page.locator("article.told h2").text_content())
        assert (
            page.locator("article.told :is(p, li)").count() >= 3
            and "NaN" not in page.locator("article.told").text_content()
        )
        if page.locator("article.told footer .primary").text_content() != "Next →":
            break
        page.locator("article.told footer .primary").press("Enter")
    assert 8 <= len(titles) <= 10 and titles[0] == "Can it?" and "Does every seed learn it?" in titles
    ending = page.locator("article.told")
    assert ending.locator("h3").all_text_contents() == [
        "What is open", "What to read", "How to cite", "Where to go on"
    ] and "arXiv" in ending.locator("pre").text_content()  # fmt: skip
    page.locator("#story").press("Escape")
    page.wait_for_selector("#story", state="detached")
    page.wait_for_selector("#timeline[data-step='1000']")
    assert page.input_value("#prompt") == SUM and answer_of(page) == before
    page.wait_for_function("() => document.activeElement.id === 'story-button'")


def test_scrolling_the_story_moves_the_page(tab):
    page = tab(address(t="2"))
    page.wait_for_selector("#story[data-at='2']")
    page.wait_for_timeout(500)  # sentences that arrive above do not move it
    assert page.locator("#story").get_attribute("data-at") == "2"
    page.mouse.move(200, 400)
    page.mouse.wheel(0, 3000)
    page.wait_for_function("() => Number(document.getElementById('story').dataset.at) > 2")
    at = int(page.locator("#story").get_attribute("data-at"))
    assert page.locator("article.told").get_attribute("data-section") == str(at)


def test_the_story_s_sentences_are_those_of_the_networks(tab):
    """Seed 1 does not bind, and its page has no census: nothing is said of a population, and its own numbers are."""
    page = tab(address(t="6"))
    page.wait_for_selector("article.told")
    said = page.locator("#story").text_content()
    assert f"first spike between steps {SPIKE - 500:,} and {SPIKE:,}" in said
    assert "does not" in page.locator("#story article", has_text="Does every seed learn it?").text_content()
    assert "160" not in said and "131" not in said


def test_the_story_quotes_each_claim_in_its_section(tab, page_folder):
    from tests.page.test_export import argument

    ledger = argument(page_folder / "data" / "index.js")["ledger"]
    page = tab(address(t="0"))
    page.wait_for_selector("article.told")
    shown = page.eval_on_selector_all(
        "#story [data-claim]", "all => all.map(c => [c.dataset.claim, c.closest('article').querySelector('h2').id])"
    )
    assert shown == [[r["id"], f"story-{r['section']}"] for r in ledger] and len(shown) > 5


@pytest.fixture(scope="module")
def two_tasks(tmp_path_factory, page_folder):
    """A page of the tests' networks and of one of another task, with a single checkpoint."""
    folder = tmp_path_factory.mktemp("two")
    whole = handmade(OTHER)
    seen = torch.stack([pair_split(OTHER.task, 0)])
    found = accuracies(Exam([whole.config], seen, EVAL_SETS, OTHER.record.eval_sequences), whole)
    row = {"step": 10, "model": 0, "seed": 0, "loss": 1.0, "diverged_at": None, "accuracy": found}
    with Writer.hold(folder / "other", whole.config, (Member(0),), seen, HERE) as run:
        run.commit(10, state={}, checkpoint=whole, rows=[row], finished=True)
    runs = [Run.open(page_folder.parent / HOSTILE), Run.open(folder / "other")]
    return export(all_networks(runs), folder / "page", "", ledger=False)


def all_networks(runs: list[Run]) -> list[Network]:
    """The networks of these runs, tested on few sequences."""
    return [network for run in runs for network in networks_of(run, n=16)[0]]


def test_networks_of_different_tasks_are_never_mixed(browser, two_tasks):
    page = browser.new_page()
    page.goto(f"{two_tasks.as_uri()}#{address(p=SUM, c='m2@10')}")
    page.wait_for_selector("#says[data-ready=yes]")
    assert "has another task than" in page.locator("#compare [role=alert]").text_content()
    options = page.locator("#compare option[value=m2]")
    assert options.get_attribute("disabled") is not None and "NaN" not in page.locator("main").text_content()
    swap = [{"action": "swap", "component": "qk2", "run": "other", "step": 10}]
    page.goto("about:blank")
    page.goto(f"{two_tasks.as_uri()}#{address(p=SUM, i=swap)}")
    page.wait_for_selector("#says[data-ready=yes]")
    assert "other, seed 0 has another task" in page.locator(".change").text_content()
    assert answer_of(page)["prediction"] == 9  # nothing was swapped
    page.locator(".top .picker select").select_option("m2")
    page.wait_for_selector(".picker[data-ready=yes]")
    page.wait_for_selector("#ask:not([data-error])")
    assert answer_of(page)["prediction"] == answer_of(page)["truth"]
    # One checkpoint: nothing to play, no training, no wall; and no other network of its task to compare with.
    assert page.locator("#timeline, #training, #wall, #compare, #population").count() == 0
    page.close()


def test_the_story_of_a_network_with_one_checkpoint_shows_training_with_another(browser, two_tasks, page_folder):
    """The first run's task has the story; of the other task is the network whose training is told, by its name."""
    folder = two_tasks.parents[1]
    runs = [Run.open(folder / "other"), Run.open(page_folder.parent / HOSTILE)]
    page = browser.new_page()
    index = export(all_networks(runs), folder / "turned", "", ledger=False)
    page.goto(f"{index.as_uri()}#{address(t='0')}")
    page.wait_for_selector("#story")
    titles = page.locator("#story article h2").all_text_contents()
    said = page.locator("#story article", has_text="When does it learn this?").text_content()
    assert f"Another one is here at {len(STEPS)} moments of its training: seed 0 of {HOSTILE}" in said
    assert page.locator("#timeline").count() == 0  # of the story's own network
    page.goto("about:blank")
    page.goto(
        f"{(folder / 'turned' / 'index.html').as_uri()}#{address(t=str(titles.index('When does it learn this?')))}"
    )
    page.wait_for_selector("#curve [data-value]")
    page.wait_for_selector("#timeline")
    panels = page.eval_on_selector_all(".stage section.panel", "all => all.map(panel => panel.id)")
    assert panels == ["circuit", "curve"]
    page.close()


def test_the_page_carries_the_answers_of_its_task(page_folder):
    from tests.page.test_export import argument, whole_numbers

    (task,) = argument(page_folder / "data" / "index.js")["tasks"]
    N = CONFIG.task.modulus
    assert whole_numbers(task["answers"]) == [(n + m) % N for n in range(N) for m in range(N)]
    assert task["operator"] == "+"
