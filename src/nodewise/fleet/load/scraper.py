"""The metrics of servers, read from their Prometheus pages while a window runs."""

import http.client
import ssl
import threading
from collections.abc import Sequence
from types import TracebackType

from nodewise.fleet.causes import parse_metrics, server_load
from nodewise.fleet.load.client import address_of
from nodewise.fleet.load.first_request import open_connection
from nodewise.study.window import ServerLoad

_EVERY_SECONDS = 0.5
_ANSWER_SECONDS = 1.0
_MOST_BYTES = 4_000_000
_MOST_SAMPLES = 2000  # of one server
_MOST_SERVERS = 16


class Scraper:
    """Reads the page of each server twice a second, on a thread of its own."""

    def __init__(self, urls: Sequence[str], path: str, context: ssl.SSLContext | None) -> None:
        """Without a path nothing is read."""
        self._urls = list(urls[:_MOST_SERVERS]) if path else []
        self._path, self._context = path, context
        self._samples: list[list[dict[str, float]]] = [[] for _ in self._urls]
        self._problem = "did not answer"
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._read_all, daemon=True)

    def __enter__(self) -> "Scraper":
        """Begin to read."""
        if self._urls:
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        """Stop; a page that is slow is not waited for."""
        self._ended.set()
        if self._urls:
            self._thread.join(2 * _ANSWER_SECONDS)

    @property
    def load(self) -> ServerLoad | None:
        """What was read."""
        return server_load([list(one) for one in self._samples])

    @property
    def problem(self) -> str:
        """Why nothing was read, as a sentence; empty if something was, or nothing was asked."""
        if not self._urls or any(self._samples):
            return ""
        return f"No metrics of the servers: {self._path} {self._problem}."

    def _read_all(self) -> None:
        for _ in range(_MOST_SAMPLES):
            pages = [self._page(url) for url in self._urls]
            for samples, page in zip(self._samples, pages, strict=True):
                if page and (found := parse_metrics(page)):
                    samples.append(found)
            answered = all(page is not None for page in pages)
            if (answered and not any(self._samples)) or self._ended.wait(_EVERY_SECONDS):
                return  # nothing that is known here, or the window is over

    def _page(self, url: str) -> str | None:
        """The metrics of a server; None: it did not answer in time, and may do so later."""
        connection = open_connection(url, _ANSWER_SECONDS, self._context)
        try:
            connection.request("GET", address_of(url).path.rstrip("/") + self._path)
            answer = connection.getresponse()
            text = answer.read(_MOST_BYTES).decode(errors="replace")
            known = "has no metric that nodewise knows"
            self._problem = known if answer.status == 200 else f"answers {answer.status}"
            return text if answer.status == 200 else ""
        except (OSError, http.client.HTTPException):
            return None
        finally:
            connection.close()
