"""One request before the load: what it returns, and the two lines where it fails."""

import contextlib
import json
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import msgspec
import psutil
import pytest

from nodewise.base.errors import NodewiseError, RunError, SpecError
from nodewise.decide.prices.bill import Price
from nodewise.fleet.decide import FleetQuestion, decide_fleet
from nodewise.fleet.load.first_request import first_request
from nodewise.fleet.load.replicas import ReplicaFailed, replicas_of
from nodewise.fleet.load.requests import load_of
from nodewise.fleet.load.sweep import sweep
from nodewise.fleet.load.tls import context_of
from nodewise.fleet.spec import FleetSpec, Server, parse_fleet, text_without_keys
from nodewise.study.window import Window

pytest.importorskip("httptools", reason="httptools is not installed: pip install 'nodewise[fleet]'")

SPEC = """
name = "first"
replicas = 1
rounds = 1
[server]
endpoints = ["{url}"]
start_seconds = 20
{server}
[request]
model = "gpt-x"
timeout_seconds = 2
{request}
[load]
warmup_seconds = 0.1
window_seconds = 0.5
[objective]
latency = 1.0
share = 0.5
[demand]
per_second = 20
"""
STREAM = (
    b'data: {"choices":[{"text":"hello"}]}\n\n'
    b'data: {"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":7}}\n\ndata: [DONE]\n\n'
)
WHOLE = b'{"choices":[{"text":"hello"}],"usage":{"prompt_tokens":5,"completion_tokens":7}}'


class Script:
    """What a server answers, and what it was asked."""

    def __init__(self, status: int = 200, body: bytes = STREAM, health: int = 200) -> None:
        self.status, self.body, self.health = status, body, health
        self.location = ""
        self.pause = 0.0
        self.page: Callable[[], bytes] | None = None  # of metrics
        self.posts: list[dict[str, str]] = []


