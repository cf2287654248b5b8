"""One page for all tests, one browser, and a fresh tab for each test that fails on any error or request."""

import pytest
import torch

from tests.page.pages import write_page


@pytest.fixture(scope="session")
def page_folder(tmp_path_factory):
    torch.set_num_threads(1)
    return write_page(tmp_path_factory.mktemp("explorer")).parent


@pytest.fixture
def tab(browser, page_folder):
    """Opens the page from disk; whatever goes wrong in it, or leaves the folder, fails the test."""
    context = browser.new_context(
        viewport={"width": 1280, "height": 900}, reduced_motion="reduce", accept_downloads=True
    )
    context.set_default_timeout(90_000)  # several tests may share a core
    page = context.new_page()
    troubles: list[str] = []
    page.on("console", lambda message: troubles.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.on("dialog", lambda dialog: troubles.append(f"dialog: {dialog.message}") or dialog.dismiss())
    page.on("request", lambda request: troubles.append(request.url) if not _is_ours(request.url, page_folder) else None)

    def visit(address: str = "", width: int = 1280):
        page.set_viewport_size({"width": width, "height": 900})
        page.goto("about:blank")
        page.goto(f"{page_folder.as_uri()}/index.html#{address}")
        page.wait_for_selector("#says[data-ready=yes]")
        return page

    yield visit
    context.close()
    assert troubles == []


def _is_ours(url: str, folder) -> bool:
    return url.startswith((folder.as_uri() + "/", "data:", "blob:", "about:blank"))
