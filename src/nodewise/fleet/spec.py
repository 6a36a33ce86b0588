"""What a sweep of a fleet is to measure: the TOML file that a user writes, as frozen structs."""

import re
import tomllib
from typing import Annotated, Any, Literal

import msgspec

from nodewise.base.errors import SpecError
from nodewise.fleet.load.client import Route, address_of
from nodewise.study.service_objective import Objective
from nodewise.study.spec import Amount, Part, Positive, convert

NotNegative = Amount
Count = Annotated[int, msgspec.Meta(ge=1, le=10**9)]
Api = Literal["chat", "completions", "json", "plain"]
Arrivals = Literal["poisson", "constant", "bursts", "trace"]

_KEYS = ("authorization", "proxy-authorization", "x-api-key", "api-key")
_HIDDEN = "***"


class Server(Part, frozen=True, kw_only=True):
    """The replicas: a command that starts one, or the addresses of those that run already."""

    command: tuple[str, ...] = ()  # {port}, {replica}, {replicas} and {python} are filled in
    behind_one_port: bool = False  # the command starts all {replicas}, and {port} leads to them
    endpoints: tuple[str, ...] = ()  # r replicas are the first r of them
    endpoint: str = ""  # one address that leads to all replicas
    # Sets the number of replicas behind `endpoint` to {n}, and returns when they are ready.
    scale: str = ""
    ca: str = ""  # PEM files from the folder of the spec: whom to trust
    certificate: str = ""  # of the client
    key: str = ""
    directory: str = "."  # from the folder of the spec
    environment: dict[str, str] = msgspec.field(default_factory=dict)
    # Answers 200 as soon as a replica is ready. Default: /health; without one, a connection.
    health: str | None = None
    metrics: str = ""  # the Prometheus page of a replica: /metrics
    start_seconds: Positive = 120.0
    cores_per_replica: Positive | None = None  # a quota for each, to rehearse a larger fleet

    @property
    def urls(self) -> tuple[str, ...]:
        """The addresses that are given."""
        return (self.endpoint,) if self.endpoint else self.endpoints


class Lengths(Part, frozen=True, kw_only=True):
    """Log-normal lengths, by their median and the one that a tenth is above."""

    median: Count
    p90: Count
    most: Count = 100_000


Length = tuple[Count, Count] | Lengths


class SharedPrefixes(Part, frozen=True, kw_only=True):
    """Texts with which prompts begin, the same in every window: system prompts."""

    count: Count = 1
    words: Count


class Content(Part, frozen=True, kw_only=True):
    """What requests ask. Lengths are drawn: equal ones hide a bad router."""

    prompts: str = ""  # a file from the folder of the spec: JSONL or ShareGPT; else random words
    prompt_words: Length = (16, 64)
    output_tokens: Length = (16, 64)
    shared_prefixes: SharedPrefixes | None = None
    turns: tuple[Count, Count] = (1, 1)  # of a session
    turn_seconds: tuple[Positive, Positive] = (5.0, 30.0)  # from one to the next
    weight: Positive = 1.0  # its share of the requests of a mix


class RequestSpec(Content, frozen=True, kw_only=True):
    """What is asked, and how."""

    api: Api = "completions"
    path: str = ""  # default: that of the API
    model: str = "default"
    mix: tuple[Content, ...] = ()  # of several kinds of requests
    stream: bool = True
    # More fields of the body: ignore_eos, temperature.
    options: dict[str, Any] = msgspec.field(default_factory=dict)
    body: str = ""  # json, plain: the body, in which {prompt} and {output_tokens} are filled in
    method: Literal["POST", "GET", "PUT"] = "POST"
    headers: dict[str, str] = msgspec.field(default_factory=dict)
    timeout_seconds: Positive = 30.0
    # tokenizer.json of the model, from the folder of the spec: counts where usage is missing.
    tokenizer: str = ""

    @property
    def parts(self) -> tuple[Content, ...]:
        """The kinds of requests."""
        return self.mix or (self,)


