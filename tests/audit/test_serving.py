"""What the rules ask of claims about a server."""

import re
from pathlib import Path

import pytest

from nodewise.audit.rules import audit, read_rules
from nodewise.importers.tables.claims_tables import claims_of_text

RULES = read_rules()
TABLE = "| GPUs | {} |\n|--|--|\n| 1 | 100 |\n| 2 | 190 |\n| 4 | 360 |\n"


def verdicts(text):
    (claim,) = claims_of_text(text, "claim", None)
    return {c.key: c.verdict for c in audit(claim, RULES).checks if c.key.startswith("serving")}


@pytest.mark.parametrize(
    ("key", "verdict", "words", "title"),
    [
        ("tokens", "fail", "vLLM, input + output tokens", "tokens/s"),
        ("tokens", "pass", "vLLM, output tokens/s", "output tokens/s"),
        ("tokens", "unknown", "vLLM", "tokens/s"),
        ("devices", "fail", "SGLang, disaggregated; per decode GPU", "tokens/s"),
        ("devices", "unknown", "SGLang, disaggregated", "tokens/s"),
        ("devices", "pass", "SGLang", "tokens/s"),
        ("loop", "fail", "vLLM with max-concurrency 64", "tokens/s"),
        ("loop", "pass", "vLLM, Poisson arrivals", "tokens/s"),
        ("percentile", "fail", "vLLM, p99 TTFT of 100 requests", "tokens/s"),
        ("percentile", "pass", "vLLM, p99 TTFT of 1,000 requests", "tokens/s"),
        ("percentile", "unknown", "vLLM, p99 TTFT", "tokens/s"),
        ("cache", "pass", "vLLM, prefix caching disabled", "tokens/s"),
        ("cache", "unknown", "vLLM", "tokens/s"),
        ("one-run", "fail", "vLLM; latency was measured at concurrency 1", "tokens/s"),
        ("one-run", "unknown", "vLLM", "tokens/s"),
    ],
)
def test_a_serving_rule_answers(key, verdict, words, title):
    assert verdicts(f"{words}\n\n{TABLE.format(title)}")[f"serving-{key}"] == verdict


def test_other_claims_are_not_asked():
    assert verdicts(TABLE.format("samples/s")) == {}


def test_a_load_is_not_a_number_of_devices():
    text = "| Concurrency | TTFT (ms) | tok/s |\n|--|--|--|\n| 1 | 20 | 90 |\n| 8 | 25 | 400 |\n"
    (claim,) = claims_of_text(text, "claim", None)
    assert claim.is_load
    found = {check.key: check for check in audit(claim, RULES).checks}
    assert "load on one set-up" in found["superlinear"].evidence
    assert found["serving-loop"].verdict == "fail"


def test_the_rules_of_servers_and_the_dossier_are_in_plain_words():
    root = Path(__file__).parents[2]
    source = root / "src" / "nodewise"
    paths = [source / "audit" / "serving.py", root / "docs" / "dossier.md"]
    for folder in ("report/dossier", "decide/allocation", "importers/tables"):
        paths += [path for path in (source / folder).iterdir() if path.is_file()]
    texts = {path.name: path.read_text() for path in paths}
    texts |= {rule.key: f"{rule}" for rule in RULES if rule.applies == "serving"}
    assert [
        name for name, text in texts.items() if re.search(r"\b(told|nobody|stands)\b", text)
    ] == []
