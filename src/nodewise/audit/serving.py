"""What the rules ask of a claim about a server: tokens, devices, load, percentiles, caches."""

import re

from nodewise.audit.own_study import Answer
from nodewise.study.claim import Claim

_ENOUGH_FOR_P99 = 299  # requests: fewer may all lie below the 99th percentile in 5 % of runs
_SERVING = re.compile(
    r"\b(vllm|sglang|tensorrt-llm|trt-llm|ttft|tpot|inter-token|llm serving|inference server|"
    r"output tokens?/s|llm-d|dynamo|triton server|genai-perf|guidellm)\b",
    re.I,
)
_BOTH_TOKENS = re.compile(
    r"(input|prompt|prefill)\s*(\+|and|plus)\s*(output|generat\w+|decode|completion)( tokens?)?|"
    r"\btotal token (throughput|rate)|total tok(ens)?/s",
    re.I,
)
_OUTPUT = re.compile(r"\b(output|generat\w+|decode|completion) (tok|token|throughput)", re.I)
_APART = re.compile(
    r"disaggregat|\bprefill (gpus?|workers?|nodes?|instances?)|\bP/D\b|\b\d+P\d+D\b"
)
_DECODE_ONLY = re.compile(r"(per|/) ?decode (gpu|worker|node|instance)", re.I)
_CLOSED = re.compile(
    r"closed[- ]loop|max[- ]concurrency|\bconcurren(cy|t (users|clients|requests))", re.I
)
_OPEN = re.compile(r"open[- ]loop|poisson|request[- ]rate|arrival rate|req/s offered", re.I)
_P99 = re.compile(r"\bp99|99th percentile", re.I)
_REQUESTS = re.compile(r"\b(\d[\d,]*)\s*(requests|prompts)\b", re.I)
_CACHE = re.compile(
    r"(prefix|kv|prompt)[- ]cach\w*|cold cache|warm cache|cache (is |was )?(off|disabled|cleared)|"
    r"unique prompts",
    re.I,
)
_OTHER_RUN = re.compile(
    r"latenc\w+[^.\n]{0,40}\b(separate(ly)?|another|different)( run)?|"
    r"latenc\w+[^.\n]{0,30}(at|with) (batch( size)?|concurrency) (of )?1\b",
    re.I,
)


def is_serving(claim: Claim) -> bool:
    """Whether the claim is about a server: by its columns, or by its words and a rate."""
    named = {one.column for one in claim.reading} & {"ttft", "tpot", "load", "requests"}
    return bool(named) or (claim.main == "throughput" and bool(_SERVING.search(_words(claim))))


def _words(claim: Claim) -> str:
    return " ".join([claim.text, *(one.title for one in claim.reading)])


def _quoted(claim: Claim, pattern: re.Pattern[str]) -> str:
    found = pattern.search(_words(claim))
    return f'"{found[0]}"' if found else ""


def tokens(claim: Claim) -> Answer:
    """Whether the rate counts input tokens as output."""
    if said := _quoted(claim, _BOTH_TOKENS):
        return Answer("fail", f"the rate adds input tokens to output tokens: {said}")
    if said := _quoted(claim, _OUTPUT):
        return Answer("pass", f"stated: {said}")
    return Answer("unknown", "not stated whether the rate counts input tokens")


def devices(claim: Claim) -> Answer:
    """Whether rates per device count all devices of a split set-up."""
    apart = _quoted(claim, _APART)
    if not apart:
        return Answer("pass", "no separate prefill and decode devices are stated")
    if said := _quoted(claim, _DECODE_ONLY):
        return Answer("fail", f"prefill devices are left out of the division: {said} under {apart}")
    return Answer("unknown", f"not stated which devices the rate is divided by: {apart}")


def loop(claim: Claim) -> Answer:
    """Whether requests came at a rate of their own, or waited for answers."""
    if said := _quoted(claim, _OPEN):
        return Answer("pass", f"stated: {said}")
    if said := _quoted(claim, _CLOSED):
        return Answer("fail", f"a closed loop sends less when answers are slow: {said}")
    return Answer("unknown", "not stated how requests arrived")


def percentile(claim: Claim) -> Answer:
    """Whether a 99th percentile is of enough requests."""
    said = _quoted(claim, _P99)
    if not said:
        return Answer("unknown", "no 99th percentile is claimed")
    counts = [row["requests"].value for row in claim.rows if "requests" in row]
    counts += [float(found[1].replace(",", "")) for found in _REQUESTS.finditer(claim.text)]
    if not counts:
        return Answer("unknown", f"number of requests not stated: {said}")
    if min(counts) < _ENOUGH_FOR_P99:
        return Answer("fail", f"{said} of {min(counts):g} requests; {_ENOUGH_FOR_P99} are needed")
    return Answer("pass", f"{said} of {min(counts):g} requests or more")


def cache(claim: Claim) -> Answer:
    """Whether the prompt cache state is stated."""
    if said := _quoted(claim, _CACHE):
        return Answer("pass", f"stated: {said}")
    return Answer("unknown", "not stated whether prompts came from a cache")


def one_run(claim: Claim) -> Answer:
    """Whether latency and throughput are of the same run."""
    if said := _quoted(claim, _OTHER_RUN):
        return Answer("fail", f"latency and throughput are of different runs: {said}")
    return Answer("unknown", "not stated whether latency and throughput are of one run")