@contextlib.contextmanager
def serving(script: Script, tls: ssl.SSLContext | None = None) -> Iterator[str]:
    """A server on loopback that follows a script."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            if script.location:
                self.send_header("location", script.location)
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self) -> None:
            if self.path == "/v1/models":
                self.answer(200, b'{"data": [{"id": "tiny"}, {"id": "large"}]}')
            elif self.path == "/metrics" and script.page is not None:
                self.answer(200, script.page())
            else:
                self.answer(404 if self.path == "/missing" else script.health, b"")

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            script.posts.append({name.lower(): text for name, text in self.headers.items()})
            time.sleep(script.pause)
            self.answer(script.status, script.body)

        def log_message(self, *_: object) -> None:
            pass

    class Quiet(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: object) -> None:
            pass  # handshakes that fail are the point

    server = Quiet(("127.0.0.1", 0), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"{'https' if tls else 'http'}://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)


def spec_of(url: str, server: str = "", request: str = "") -> FleetSpec:
    return parse_fleet(SPEC.format(url=url, server=server, request=request))


def swept(url: str, folder: Path, server: str = "", request: str = "") -> list[str]:
    """The notes of a sweep."""
    notes: list[str] = []
    folder.joinpath("out").mkdir()
    sweep(spec_of(url, server, request), folder, folder / "out", lambda *_: None, notes.append)
    return notes


def test_the_answer_of_the_first_request_is_shown_and_comes_before_the_load(tmp_path):
    script = Script()
    with serving(script) as url:
        (note,) = swept(url, tmp_path)
    assert note.startswith("First request: status 200 after ")
    assert "5 prompt and 7 output tokens" in note and "hello" in note
    assert "\ufffd" not in note  # between events there is a space
    assert len(script.posts) > 1


@pytest.mark.parametrize(
    ("status", "body", "what", "fix"),
    [
        (404, b'{"detail":"Not Found"}', 'answers 404: {"detail":"Not Found"}', "request.path"),
        (
            404,
            b'{"error":{"message":"The model `gpt-x` does not exist."}}',
            "The model `gpt-x` does not exist.",
            'Write model = "..." under [request]; the server has tiny, large.',
        ),
        (401, b"missing key", "answers 401: missing key", "Authorization"),
        (403, b"", "answers 403: no body", "key that is allowed"),
        (422, b"bad \x1b[31mbody", "answers 422", "Correct [request]"),
        (429, b"slow down", "answers 429", "limit"),
        (200, b"<html>hi</html>", "the stream broke off: <html>hi</html>", "stream = false"),
        (200, b'data: {"error":"no GPU"}\n\n', "the server says: no GPU", "request.api"),
    ],
)
def test_a_request_that_cannot_work_ends_the_sweep_at_once(tmp_path, status, body, what, fix):
    script = Script(status, body)
    with serving(script) as url, pytest.raises(RunError) as found:
        swept(url, tmp_path)
    first, second = str(found.value).split("\n")
    assert what in first and fix in second
    assert "\x1b" not in first
    assert len(script.posts) == 1  # no load
    assert not list((tmp_path / "out").glob("windows.jsonl"))


def test_a_server_that_fails_is_asked_three_times(tmp_path, monkeypatch):
    monkeypatch.setattr("nodewise.fleet.load.first_request._PAUSE_SECONDS", 0.01)
    script = Script(503, b"loading")
    with serving(script) as url, pytest.raises(RunError, match=r"answers 503: loading\n.*log"):
        swept(url, tmp_path)
    assert len(script.posts) == 3


def test_a_moved_server_a_slow_one_and_a_missing_one_are_named(tmp_path):
    moved = Script(307)
    moved.location = "http://elsewhere/v1"
    with serving(moved) as url, pytest.raises(RunError, match="http://elsewhere/v1"):
        swept(url, tmp_path)
    slow = Script()
    slow.pause = 1.0
    with serving(slow) as url:
        spec = spec_of(url, request="").request
        load = load_of(spec_of(url), [url], 1.0, 1.0, "s")
        assert spec.timeout_seconds == load.timeout_seconds == 2.0

        with pytest.raises(RunError, match=r"no answer within 0.3 s.*\n.*timeout_seconds"):
            first_request(msgspec.structs.replace(load, timeout_seconds=0.3), url)
    with pytest.raises(RunError, match="no answer: Connection refused"):
        first_request(load, url)


def test_whole_and_plain_answers_are_shown_too(tmp_path):
    with serving(Script(body=WHOLE)) as url:
        load = load_of(spec_of(url, request="stream = false"), [url], 1.0, 1.0, "s")
        assert "5 prompt and 7 output tokens" in first_request(load, url)
        plain = spec_of(url, request='api = "plain"\npath = "/predict"\nbody = "{}"')
        load = load_of(plain, [url], 1.0, 1.0, "s")
        assert f"{len(WHOLE)} bytes: " in first_request(load, url)


def test_a_path_of_health_that_is_wrong_is_said_at_once_and_one_that_wants_a_key_is_ready(tmp_path):
    begun = time.monotonic()
    with serving(Script(health=404)) as url, pytest.raises(RunError) as found:
        swept(url, tmp_path, server='health = "/ready"')
    assert f"{url}/ready does not answer 200: status 404.\n" in str(found.value)
    assert time.monotonic() - begun < 10  # start_seconds is 20
    with serving(Script(health=401)) as url:
        (tmp_path / "key").mkdir()
        assert swept(url, tmp_path / "key", request='headers = {Authorization = "Bearer k"}')


@pytest.mark.parametrize("status", [404, 405])
def test_a_server_without_a_path_of_health_is_ready_when_it_answers(tmp_path, status):
    with serving(Script(health=status)) as url:
        (note,) = swept(url, tmp_path)
    assert note.startswith("First request: status 200 after ")


def test_a_server_that_is_not_ready_in_time_is_quoted(tmp_path):
    program = (
        "import http.server, sys\n"
        "class Loading(http.server.BaseHTTPRequestHandler):\n"
        "    def do_GET(self):\n"
        "        self.send_error(503)\n"
        "http.server.HTTPServer(('127.0.0.1', int(sys.argv[1])), Loading).serve_forever()\n"
    )
    server = Server(command=(sys.executable, "-c", program, "{port}"), start_seconds=3.0)
    with (
        pytest.raises(ReplicaFailed, match=r"not ready after 3 s: (status 503|no answer) at /heal"),
        replicas_of(server, 1, tmp_path, tmp_path / "logs"),
    ):
        pass


def test_a_corrected_spec_goes_on_in_the_same_folder(tmp_path, nodewise):
    script, spec = Script(401, b"no key"), tmp_path / "fleet.toml"
    with serving(script) as url:
        spec.write_text(SPEC.format(url=url, server="", request=""))
        refused = nodewise("fleet", "sweep", spec)
        assert refused.code == 3 and "answers 401: no key" in refused.err
        script.status, script.body = 200, STREAM
        header = 'headers = {Authorization = "Bearer k"}'
        spec.write_text(SPEC.format(url=url, server="", request=header))
        done = nodewise("fleet", "sweep", spec)
        assert done.code == 0, done.err
        assert "First request: status 200" in done.err
        assert script.posts[-1]["authorization"] == "Bearer k"
        # the key is not in the folder, and the sweep goes on with it, or with the next one
        kept = [path for path in tmp_path.rglob("*") if path.is_file() and path != spec]
        assert kept and not any(b"Bearer k" in path.read_bytes() for path in kept)
        assert nodewise("fleet", "sweep", spec).code == 0
        spec.write_text(spec.read_text().replace("Bearer k", "Bearer new"))
        assert nodewise("fleet", "sweep", spec).code == 0
        # with windows, another spec is another sweep
        spec.write_text(SPEC.format(url=url, server="", request="stream = false"))
        assert "holds a sweep of another spec" in nodewise("fleet", "sweep", spec).err


@pytest.mark.parametrize(
    ("header", "hidden"),
    [
        (
            "headers = {'x-api-key' = 'k', other = 'k'}",
            "headers = {'x-api-key' = \"***\", other = 'k'}",
        ),
        (
            '[request.headers]\nAuthorization = "Bearer k"',
            '[request.headers]\nAuthorization = "***"',
        ),
        ('headers = {Authorization = "a\\"b"}', None),
        ('headers = {Authorization = """k"""}', None),
    ],
)
def test_a_key_is_hidden_in_the_text_of_a_spec_or_the_spec_is_refused(header, hidden):
    text = SPEC.format(url="http://a:1", server="", request=header)
    if hidden is None:
        with pytest.raises(SpecError, match="in quotes"):
            text_without_keys(text)
    else:
        assert text_without_keys(text) == SPEC.format(url="http://a:1", server="", request=hidden)


def test_a_server_without_tokens_is_priced_by_its_requests(tmp_path):
    for name, request, body in (
        ("plain", 'api = "plain"\npath = "/predict"\nbody = "{}"', b'{"class": 4}'),
        ("json", 'api = "json"\nstream = false\npath = "/predict"\nbody = "{}"', b'{"class": 4}'),
    ):
        (tmp_path / name).mkdir()
        with serving(Script(body=body)) as url:
            spec = spec_of(url, request=request)
            made = sweep(spec, tmp_path, tmp_path / name, lambda *_: None)
        price = Price(per_node_hour=0.72)
        question = FleetQuestion(objective=spec.objective, demand_per_second=20.0)
        result = decide_fleet("x", made, question, price)
        assert (result.unit, result.chosen) == ("requests", 1)
        allocation = result.row(1).allocation
        assert allocation is not None
        # on a busy machine requests miss, and answers come after the window
        most = max(_seconds_of_answers(one) / one.seconds for one in made)
        most = max(most, 1.0) / min(one.attainment for one in result.windows)
        assert allocation.amount * (1 + 1e-6) >= 10.0  # 0.72/3600/20
        assert allocation.amount <= 10.0 * most * (1 + 1e-6)


def _seconds_of_answers(made: Window) -> float:
    ends = [one.last for one in made.requests if one.last is not None]
    return max(ends) - min(ends)


# ---- certificates


@pytest.fixture(scope="module")
def certificates(tmp_path_factory) -> Path:
    """A self-signed certificate for 127.0.0.1, and one for another name."""
    folder = tmp_path_factory.mktemp("certificates")
    for name, names in (("here", "IP:127.0.0.1"), ("other", "DNS:other.example")):
        command = (
            "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 "
            f"-subj /CN={name} -addext subjectAltName={names} -keyout {name}.key -out {name}.pem"
        )
        done = subprocess.run(command.split(), cwd=folder, capture_output=True)
        if done.returncode:
            pytest.skip("openssl cannot make a certificate")
    return folder


def server_side(folder: Path, name: str = "here", client: bool = False) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / f"{name}.pem", folder / f"{name}.key")
    if client:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(folder / "here.pem")
    return context


def test_a_self_signed_certificate_is_named_at_once_and_trusted_with_ca(certificates, tmp_path):
    begun = time.monotonic()
    with serving(Script(), server_side(certificates)) as url:
        with pytest.raises(RunError) as found:
            swept(url, tmp_path)
        first, second = str(found.value).split("\n")
        assert f"The certificate of {url} is not trusted: self" in first
        assert 'ca = "ca.pem"' in second
        assert time.monotonic() - begun < 10  # start_seconds is 20
        (tmp_path / "trusted").mkdir()
        assert swept(url, tmp_path / "trusted", f'ca = "{certificates}/here.pem"')


def test_a_certificate_for_another_name_is_not_taken(certificates, tmp_path):
    ca = f'ca = "{certificates}/other.pem"'
    with (
        serving(Script(), server_side(certificates, "other")) as url,
        pytest.raises(RunError, match="is for another name"),
    ):
        swept(url, tmp_path, ca)


def test_a_server_that_asks_for_a_certificate_gets_that_of_the_spec(certificates, tmp_path):
    ca = f'ca = "{certificates}/here.pem"'
    own = f'{ca}\ncertificate = "{certificates}/here.pem"\nkey = "{certificates}/here.key"'
    with serving(Script(), server_side(certificates, client=True)) as url:
        with pytest.raises(RunError, match=r"requires a client certificate.*\n.*key = "):
            swept(url, tmp_path, ca)
        (tmp_path / "known").mkdir()
        assert swept(url, tmp_path / "known", own)


def test_plain_http_behind_https_and_files_that_are_none_are_named(certificates, tmp_path):
    with (
        serving(Script()) as url,
        pytest.raises(RunError, match=r"does not speak TLS.*\n.*http://"),
    ):
        swept(url.replace("http:", "https:"), tmp_path)
    for lines, what in (
        ('ca = "none.pem"', "server.ca: cannot read .*none.pem: No such file"),
        ('certificate = "none.pem"', "server.certificate and key: cannot read"),
    ):
        with pytest.raises(SpecError, match=what):
            context_of(spec_of("https://127.0.0.1:1", lines).server, tmp_path)
    with pytest.raises(SpecError, match=r"server\.key: the certificate"):
        spec_of("https://127.0.0.1:1", 'key = "x.key"')
    assert context_of(spec_of("http://127.0.0.1:1").server, tmp_path) is None


# ---- replicas behind one address


def test_replicas_behind_one_address_are_set_by_a_command(tmp_path):
    write = "import pathlib, sys; pathlib.Path('set').write_text(sys.argv[1])"
    with serving(Script()) as url:
        scale = f'{sys.executable} -c "{write}" {{n}}'
        server = Server(endpoint=url, scale=scale)
        for count in (4, 2):
            with replicas_of(server, count, tmp_path, tmp_path) as replicas:
                assert replicas.endpoints == (url,)
                assert (tmp_path / "set").read_text() == str(count)
        fails = f"{sys.executable} -c \"raise SystemExit('no quota for ' + '{{n}}')\""
        with (
            pytest.raises(ReplicaFailed, match="no quota for 3"),
            replicas_of(Server(endpoint=url, scale=fails), 3, tmp_path, tmp_path),
        ):
            pass
        slow = Server(endpoint=url, scale="sleep 5{n}", start_seconds=0.2)
        with (
            pytest.raises(ReplicaFailed, match=r"not finished after 0\.2 s"),
            replicas_of(slow, 1, tmp_path, tmp_path),
        ):
            pass
        missing = Server(endpoint=url, scale="no-such-program {n}")
        with (
            pytest.raises(RunError, match="Cannot run no-such-program 1"),
            replicas_of(missing, 1, tmp_path, tmp_path),
        ):
            pass


def test_while_a_fleet_is_scaled_up_its_gateway_may_answer_404(tmp_path):
    script = Script(health=404)
    with serving(script) as url:
        up = threading.Timer(0.3, lambda: setattr(script, "health", 200))
        up.start()
        server = Server(endpoint=url, scale="true {n}", start_seconds=20.0, health="/up")
        with replicas_of(server, 2, tmp_path, tmp_path) as replicas:
            assert replicas.endpoints == (url,)
        up.join(5)
        script.health = 405
        begun = time.monotonic()
        with (
            pytest.raises(RunError, match="status 405"),
            replicas_of(server, 2, tmp_path, tmp_path),
        ):
            pass
        assert time.monotonic() - begun < 10  # start_seconds is 20


def test_a_scale_command_that_takes_too_long_ends_with_all_that_it_started(tmp_path):
    script = tmp_path / "scale.sh"
    script.write_text("sleep 60 & echo $! > child; wait\n")
    server = Server(endpoint="http://127.0.0.1:1", scale=f"sh {script} {{n}}", start_seconds=0.5)
    with (
        pytest.raises(ReplicaFailed, match=r"not finished after 0\.5 s"),
        replicas_of(server, 1, tmp_path, tmp_path),
    ):
        pass
    child = int((tmp_path / "child").read_text())
    deadline = time.monotonic() + 5
    while _runs(child) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not _runs(child)


def _runs(process: int) -> bool:
    try:
        return psutil.Process(process).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.mark.parametrize(
    ("server", "replicas", "what"),
    [
        ('endpoint = "http://a:1"', "[1, 2]", "cannot be changed"),
        ('endpoint = "http://a:1"\nscale = "kubectl scale"', "[1, 2]", "{n}"),
        ('endpoints = ["http://a:1"]\nscale = "x {n}"', "1", "needs an endpoint"),
        ('endpoint = "http://a:1"\nendpoints = ["http://a:1"]', "1", "one of the three"),
        ('endpoint = "nonsense"', "1", "nonsense"),
        ('endpoint = "http://a:1"\nmetrics = "/metrics"', "4", "each reading is that of another"),
    ],
)
def test_specs_of_one_address_that_do_not_make_sense_are_refused(server, replicas, what):
    text = f'name = "x"\nreplicas = {replicas}\n[server]\n{server}\n[objective]\nlatency = 1.0\n'
    with pytest.raises(NodewiseError, match=what):
        parse_fleet(text)


def test_one_replica_behind_an_address_may_have_metrics():
    text = 'name = "x"\nreplicas = 1\n[server]\nendpoint = "http://a:1"\nmetrics = "/metrics"\n'
    assert parse_fleet(f"{text}[objective]\nlatency = 1.0\n").server.metrics == "/metrics"


def test_a_running_fleet_of_four_needs_no_command(tmp_path):
    text = 'name = "x"\nreplicas = 4\n[server]\nendpoint = "{}"\n[objective]\nlatency = 1.0\n'
    with serving(Script()) as url:
        spec = parse_fleet(text.format(url))
        assert spec.replicas == (4,)
        with replicas_of(spec.server, 4, tmp_path, tmp_path) as replicas:
            assert replicas.endpoints == (url,)
            assert json.dumps(replicas.dead()) == "[]"
