"""The report in a real browser: nothing fails or is fetched, tables sort, pictures have size, also on a phone."""

from pathlib import Path

import pytest

from tests.axe import AXE, axe_problems
from tests.report.records import RECORDS

COLUMNS = ("claim", "verdict", "paper", "measured", "n", "seeds", "where")


@pytest.fixture(scope="module")
def whole(browser, report):
    """The report on a desktop's screen, with what it complained of and what it asked for; only read in tests."""
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.problems, page.requests = [], []
    page.on("console", lambda message: page.problems.append(message.text))
    page.on("pageerror", lambda error: page.problems.append(str(error)))
    page.on("dialog", lambda dialog: page.problems.append(dialog.message) or dialog.dismiss())
    page.on("request", lambda request: page.requests.append(request.url))
    page.goto(report.index.as_uri())
    yield page
    page.close()


@pytest.fixture(scope="module")
def unfolded(browser, report):
    """The report with everything unfolded, whose window and colours a test may change; axe may be put into it."""
    page = browser.new_page(bypass_csp=True)
    page.goto(report.index.as_uri())
    # Without their common name, as otherwise only one claim would be open.
    page.locator("details").evaluate_all("all => all.forEach(d => { d.removeAttribute('name'); d.open = true; })")
    yield page
    page.close()


@pytest.fixture
def opened(browser, short_report):
    """A page of its own for each test, with every claim and few pictures."""
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.goto(short_report.index.as_uri())
    yield page
    page.close()


def ids(page) -> list[str]:
    """Claims in the order shown."""
    rows = page.locator("table[data-sortable] tbody tr:visible")
    return [row.removeprefix("claim-") for row in rows.evaluate_all("rows => rows.map(row => row.id)")]


def header(page, name: str):
    return page.locator("table[data-sortable] th").nth(COLUMNS.index(name))


def test_it_loads_in_silence_and_fetches_nothing(whole, report):
    whole.wait_for_load_state("networkidle")
    assert whole.problems == []
    assert [url for url in whole.requests if not url.startswith("data:")] == [report.index.as_uri()]
    assert whole.locator("script").count() == 1
    assert whole.title() == f"Report on {report.networks[0].name}"


def test_hostile_names_are_words(whole, report):
    assert whole.locator("img").count() == whole.locator("figure > img").count()
    assert report.networks[0].run.name in whole.inner_text("main")
    assert "<script>alert(1)</script>" in whole.inner_text("#claim-nine")


def test_every_picture_has_size(whole):
    sizes = whole.locator("figure img").evaluate_all(
        "all => all.map(i => [i.complete, i.naturalWidth, i.naturalHeight, i.alt.length])"
    )
    assert len(sizes) >= 10 and all(
        complete and width > 0 and height > 0 and alt > 20 for complete, width, height, alt in sizes
    )


@pytest.mark.parametrize("press", ["click", "enter"])
def test_numbers_sort_as_numbers_both_ways_and_gaps_stay_last(opened, press):
    def sort_by(name: str) -> None:
        button = header(opened, name).locator("button")
        button.click() if press == "click" else button.press("Enter")

    assert ids(opened) == [r.id for r in RECORDS]
    sort_by("measured")
    assert ids(opened) == ["minus", "tiny", "half", "nine", "ten", "none"]
    assert header(opened, "measured").get_attribute("aria-sort") == "ascending"
    sort_by("measured")
    assert ids(opened) == ["ten", "nine", "half", "tiny", "minus", "none"]
    assert header(opened, "measured").get_attribute("aria-sort") == "descending"
    sort_by("n")
    assert ids(opened) == ["minus", "tiny", "ten", "half", "nine", "none"]
    assert header(opened, "measured").get_attribute("aria-sort") is None


def test_words_sort_as_words_and_equals_keep_their_order(opened):
    header(opened, "claim").locator("button").click()
    assert ids(opened) == ["half", "minus", "nine", "none", "ten", "tiny"]
    header(opened, "where").locator("button").click()
    assert ids(opened) == ["nine", "none", "minus", "tiny", "half", "ten"]


def test_a_verdict_can_be_shown_alone(opened):
    def show(name: str) -> None:
        opened.locator(".filters button", has_text=name).click()

    show("differs by seed")
    assert ids(opened) == ["minus", "tiny"]
    assert opened.locator('.filters [aria-pressed="true"]').first.inner_text() == "differs by seed (2)"
    opened.locator(".filters button", has_text="all").first.click()
    assert len(ids(opened)) == len(RECORDS)


