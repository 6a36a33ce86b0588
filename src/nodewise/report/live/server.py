"""The server of the local page: for this machine only, and only with the address."""

import base64
import hashlib
import json
import re
import secrets
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs

from nodewise.base.errors import NodewiseError
from nodewise.report.live import views
from nodewise.report.live.histories import Histories
from nodewise.report.live.studies import Snapshot, Studies

_ADDRESS = "127.0.0.1"
# A foreign page can send us requests under its own name, never under these. Any port is right: a
# tunnel may end at another one.
_OUR_NAMES = ("127.0.0.1", "localhost")
_POLICY = (
    "default-src 'none'; {script}; style-src 'self' 'unsafe-inline'; img-src data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_OWN_SCRIPTS = _POLICY.format(script="script-src 'self'")
_MODULE = re.compile(r'<script type="module">(.*?)</script>', re.DOTALL)


class Answer(NamedTuple):
    """What is sent back."""

    body: str
    kind: str = "text/html"
    status: int = 200
    policy: str = _OWN_SCRIPTS
    keep: bool = False  # in the browser, as long as this address holds


class Server(ThreadingHTTPServer):
    """Serves the studies below a folder under an address that cannot be guessed."""

    daemon_threads = True

    def __init__(self, folder: Path, port: int = 0) -> None:
        """Listen at a port; 0: at a free one."""
        self.studies = Studies(folder)
        self.histories = Histories(folder)
        self.token = secrets.token_urlsafe(16)
        super().__init__((_ADDRESS, port), _Handler)

    @property
    def url(self) -> str:
        """Where the board is."""
        return f"http://{_ADDRESS}:{self.server_port}/{self.token}/"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a closed connection; every other error is answered with a page."""

    def answer(self, host: str, address: str) -> Answer:
        """The answer to a request for an address, sent to a host of this name."""
        path, _, query = address.partition("?")
        if host.partition(":")[0] not in _OUR_NAMES:
            return _refused(403, "This is not the address of nodewise ui.")
        if path == "/favicon.ico":
            return Answer("", "image/x-icon", 204)
        start = f"/{self.token}/"
        if not secrets.compare_digest(path[: len(start)].encode(), start.encode()):
            return _refused(403, "The address has no key; copy all of it from the terminal.")
        rest = path[len(start) :].split("/")
        try:
            return self._page(rest, parse_qs(query))
        except NodewiseError as error:
            root = "../../" if len(rest) > 1 else ""
            return Answer(views.message("There is nothing to show", error.what, error.fix, root))

    def _page(self, path: list[str], query: dict[str, list[str]]) -> Answer:
        match path:
            case [""]:
                kept = self.histories.all()
                return Answer(views.board(self.studies.all(), self.studies.folder, kept))
            case ["state.json"]:
                kept = self.histories.all()
                return _json(views.board_state(self.studies.all(), self.studies.folder, kept))
            case ["history", key, ""] if (found := self.histories.find(key)) is not None:
                return Answer(views.history(found))
            case ["compare"]:
                return self._comparison(query.get("study", []))
            case ["style.css"]:
                return Answer(views.style(), "text/css", keep=True)
            case ["live.js"]:
                return Answer(views.script(), "text/javascript", keep=True)
            case ["study", key, page] if (snapshot := self.studies.find(key)) is not None:
                return _study_page(snapshot, page, self.histories)
        return _refused(404, "Page not found.", "../" * (len(path) - 1))

    def _comparison(self, keys: list[str]) -> Answer:
        found = [
            snapshot.reading for key in keys if (snapshot := self.studies.find(key)) is not None
        ]
        if len(found) != 2:
            raise NodewiseError("A comparison needs two studies.", "Select two in the list.")
        return _with_inline_script(views.comparison(found[0], found[1]))


class _Handler(BaseHTTPRequestHandler):
    server: Server
    server_version, sys_version = "nodewise", ""
    timeout = 30  # of a client that sends nothing

    def do_GET(self) -> None:
        try:
            answer = self.server.answer(self.headers.get("Host", ""), self.path)
        except Exception as error:  # noqa: BLE001  a page that fails must not leave the reader waiting
            answer = _refused(500, f"This page could not be made: {error!r}.")
        body = answer.body.encode()
        self.send_response(answer.status)
        self.send_header("Content-Type", f"{answer.kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "private, max-age=86400" if answer.keep else "no-store")
        self.send_header("Content-Security-Policy", answer.policy)
        self.send_header("Cross-Origin-Resource-Policy", "same-origin")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Keep quiet: the terminal is for what the user must know."""


def _study_page(snapshot: Snapshot, page: str, histories: Histories) -> Answer:
    match page:
        case "":
            return Answer(views.study(snapshot, histories.all()))
        case "state.json":
            return _json(views.study_state(snapshot))
        case "report" if snapshot.reading.findings is not None:
            return _with_inline_script(views.report(snapshot.reading))
        case "report":
            raise snapshot.reading.problem or NodewiseError(
                "No report yet.", "Wait for runs at two scales."
            )
    return _refused(404, "Page not found.", "../../")


def _json(state: dict[str, Any]) -> Answer:
    return Answer(json.dumps(state), "application/json")


def _with_inline_script(page: str) -> Answer:
    """A page with its script inside: that one script is allowed, by its hash, and no other.

    Vega compiles the expressions of a chart, so this script may evaluate text.
    """
    hashes = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
        for script in _MODULE.findall(page)
    )
    return Answer(page, policy=_POLICY.format(script=f"script-src {hashes} 'unsafe-eval'"))


def _refused(status: int, why: str, root: str | None = None) -> Answer:
    """A refusal as plain text, without style and links."""
    if root is None:
        return Answer(f"{why}\n", "text/plain", status)
    return Answer(views.message("Not here", why, root=root), status=status)
