"""One result in each format that CI systems read. Every format has a row in `FORMATS`."""

import json
from collections.abc import Callable
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from nodewise.base.errors import printable
from nodewise.base.units import format_efficiency
from nodewise.report.ci.content import CiReport, Figure
from nodewise.report.export import markdown as as_markdown
from nodewise.report.sections import Report

_DASH = "\N{EN DASH}"
MARKER = "<!-- nodewise history -->"  # finds the comment that is to be replaced
_LEVELS = {"passed": "notice", "failed": "error", "in doubt": "warning"}
_COLORS = {"passed": "#087f5f", "failed": "#c0271d", "in doubt": "#b8580c"}
# Name, unit and meaning of each metric in OpenMetrics; a family is called name_unit.
_FAMILIES = {
    "time": ("nodewise_run", "seconds", "Mean time of a run."),
    "efficiency": ("nodewise_efficiency", "ratio", "Speedup over ideal speedup."),
    "cost": ("nodewise_run_cost", "", "Cost of a run."),
    "memory": ("nodewise_memory", "bytes", "Largest memory of a rank."),
    "energy": ("nodewise_run", "joules", "Energy of a run."),
}
_WIDTH, _HEIGHT = 6.6, 20  # of a letter of a badge, and of the badge


def junit(report: CiReport) -> str:
    """JUnit XML: a case for each gate and slowdown; what is in doubt is skipped."""
    counts = {
        "tests": str(len(report.cases)),
        "failures": str(sum(case.state == "failed" for case in report.cases)),
        "errors": "0",
    }
    skipped = str(sum(case.state == "in doubt" for case in report.cases))
    root = ElementTree.Element("testsuites", {"name": "nodewise", **counts})
    about = {"name": report.title or "nodewise", **counts, "skipped": skipped, "time": "0"}
    if report.date:
        about["timestamp"] = report.date.removesuffix("Z")
    suite = ElementTree.SubElement(root, "testsuite", about)
    if report.commit:
        properties = ElementTree.SubElement(suite, "properties")
        ElementTree.SubElement(properties, "property", {"name": "commit", "value": report.commit})
    for case in report.cases:
        made = ElementTree.SubElement(
            suite, "testcase", {"classname": case.group, "name": case.name, "time": "0"}
        )
        if case.state == "failed":
            about = {"message": case.message, "type": "slower"}
            ElementTree.SubElement(made, "failure", about).text = printable(case.message)
        elif case.state == "in doubt":
            ElementTree.SubElement(made, "skipped", {"message": case.message})
    ElementTree.indent(root)
    for element in root.iter():  # XML has no place for control characters
        element.attrib = {name: printable(value) for name, value in element.attrib.items()}
    head = '<?xml version="1.0" encoding="UTF-8"?>\n'
    return head + ElementTree.tostring(root, encoding="unicode") + "\n"


def markdown(report: CiReport) -> str:
    """A comment for a pull request, or the summary of a step."""
    parts: Report = [*report.lines, *([report.table] if report.table is not None else [])]
    body = as_markdown(parts) if parts else ""
    head = f"{MARKER}\n### nodewise: {report.title}\n\n**{report.headline}.**\n\n"
    return (head + body).rstrip() + "\n"


def annotations(report: CiReport) -> str:
    """GitHub's workflow commands; print them to standard output."""

    def data(text: str) -> str:
        return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")

    def title(text: str) -> str:
        return data(text).replace(":", "%3A").replace(",", "%2C")

    shown = [case for case in report.cases if case.state != "passed"]
    lines = [
        f"::{_LEVELS[one.state]} title={title(one.name)}::{data(one.message)}" for one in shown
    ]
    return "\n".join(lines or [f"::notice title=nodewise::{data(report.headline)}"]) + "\n"