class LoadSpec(Part, frozen=True, kw_only=True):
    """How requests arrive, how long a window is, and how closely the rate is searched."""

    arrivals: Arrivals = "poisson"
    burst_size: Count = 8
    trace: str = ""  # a file of arrival times and lengths, from the folder of the spec
    route: Route = "least outstanding"
    first_rate_per_second: Positive = 1.0  # of one replica
    most_rate_per_second: Positive = 100000.0
    precision: Annotated[float, msgspec.Meta(ge=0.01, le=1)] = 0.1
    window_seconds: Positive = 10.0  # at least; longer where the requests would be too few
    most_window_seconds: Positive = 120.0
    warmup_seconds: NotNegative = 2.0
    drain_seconds: Positive = 10.0
    most_connections: Count = 1024


class Demand(Part, frozen=True, kw_only=True):
    """What the fleet has to serve."""

    per_second: Positive | None = None  # requests
    curve: tuple[NotNegative, ...] = ()  # requests per second in equal parts of a day
    curve_days: Positive = 1.0  # that the curve lasts: 7 for a week
    startup_seconds: NotNegative = 0.0  # until a new replica serves, for an autoscaler's bill
    spares: Annotated[int, msgspec.Meta(ge=0)] = 0  # replicas that may be lost
    goal: Literal["cost", "throughput", "latency"] = "cost"


class ReplicaPrice(Part, frozen=True, kw_only=True):
    """What a replica costs."""

    per_replica_hour: NotNegative | None = None
    fixed_per_hour: NotNegative = 0.0
    source: str = ""


class FleetSpec(Part, frozen=True, kw_only=True):
    """A sweep: which fleet, which requests, at which numbers of replicas, within which limit."""

    format: Literal[1] = 1
    name: Annotated[str, msgspec.Meta(min_length=1, max_length=100)]
    replicas: Annotated[tuple[Count, ...], msgspec.Meta(min_length=1)]
    rounds: Count = 3
    seed: int = 7
    server: Server
    request: RequestSpec = RequestSpec()
    load: LoadSpec = LoadSpec()
    objective: Objective
    demand: Demand = Demand()
    price: ReplicaPrice = ReplicaPrice()


def parse_fleet(text: str) -> FleetSpec:
    """The fleet in a TOML text."""
    try:
        raw = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # too many digits, too deep
        raise SpecError(f"The spec is not TOML: {error}.", "See docs/load.md.") from None
    if isinstance(raw.get("replicas"), int):  # one number is a list of one
        raw["replicas"] = [raw["replicas"]]
    spec = convert(raw, FleetSpec, "", "docs/load.md")
    _check(spec)
    return spec


def without_keys(spec: FleetSpec) -> FleetSpec:
    """The spec with *** for the headers that hold a key."""
    headers = {
        name: _HIDDEN if name.lower() in _KEYS else value
        for name, value in spec.request.headers.items()
    }
    request = msgspec.structs.replace(spec.request, headers=headers)
    return msgspec.structs.replace(spec, request=request)


def text_without_keys(text: str) -> str:
    """The text of a spec with *** for the headers that hold a key.

    >>> spec = 'name = "x"\\nreplicas = 1\\nserver.endpoint = "http://a"\\nobjective.ttft = 1\\n'
    >>> text_without_keys(spec + 'request.headers.Authorization = "Bearer k"').splitlines()[-1]
    'request.headers.Authorization = "***"'
    """
    spec, hidden = parse_fleet(text), text
    for name, value in spec.request.headers.items():
        if name.lower() in _KEYS:
            written = rf"""(["']?{re.escape(name)}["']?\s*=\s*)(["']){re.escape(value)}\2"""
            hidden = re.sub(written, rf'\1"{_HIDDEN}"', hidden)
    if parse_fleet(hidden) != without_keys(spec):
        raise SpecError(
            "request.headers: this key cannot be removed from the copy in the study folder.",
            "Write it as one string in quotes, without a backslash.",
        )
    return hidden


