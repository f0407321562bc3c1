"""The pages of a pod on this machine, for one browser only. test_every_day tries the dashboard's head."""

import re
import socket
import threading
from collections.abc import Iterator
from http.cookiejar import CookieJar, DefaultCookiePolicy
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import HTTPCookieProcessor, ProxyHandler, build_opener

import pytest

import ops
from ops.watch import dashboard, in_cluster
from ops.watch.browser_access import BrowserAccess


class Page(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = self.path.encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Print nothing."""


class Forward:
    """A port-forward to a server of this process."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))

    def socket(self, _: int) -> socket.socket:
        return self._socket

    def error(self, _: int) -> str | None:
        return None

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, str, int]]]:
    """Record the port-forwards that are opened; each leads to a server that answers with its path."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    found: list[tuple[str, str, int]] = []

    def forward(_: object, namespace: str, pod: str, port: int) -> Forward:
        found.append((namespace, pod, port))
        return Forward(server.server_port)

    monkeypatch.setattr(dashboard, "open_port_forward", forward)
    yield found
    server.shutdown()


def core(*phases: str) -> Any:
    """Return an API with a pod of Grafana in each of these phases."""
    pods = [
        SimpleNamespace(metadata=SimpleNamespace(name=f"grafana-{n}"), status=SimpleNamespace(phase=phase))
        for n, phase in enumerate(phases)
    ]
    return SimpleNamespace(list_namespaced_pod=lambda *_, **__: SimpleNamespace(items=pods))


def address(said: list[str]) -> str:
    return said[0].split()[0]


class Browser:
    """Opens addresses as a browser does: it keeps cookies, and follows redirects."""

    def __init__(self) -> None:
        self.jar = CookieJar(DefaultCookiePolicy(strict_ns_domain=DefaultCookiePolicy.DomainLiberal))
        self._opener = build_opener(ProxyHandler({}), HTTPCookieProcessor(self.jar))

    def open(self, url: str) -> tuple[int, bytes]:
        try:
            with self._opener.open(url, timeout=20) as answer:
                return answer.status, answer.read()
        except HTTPError as error:
            return error.code, error.read()


def test_browser_reaches_the_running_grafana_of_this_machine(opened: list[tuple[str, str, int]]) -> None:
    said: list[str] = []
    browser = Browser()
    with in_cluster.with_grafana(core("Pending", "Running"), said.append, BrowserAccess(), port=0):
        assert browser.open(address(said)) == (200, b"/")
        page = address(said).replace("/?", "/d-solo/rayDefaultDashboard?panel=1&")
        assert browser.open(page) == (200, b"/d-solo/rayDefaultDashboard?panel=1"), "the pod never sees the token"
    assert address(said).startswith("http://localhost:")
    assert set(opened) == {("prometheus-system", "grafana-1", 3000)}
    with pytest.raises(URLError):
        browser.open(address(said))


@pytest.mark.parametrize(
    ("page", "place"),
    [
        (in_cluster.prometheus(core("Pending", "Running")), ("prometheus-system", "grafana-1", 9090)),
        (in_cluster.alertmanager(core("Running")), ("prometheus-system", "grafana-0", 9093)),
    ],
)
def test_other_pages_are_served_as_the_dashboard_is(
    opened: list[tuple[str, str, int]], page: dashboard.DashboardSource, place: tuple[str, str, int]
) -> None:
    browser, access = Browser(), BrowserAccess()
    with dashboard.DashboardServer(core("Running"), page, print, 0, access) as made:
        thread = threading.Thread(target=made.serve, daemon=True)
        thread.start()
        bare = made.address.partition("?")[0]
        assert browser.open(bare)[0] == 403
        assert browser.open(made.address) == (200, b"/")
        made.stop()
        thread.join()
    assert set(opened) == {place}


def test_browser_is_told_that_grafana_does_not_run(opened: list[tuple[str, str, int]]) -> None:
    said: list[str] = []
    with in_cluster.with_grafana(core("Pending"), said.append, BrowserAccess(), port=0):
        status, text = Browser().open(address(said))
    assert status == 503
    assert b"Grafana does not run. Fix: " in text
    assert opened == []


def test_port_in_use_is_said_and_does_not_end_the_dashboard() -> None:
    said: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with in_cluster.with_grafana(core("Running"), said.append, BrowserAccess(), port=port):
            pass
    [line] = said
    assert line.startswith(f"port {port} is not free")


def test_grafana_in_the_dashboards_page_needs_no_address_of_its_own(opened: list[tuple[str, str, int]]) -> None:
    """One cookie lets into both: cookies know no ports, and the page and its frame are of one site, `localhost`."""
    access, said, browser = BrowserAccess(), list[str](), Browser()
    with (
        in_cluster.with_grafana(core("Running"), said.append, access, port=0),
        in_cluster.with_grafana(core("Running"), said.append, access, port=0),
    ):
        first, second = (line.split()[0] for line in said[:2])
        browser.open(first)
        assert browser.open(second.partition("?")[0]) == (200, b"/")


ATTACKS: dict[str, tuple[str, dict[str, str]]] = {
    "name that resolves to this machine by now": ("GET", {"Host": "evil.example:{port}"}),
    "the same with a stolen cookie": ("GET", {"Host": "evil.example:{port}", "Cookie": "{cookie}"}),
    "name below localhost": ("GET", {"Host": "evil.localhost:{port}", "Cookie": "{cookie}"}),
    "name that begins like localhost": ("GET", {"Host": "localhost:{port}.evil.example", "Cookie": "{cookie}"}),
    "another port": ("GET", {"Host": "localhost:1", "Cookie": "{cookie}"}),
    "no port": ("GET", {"Host": "localhost", "Cookie": "{cookie}"}),
    "no Host": ("GET", {"Host": "", "Cookie": "{cookie}"}),
    "page of another site": ("POST", {"Origin": "https://evil.example", "Cookie": "{cookie}"}),
    "page of another program here": ("POST", {"Origin": "http://localhost:1", "Cookie": "{cookie}"}),
    "page of the other name of this machine": ("POST", {"Origin": "http://127.0.0.1:{port}", "Cookie": "{cookie}"}),
    "page by TLS": ("POST", {"Origin": "https://localhost:{port}", "Cookie": "{cookie}"}),
    "frame without an origin": ("POST", {"Origin": "null", "Cookie": "{cookie}"}),
    "fetch without the token": ("GET", {}),
    "fetch that says it is no browser": ("POST", {"User-Agent": "python-requests/2.32"}),
    "fetch with another's cookie": ("GET", {"Cookie": "ops-dashboard-00000000=x; {name}=guess"}),
    "cookie of another name": ("GET", {"Cookie": "x{cookie}"}),
    "wrong token in the address": ("GET /?token=guess", {}),
    "empty token in the address": ("GET /?token=", {}),
    "deletion without the token": ("DELETE /api/jobs/train-1", {}),
    "WebSocket without the token": ("GET", {"Upgrade": "websocket", "Connection": "Upgrade"}),
    "WebSocket of another site": (
        "GET",
        {"Upgrade": "websocket", "Connection": "Upgrade", "Origin": "https://evil.example", "Cookie": "{cookie}"},
    ),
    "address of a proxy": ("GET http://evil.example/", {"Cookie": "{cookie}"}),
    "body of unknown length": ("POST", {"Transfer-Encoding": "chunked", "Cookie": "{cookie}"}),
    "body of a negative length": ("POST", {"Content-Length": "-1", "Cookie": "{cookie}"}),
    "line that another server would take for two": ("GET", {"X": "a\nHost: b", "Cookie": "{cookie}"}),
    "field without a name": ("GET", {"": "b", "Cookie": "{cookie}"}),
}
"""What no browser with the address sends: method and target, and fields beside an honest Host."""


@pytest.fixture
def served(opened: list[tuple[str, str, int]]) -> Iterator[tuple[BrowserAccess, int]]:
    """Serve a page; return its access check and its port."""
    access, said = BrowserAccess(), list[str]()
    with in_cluster.with_grafana(core("Running"), said.append, access, port=0):
        port = int(address(said).partition("/?")[0].rpartition(":")[2])
        yield access, port


def raw(port: int, request: bytes) -> bytes:
    """Send bytes; return all that comes back until the connection ends."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall(request)
        return b"".join(iter(lambda: connection.recv(65536), b""))


