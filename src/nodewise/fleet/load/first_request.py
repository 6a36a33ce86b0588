"""One request before the load: what it returns, or what is wrong and how to correct it.

A wrong path, key, model name or certificate would fail every request of every window alike. That
is an error in the spec, not a property of the fleet.
"""

import http.client
import socket
import ssl
import time
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from nodewise.base.errors import RunError, printable
from nodewise.fleet.load import tls
from nodewise.fleet.load.answers import Unread, Whole
from nodewise.fleet.load.client import Load, address_of

_MOST_BYTES = 1_000_000  # of an answer that are read
_SHOWN = 200  # characters of it
_MODELS_SHOWN = 5
_MODEL_SECONDS = 5.0  # for the list of the models
_TRIES = 3  # of a server that answers 5xx: it may still be loading
_PAUSE_SECONDS = 1.0


class Reply(NamedTuple):
    """What a server answered."""

    status: int
    headers: Mapping[str, str]  # names in lower case
    body: bytes
    seconds: float


def first_request(load: Load, url: str) -> str:
    """Send the first request of a load to a server; its answer in a sentence, or an error."""
    reply = _ask(load, url)
    for _ in range(_TRIES - 1):
        if reply.status < 500:
            break
        time.sleep(_PAUSE_SECONDS)
        reply = _ask(load, url)
    if not 200 <= reply.status < 300:
        raise _refused(load, url, reply)
    reader = load.reader()
    reader.begin()
    if feed := getattr(reader, "feed", None):  # one that leaves bodies unread has none
        feed(reply.body, reply.seconds)
    problem = reader.finish()
    if problem:
        raise _unusable(load, url, problem, reply.body)
    took = f"First request: status {reply.status} after {reply.seconds:.2g} s"
    if type(reader) is Unread:
        return f"{took}, {len(reply.body)} bytes: {shown(reply.body)}"
    counts = f"{reader.input_tokens} prompt and {reader.output_tokens} output tokens"
    if not reader.counted:
        counts = "the server does not count its tokens"
    return f"{took}, {counts}: {shown(reply.body)}"


def shown(body: bytes) -> str:
    """The beginning of a body, on one line."""
    text = printable(" ".join(body[: 4 * _SHOWN].decode(errors="replace").split()))
    return text[:_SHOWN] + ("..." if len(text) > _SHOWN else "") if text else "no body"


def open_connection(
    url: str, seconds: float, context: ssl.SSLContext | None
) -> http.client.HTTPConnection:
    """A connection to a server, which is not open yet."""
    parts = address_of(url)
    host = parts.hostname or ""
    if parts.scheme == "https":
        return http.client.HTTPSConnection(host, parts.port, timeout=seconds, context=context)
    return http.client.HTTPConnection(host, parts.port, timeout=seconds)


def _ask(load: Load, url: str) -> Reply:
    parts = address_of(url)
    path = parts.path.rstrip("/") + load.path
    begun = time.monotonic()
    deadline = begun + load.timeout_seconds
    connection = open_connection(url, load.timeout_seconds, load.tls)
    headers = {"content-type": "application/json", **load.headers}
    try:
        connection.request(load.method, path, body=load.bodies[0], headers=headers)
        answer = connection.getresponse()
        pieces, size = [], 0
        while size < _MOST_BYTES and (piece := answer.read1(65536)):
            pieces.append(piece)
            size += len(piece)
            if time.monotonic() > deadline:
                raise TimeoutError
        names = {name.lower(): text for name, text in answer.getheaders()}
        return Reply(answer.status, names, b"".join(pieces), time.monotonic() - begun)
    except ssl.SSLError as error:
        raise tls.explained(url, error) from None
    except TimeoutError:
        raise RunError(
            f"{url}: no answer within {load.timeout_seconds:g} s to one request.",
            "Raise request.timeout_seconds, or ask for fewer output_tokens.",
        ) from None
    except socket.gaierror:
        raise RunError(f"{url}: the name is not known.", "Correct server.endpoints.") from None
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise RunError(
            f"{url}: the request got no answer: {printable(str(reason))}.",
            "Start the server, or correct the address; an encrypted port needs https://.",
        ) from None
    finally:
        connection.close()


def _refused(load: Load, url: str, reply: Reply) -> RunError:
    """The error for a status that is not 2xx."""
    what = f"{load.method} {url.rstrip('/')}{load.path} answers {reply.status}"
    if reply.status < 400:
        return RunError(
            f"{what}: it is at {printable(reply.headers.get('location', 'another address'))}.",
            "Write that address in server.endpoints and request.path.",
        )
    return RunError(f"{what}: {shown(reply.body)}", _fix(load, url, reply))


def _fix(load: Load, url: str, reply: Reply) -> str:
    model = _model_of(load.bodies[0])
    about_model = b"model" in reply.body.lower() and model.encode() in reply.body
    if reply.status in (400, 404, 422) and model and about_model:
        return f'Write model = "..." under [request]; {_models(load, url, reply)}.'
    fixes = {
        401: 'Write headers = {Authorization = "Bearer KEY"} under [request].',
        403: "Use a key that is allowed to do this in request.headers.",
        404: "Correct request.path or request.api: the server does not know this path.",
        405: "Correct request.method or request.path.",
        429: "Raise the server's limit for this key: a load test needs more than its rate.",
    }
    if reply.status >= 500:
        return "See the log of the server: one request alone fails there."
    return fixes.get(reply.status, "Correct [request]: the server does not accept this body.")


def _model_of(body: bytes) -> str:
    try:
        document = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return ""
    model = document.get("model") if isinstance(document, dict) else None
    return model if isinstance(model, str) else ""


class _Model(msgspec.Struct):
    id: str


class _Models(msgspec.Struct):
    data: list[_Model]


def _models(load: Load, url: str, reply: Reply) -> str:
    """Which models a server has, by its own list."""
    connection = open_connection(url, _MODEL_SECONDS, load.tls)
    try:
        connection.request(
            "GET", address_of(url).path.rstrip("/") + "/v1/models", None, load.headers
        )
        names = msgspec.json.decode(connection.getresponse().read(_MOST_BYTES), type=_Models).data
    except (OSError, http.client.HTTPException, msgspec.DecodeError, UnicodeDecodeError):
        return "the server does not list its models"
    finally:
        connection.close()
    if not names:
        return "the server has none"
    listed = ", ".join(printable(one.id) for one in names[:_MODELS_SHOWN])
    return f"the server has {listed}" + (" and others" if len(names) > _MODELS_SHOWN else "")


def _unusable(load: Load, url: str, problem: str, body: bytes) -> RunError:
    """The error for an answer with a good status that the spec's reader cannot use."""
    what = f"{load.method} {url.rstrip('/')}{load.path}: {problem}: {shown(body)}"
    if load.reader is not Whole and not body.lstrip().startswith((b"data:", b":", b"event:")):
        return RunError(what, "Write stream = false under [request]: the answer is not a stream.")
    if load.reader is Whole and body.lstrip().startswith(b"data:"):
        return RunError(what, "Write stream = true under [request]: the answer is a stream.")
    return RunError(what, 'Correct request.api and request.path; "plain" reads no answer.')
