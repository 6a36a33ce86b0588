"""A scikit-learn model behind HTTP: a forest that reads handwritten digits; no tokens.

    python sklearn_server.py --port 8001 --log requests.log

One request at a time. The log has a line for each: when it came and when its answer was ready, on
the clock of the machine.
"""

import argparse
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar, TextIO

import numpy as np
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier


class Handler(BaseHTTPRequestHandler):
    """Answers with the digit of an image."""

    protocol_version = "HTTP/1.1"
    model: ClassVar[RandomForestClassifier]
    images: ClassVar[np.ndarray]
    lines: ClassVar[TextIO]
    one_at_a_time: ClassVar[threading.Lock] = threading.Lock()

    def answer(self, document: dict[str, int]) -> None:
        """Send JSON."""
        body = json.dumps(document).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        """Answer /health."""
        self.answer({})

    def do_POST(self) -> None:
        """Predict the image of the number in the body."""
        came = time.monotonic()
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        with self.one_at_a_time:
            at = int(asked["image"]) % len(self.images)
            digit = int(self.model.predict(self.images[at : at + 1])[0])
        self.lines.write(f"{came} {time.monotonic()}\n")
        self.answer({"digit": digit})

    def log_message(self, *_: object) -> None:
        """Print nothing."""


def main() -> None:
    """Train, then serve until the process is ended."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=8001)
    parser.add_argument("--log", type=Path, required=True)
    asked = parser.parse_args()
    digits = load_digits()
    Handler.images = digits.data
    Handler.model = RandomForestClassifier(100, random_state=7).fit(digits.data, digits.target)
    Handler.lines = asked.log.open("a", buffering=1)
    ThreadingHTTPServer(("127.0.0.1", asked.port), Handler).serve_forever()


if __name__ == "__main__":
    main()