def sent(served: tuple[BrowserAccess, int], request: str, fields: dict[str, str], body: bytes = b"") -> bytes:
    """Send a request with these fields; return the answer."""
    access, port = served
    method, _, target = request.partition(" ")
    lines = [f"{method} {target or '/'} HTTP/1.1"]
    for name, value in {"Host": "localhost:{port}", **fields}.items():
        if value:
            given = {"port": port, "cookie": f"{access.cookie}={access.token}", "name": access.cookie}
            lines.append(f"{name}: {value.format(**given)}")
    return raw(port, "\r\n".join(lines).encode() + b"\r\n\r\n" + body)


@pytest.mark.parametrize("attack", ATTACKS)
def test_request_that_the_browser_with_the_address_does_not_send_reaches_no_pod(
    attack: str, served: tuple[BrowserAccess, int], opened: list[tuple[str, str, int]]
) -> None:
    request, fields = ATTACKS[attack]
    answer = sent(served, request, fields)
    assert answer.split(b" ")[1] in {b"400", b"403", b"411"}, answer
    assert b"Fix: " in answer
    assert b"Set-Cookie" not in answer
    assert served[0].token.encode() not in answer
    assert opened == []


def test_second_host_or_origin_reaches_no_pod(
    served: tuple[BrowserAccess, int], opened: list[tuple[str, str, int]]
) -> None:
    access, port = served
    honest = f"Host: localhost:{port}\r\nCookie: {access.cookie}={access.token}\r\n"
    for more in ("Host: evil.example", f"Host: localhost:{port}", "Origin: https://evil.example", " folded: x"):
        assert raw(port, f"GET / HTTP/1.1\r\n{honest}{more}\r\n\r\n".encode()).split(b" ")[1] in {b"400", b"403"}
    assert opened == []


