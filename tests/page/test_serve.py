"""The server answers GET and HEAD for its own address on loopback, and nothing else."""

import http.client
import socket
import threading
from importlib.resources import files

import pytest

from assignadd.page.serve import HOST, MOST_CONNECTIONS, POLICY, Handler, Server


@pytest.fixture
def port(tmp_path):
    (tmp_path / "page").mkdir()
    (tmp_path / "page" / "index.html").write_text("hello")
    (tmp_path / "page" / "data").mkdir()
    (tmp_path / "secret").write_text("outside")
    made = Server(tmp_path / "page")
    thread = threading.Thread(target=made.serve_forever)
    thread.start()
    yield made.server_address[1]
    made.shutdown()
    made.server_close()
    thread.join()


def ask(port: int, method: str, path: str, host: str | None = None) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(HOST, port, timeout=10)
    connection.request(method, path, headers={} if host is None else {"Host": host})
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, body


def test_the_page_is_served(port):
    assert ask(port, "GET", "/") == (200, b"hello")
    assert ask(port, "HEAD", "/index.html") == (200, b"")
    assert ask(port, "GET", "/", f"localhost:{port}")[0] == 200


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "", f"{HOST}"])
def test_other_hosts_are_refused(port, host):
    assert ask(port, "GET", "/", host)[0] == 403


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE"])
def test_other_methods_are_refused(port, method):
    assert ask(port, method, "/")[0] == 501


@pytest.mark.parametrize("path", ["/../secret", "/%2e%2e/secret", "//etc/passwd", "/data/"])
def test_nothing_outside_is_served(port, path):
    assert ask(port, "GET", path)[0] == 404


def test_only_loopback_is_bound(tmp_path):
    with Server(tmp_path) as made:
        assert made.server_address[0] == "127.0.0.1"


def test_links_out_of_the_folder_and_names_that_no_file_has(port, tmp_path, capfd):
    (tmp_path / "page" / "link").symlink_to(tmp_path / "secret")
    (tmp_path / "page" / "up").symlink_to(tmp_path)
    (tmp_path / "page" / "inside").symlink_to(tmp_path / "page" / "index.html")
    for path in ("/link", "/up/secret", "/up/", "/%00", "/a%00b", "/index.html%00"):
        assert ask(port, "GET", path)[0] == 404, path
    assert ask(port, "GET", "/inside") == (200, b"hello")
    assert capfd.readouterr().err == ""


def test_two_hundred_idle_clients_do_not_keep_others_out(port):
    idle = [socket.create_connection((HOST, port)) for _ in range(200)]
    assert ask(port, "GET", "/") == (200, b"hello")
    assert threading.active_count() < MOST_CONNECTIONS + 20
    for connection in idle:
        connection.close()


def test_a_client_that_says_nothing_is_dropped(port, monkeypatch):
    monkeypatch.setattr(Handler, "timeout", 0.1)
    with socket.create_connection((HOST, port), timeout=10) as silent:
        silent.sendall(b"GET / HT")
        assert silent.recv(100) == b""


def test_the_page_itself_has_the_policy_of_the_server():
    """So that it holds from disk and on any other host, too."""
    page = (files("assignadd.page") / "built" / "index.html").read_text()
    assert f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">' in page


@pytest.mark.parametrize("served", [False, True])
def test_the_policy_allows_what_the_page_ships_and_nothing_else(browser, page_folder, served):
    tab, refused = browser.new_page(), []
    tab.on("console", lambda m: refused.append(m.text) if "Content Security Policy" in m.text else None)
    with Server(page_folder) as made:
        thread = threading.Thread(target=made.serve_forever)
        thread.start()
        try:
            own = f"http://{HOST}:{made.server_address[1]}"
            tab.goto(f"{own}/" if served else f"{page_folder.as_uri()}/index.html")
            tab.wait_for_selector("#says[data-stale=false]")
            assert refused == []
            tab.evaluate(
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
            assert tab.evaluate("window.owned") is None and len(refused) >= 4
        finally:
            tab.close()
            made.shutdown()
            thread.join()