def _check(spec: FleetSpec) -> None:
    if len(set(spec.replicas)) != len(spec.replicas):
        raise SpecError("replicas: a number is listed twice.", "Name each number once.")
    server = spec.server
    if [bool(server.command), bool(server.endpoints), bool(server.endpoint)].count(True) != 1:
        raise SpecError(
            "server: give a command, endpoints or an endpoint, one of the three.",
            'Write command = ["my-server", "--port", "{port}"] or endpoints = ["http://..."].',
        )
    _check_scale(spec)
    if bool(server.key) and not server.certificate:
        raise SpecError(
            "server.key: the certificate that belongs to it is not named.",
            'Write certificate = "client.pem" too.',
        )
    if spec.server.behind_one_port:
        _check_one_port(spec)
    for url in spec.server.urls:
        address_of(url)
    if spec.server.endpoints and max(spec.replicas) > len(spec.server.endpoints):
        raise SpecError(
            f"server.endpoints: {max(spec.replicas)} replicas are requested, "
            f"but only {len(spec.server.endpoints)} addresses are given.",
            "Name as many addresses as the largest number of replicas.",
        )
    _check_request(spec.request)
    if spec.load.arrivals == "trace" and not spec.load.trace:
        raise SpecError(
            "load.trace: the trace has no request to replay.", 'Write trace = "times.csv".'
        )


def _check_request(request: RequestSpec) -> None:
    own = request.api in ("json", "plain")
    if own and not request.path:
        raise SpecError("request.path: this API has no default path.", 'Write path = "/...".')
    if own and request.tokenizer:
        raise SpecError(
            "request.tokenizer: the place of the text in answers of this API is unknown.",
            'Leave it out, or write api = "completions" or "chat".',
        )
    shared = {field.name for field in msgspec.structs.fields(Content)}
    if request.mix and any(name in shared for name in _stated(request)):
        raise SpecError(
            "request.mix: prompts or lengths are also stated outside of the mix.",
            "State prompts and lengths in each [[request.mix]] only.",
        )
    for part in request.parts:
        _check_content(part)


def _stated(request: RequestSpec) -> list[str]:
    """The fields that differ from their defaults."""
    plain = RequestSpec()
    names = [field.name for field in msgspec.structs.fields(RequestSpec)]
    return [name for name in names if getattr(request, name) != getattr(plain, name)]


def _check_content(part: Content) -> None:
    for field in ("prompt_words", "output_tokens", "turns", "turn_seconds"):
        bounds = getattr(part, field)
        if isinstance(bounds, Lengths):
            if bounds.median > bounds.p90:
                raise SpecError(
                    f"request.{field}: the median {bounds.median} is above p90 {bounds.p90}.",
                    "Write {median = ..., p90 = ...}.",
                )
        elif bounds[0] > bounds[1]:
            what = f"request.{field}: {bounds[0]:g} is above {bounds[1]:g}."
            raise SpecError(what, "Write [least, most].")


def _check_scale(spec: FleetSpec) -> None:
    server = spec.server
    if server.scale and not (server.endpoint and "{n}" in server.scale):
        raise SpecError(
            "server.scale: it needs an endpoint, and {n} for the number of replicas.",
            'Write endpoint = "http://..." and scale = "kubectl scale deploy/x --replicas={n}".',
        )
    if server.endpoint and not server.scale and len(spec.replicas) > 1:
        raise SpecError(
            "server.endpoint: the number of replicas behind it cannot be changed.",
            'Write scale = "kubectl scale deploy/x --replicas={n}", or one number of replicas.',
        )
    if server.endpoint and server.metrics and max(spec.replicas) > 1:
        raise SpecError(
            "server.metrics: behind one endpoint each reading is that of another replica.",
            "Leave it out, or name the address of each replica in server.endpoints.",
        )


def _check_one_port(spec: FleetSpec) -> None:
    if not spec.server.command:
        raise SpecError(
            "server.behind_one_port: it needs server.command.",
            "Leave it out: existing endpoints are used as they are.",
        )
    if len(spec.replicas) > 1 and not any("{replicas}" in word for word in spec.server.command):
        raise SpecError(
            "server.command: it does not say how many replicas to start.",
            'Write "{replicas}" where it takes their number.',
        )
    if spec.server.cores_per_replica is not None:
        raise SpecError(
            "server.cores_per_replica: one command starts all replicas, so none has a quota.",
            "Leave it out, or start each replica with a command of its own.",
        )