def test_second_request_of_a_connection_is_not_carried(served: tuple[BrowserAccess, int]) -> None:
    """Nobody has checked it: it may be another page's."""
    access, port = served
    one = f"GET /one HTTP/1.1\r\nHost: localhost:{port}\r\nCookie: {access.cookie}={access.token}\r\n\r\n"
    other = "GET /two HTTP/1.1\r\nHost: evil.example\r\n\r\n"
    assert b"/two" not in raw(port, (one + other).encode())


def test_honest_requests_pass_whole_and_the_pod_gets_no_token(
    served: tuple[BrowserAccess, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[dict[str, str], bytes]] = []

    def do_post(page: Page) -> None:
        body = page.rfile.read(int(page.headers["content-length"]))
        seen.append(({name.lower(): value for name, value in page.headers.items()}, body))
        page.do_GET()

    monkeypatch.setattr(Page, "do_POST", do_post, raising=False)
    body = bytes(range(256)) * 4096
    for host in ("localhost", "127.0.0.1"):
        own = {"Host": f"{host}:{{port}}", "Origin": f"http://{host}:{{port}}"}
        more = {"Content-Length": str(len(body)), "Cookie": "a=1; {cookie}; b=2"}
        assert sent(served, "POST /api/x?a=b", own | more, body).endswith(b"/api/x?a=b")
    assert [got for _, got in seen] == [body, body]
    assert all(fields["cookie"] == "a=1; b=2" for fields, _ in seen)
    assert all(fields["connection"] == "close" for fields, _ in seen)


def test_websocket_of_the_own_page_lasts(served: tuple[BrowserAccess, int], monkeypatch: pytest.MonkeyPatch) -> None:
    def do_get(page: Page) -> None:
        assert page.headers["upgrade"] == "websocket"
        page.wfile.write(b"HTTP/1.1 101 Switching Protocols\r\n\r\n")
        for _ in range(2):
            page.wfile.write(page.connection.recv(64).upper())

    monkeypatch.setattr(Page, "do_GET", do_get)
    access, port = served
    head = f"GET /ws HTTP/1.1\r\nHost: localhost:{port}\r\nOrigin: http://localhost:{port}\r\nUpgrade: websocket\r\n"
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall(f"{head}Cookie: {access.cookie}={access.token}\r\n\r\n".encode())
        assert connection.recv(64).startswith(b"HTTP/1.1 101")
        for word in (b"one", b"two"):
            connection.sendall(word)
            assert connection.recv(64) == word.upper()


def test_upgrade_that_the_pod_does_not_take_opens_no_tunnel(
    served: tuple[BrowserAccess, int], opened: list[tuple[str, str, int]]
) -> None:
    access, port = served
    one = f"GET /one HTTP/1.1\r\nHost: localhost:{port}\r\nUpgrade: websocket\r\n"
    other = "GET /two HTTP/1.1\r\nHost: evil.example\r\n\r\n"
    assert b"/two" not in raw(port, f"{one}Cookie: {access.cookie}={access.token}\r\n\r\n{other}".encode())


@pytest.mark.parametrize("target", ["/", "//evil.example/x", "/\\evil.example", "/a?b=c"])
def test_address_sets_a_cookie_that_no_other_site_sends_and_leads_to_this_machine(
    served: tuple[BrowserAccess, int], target: str
) -> None:
    access, port = served
    mark = "&" if "?" in target else "?"
    answer = raw(port, f"GET {target}{mark}token={access.token} HTTP/1.1\r\nHost: localhost:{port}\r\n\r\n".encode())
    head = answer.decode()
    assert head.startswith("HTTP/1.1 303 ")
    assert f"Set-Cookie: {access.cookie}={access.token}; Path=/; HttpOnly; SameSite=Strict\r\n" in head
    [location] = re.findall(r"^Location: (.*)\r$", head, re.MULTILINE)
    assert re.match(r"/(?![/\\])", location), location
    assert "token" not in location


def test_every_dashboard_has_its_own_secret() -> None:
    one, other = BrowserAccess(), BrowserAccess()
    assert len({one.token, other.token}) == len({one.cookie, other.cookie}) == 2
    assert len(one.token) >= 43, "256 bits"


def test_every_server_of_ops_checks_its_requests() -> None:
    """Programs of this machine's browser reach any port: a new server must not be forgotten."""
    tree = Path(ops.__file__).parent
    words = ("socketserver", "http.server", "create_server", ".listen(")
    found = [path for path in tree.rglob("*.py") if any(word in path.read_text() for word in words)]
    assert [path.relative_to(tree).as_posix() for path in found] == ["watch/dashboard.py"]


FORWARDS = re.compile(r"kubectl( [^`\s]+)* port-forward +[^`\s]")
"""A command, with arguments, that opens a port to every page in the browser."""
WHAT_PEOPLE_READ = ("README.md", "SECURITY.md", "docs", "k8s_charts", "lifecycle_scripts", "ops", "packages/ray-resume")
WHAT_PRINTS = ("config", "controllers", "ray_image", "ray_jobs", "rehearsal", "stacks")


def test_no_page_and_no_command_advises_kubectls_port_forward() -> None:
    assert FORWARDS.search("kubectl -n ray port-forward service/rayml-head-svc 8265:8265")
    assert not FORWARDS.search("Do not use `kubectl port-forward`: it checks nothing")
    repository = Path(ops.__file__).parents[1]
    advised = [
        f"{path.relative_to(repository)}: {found[0]}"
        for part in (*WHAT_PEOPLE_READ, *WHAT_PRINTS)
        for path in ([repository / part] if (repository / part).is_file() else (repository / part).rglob("*"))
        if path.suffix in {".md", ".py", ".sh", ".txt", ".yaml"} and path.is_file()
        for found in FORWARDS.finditer(path.read_text())
    ]
    assert advised == []