def openmetrics(report: CiReport) -> str:
    """OpenMetrics text for Prometheus, Grafana and the metrics report of GitLab."""
    lines = []
    for metric, (name, unit, meaning) in _FAMILIES.items():
        found = [one for one in report.figures if one.metric == metric]
        bounded = [(_labels(one, report), one.interval) for one in found if one.interval]
        samples = {
            "": [(_labels(one, report), one.value) for one in found],
            "low": [(labels, interval.low) for labels, interval in bounded],
            "high": [(labels, interval.high) for labels, interval in bounded],
        }
        for bound, rows in samples.items():
            words = f" The {bound} 95 % bound." if bound else ""
            family = "_".join(part for part in (name, bound, unit) if part)
            lines += _family(family, unit, meaning + words, rows)
    failed = float(report.state == "failed")
    state = [(f'{{state="{report.state}"}}', failed)]
    lines += _family("nodewise_check_failed", "", "1 if the build fails, else 0.", state)
    slower = [(f'{{scope="{_quoted(where)}"}}', ratio) for where, ratio in report.slowdowns]
    lines += _family("nodewise_slowdown_ratio", "ratio", "New time over old time.", slower)
    return "\n".join([*lines, "# EOF"]) + "\n"


def _family(name: str, unit: str, meaning: str, samples: list[tuple[str, float]]) -> list[str]:
    if not samples:
        return []
    head = [f"# TYPE {name} gauge", *([f"# UNIT {name} {unit}"] if unit else [])]
    return [*head, f"# HELP {name} {meaning}", *(f"{name}{at} {value!r}" for at, value in samples)]


def _labels(figure: Figure, report: CiReport) -> str:
    money = f',currency="{_quoted(report.currency)}"' if figure.metric == "cost" else ""
    return f'{{workload="{_quoted(figure.workload)}",K="{figure.nodes}"{money}}}'


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def benchmark_action(report: CiReport) -> str:
    """JSON for github-action-benchmark, tool customSmallerIsBetter."""
    units = {"time": "s", "cost": report.currency, "memory": "B", "energy": "J"}
    rows = []
    for one in report.figures:
        if one.metric not in units:
            continue
        name = f"{one.workload} K={one.nodes}"
        row = {"name": name if one.metric == "time" else f"{name} {one.metric}",
               "unit": units[one.metric], "value": one.value}  # fmt: skip
        if one.interval is not None:
            row["range"] = f"± {(one.interval.high - one.interval.low) / 2:.3g}"
        rows.append(row)
    return json.dumps(rows, indent=2, ensure_ascii=False) + "\n"


def bencher(report: CiReport) -> str:
    """Bencher Metric Format; its latency is in nanoseconds."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for one in report.figures:
        factor, measure = (1e9, "latency") if one.metric == "time" else (1.0, one.metric)
        row = {"value": factor * one.value}
        if one.interval is not None:
            row["lower_value"] = factor * one.interval.low
            row["upper_value"] = factor * one.interval.high
        found.setdefault(f"{one.workload} K={one.nodes}", {})[measure] = row
    return json.dumps(found, indent=2, ensure_ascii=False) + "\n"


def badge(report: CiReport) -> str:
    """An SVG: the efficiency at the largest K with its interval, in the colour of the verdict."""
    known = [one for one in report.figures if one.metric == "efficiency"]
    label, value = "scaling", str(report.state)
    if known:
        most = max(known, key=lambda one: one.nodes)
        label, value = f"efficiency at K={most.nodes}", format_efficiency(most.value)
        if most.interval is not None:
            low, high = map(format_efficiency, most.interval)
            value += f" ({low}{_DASH}{high})"
    left, right = (round(_WIDTH * len(words) + 12) for words in (label, value))
    text = 'y="14" text-anchor="middle" fill="#fff"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + right}" height="{_HEIGHT}" '
        f'role="img" aria-label="{escape(f"{label}: {value}; {report.state}")}">'
        f"<title>{escape(f'{label}: {value}; {report.state}')}</title>"
        f'<clipPath id="r"><rect width="{left + right}" height="{_HEIGHT}" rx="3"/></clipPath>'
        f'<g clip-path="url(#r)"><rect width="{left}" height="{_HEIGHT}" fill="#4a5058"/>'
        f'<rect x="{left}" width="{right}" height="{_HEIGHT}" fill="{_COLORS[report.state]}"/></g>'
        f'<g font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">'
        f'<text x="{left / 2}" textLength="{left - 12}" {text}>{escape(label)}</text>'
        f'<text x="{left + right / 2}" textLength="{right - 12}" {text}>{escape(value)}</text>'
        "</g></svg>\n"
    )


FORMATS: dict[str, Callable[[CiReport], str]] = {
    "junit": junit,
    "markdown": markdown,
    "annotations": annotations,
    "openmetrics": openmetrics,
    "benchmark-action": benchmark_action,
    "bencher": bencher,
    "badge": badge,
}