def test_words_are_searched_within_a_verdict_and_a_link_shows_its_row(opened):
    search = opened.get_by_label("Search")
    search.fill("qk0")
    assert ids(opened) == ["ten"] and opened.locator(".tools [role=status]").inner_text() == "1 of 6 shown"
    search.fill("claim-ten alert(1)")  # an id, and words anywhere in the row
    assert ids(opened) == ["ten"]
    search.fill("")
    opened.locator(".filters button", has_text="differs by seed").click()
    assert ids(opened) == ["minus", "tiny"]
    opened.evaluate("location.hash = '#claim-nine'")
    opened.wait_for_function("() => !document.getElementById('claim-nine').hidden")
    assert opened.locator("#claim-nine details").get_attribute("open") is not None
    assert len(ids(opened)) == len(RECORDS)


@pytest.mark.skipif(
    not AXE.is_file(), reason="no Node packages for the page's sources; `make explorer-web` installs them"
)
@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390)])
def test_axe_finds_nothing(unfolded, width, scheme):
    unfolded.set_viewport_size({"width": width, "height": 800})
    unfolded.emulate_media(color_scheme=scheme)
    assert axe_problems(unfolded) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pictures_follow_the_screen(browser, report, scheme):
    """The background of an SVG is that of the page, which is dark on a dark screen."""
    page = browser.new_page(color_scheme=scheme)
    page.goto((report.folder / "figures" / "attention.svg").as_uri())
    ground = page.evaluate("getComputedStyle(document.querySelector('#patch_1 path')).fill")
    assert (luminance(ground) < 0.05) == (scheme == "dark")
    page.close()


@pytest.mark.parametrize("width", [320, 390, 768, 1280])
def test_no_window_scrolls_sideways(unfolded, width):
    unfolded.set_viewport_size({"width": width, "height": 800})
    assert unfolded.evaluate("document.documentElement.scrollWidth") <= width
    cut = "all => all.filter(e => e.getBoundingClientRect().right > innerWidth + 1).map(e => e.outerHTML.slice(0, 80))"
    assert unfolded.locator("p, h1, h2, h3, figure, .filters button, #claim-nine > *").evaluate_all(cut) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_verdicts_can_be_read(unfolded, scheme):
    """Text and ground differ by the 4.5 : 1 that WCAG asks for."""
    unfolded.emulate_media(color_scheme=scheme)
    colours = "all => all.map(e => [getComputedStyle(e).color, getComputedStyle(e).backgroundColor])"
    for ink, ground in unfolded.locator(".verdict").evaluate_all(colours):
        assert contrast(ink, ground) >= 4.5, (ink, ground)


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def luminance(colour: str) -> float:
    parts = [int(part) / 255 for part in colour.split("(")[1].rstrip(")").split(",")[:3]]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def test_a_link_to_a_folded_figure_opens_its_fold(opened):
    folded = opened.locator("details section").first
    assert not folded.is_visible()
    opened.evaluate("label => { location.hash = label; }", folded.get_attribute("id"))
    folded.locator("img").wait_for(state="visible")


def test_of_the_claims_one_is_open_at_a_time(opened):
    for place in (0, 1):
        opened.locator("#claim-nine, #claim-ten").nth(place).locator("summary").click()
        assert opened.locator("td details[open]").count() == 1


@pytest.mark.parametrize("width", [1440, 390])
def test_the_contents_stay_in_view(opened, width):
    opened.set_viewport_size({"width": width, "height": 800})
    opened.locator("#section-every-claim").scroll_into_view_if_needed()
    opened.mouse.wheel(0, 2000)
    box = opened.locator("nav").bounding_box()
    assert box["x"] <= 24 and 0 <= box["y"] < 5 and opened.locator("nav a").count() == 5


def test_links_to_data_lead_to_files(whole, report):
    links = whole.locator(".picture .soft a").evaluate_all("all => all.map(a => a.href)")
    assert len(links) >= 30 and all(Path(link.removeprefix("file://")).is_relative_to(report.folder) for link in links)
    inner = whole.locator("table[data-sortable] a").evaluate_all("all => all.map(a => a.hash)")
    assert inner and all(whole.locator(hash).count() == 1 for hash in set(inner))
