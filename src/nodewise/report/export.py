"""Tables and reports for elsewhere: Markdown, LaTeX and CSV, with the same cells."""

import csv
import re
from collections.abc import Iterable
from typing import Literal

from nodewise.report.sections import Report
from nodewise.report.tables import BAR, Table

TableFormat = Literal["md", "tex", "csv"]

_LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}",
}  # fmt: skip


def export(table: Table, form: TableFormat, caption: str = "") -> str:
    """A table in one of the formats."""
    if form == "md":
        return markdown_table(table)
    if form == "tex":
        return latex_table(table, caption)
    return csv_table(table)


def markdown_table(table: Table) -> str:
    """A table of pipes.

    >>> table = Table(name="x", titles=("K", ""), rows=(("1", "a|b"),), left=frozenset({""}))
    >>> print(markdown_table(table))
    | K |  |
    |--:|:--|
    | 1 | a\\|b |
    """
    marks = [":--" if title in table.left else "--:" for title in table.titles]
    rows = [table.titles, *table.rows]
    lines = [f"| {' | '.join(_markdown(cell) for cell in row)} |" for row in rows]
    lines.insert(1, f"|{'|'.join(marks)}|")
    return "\n".join(lines)


def latex_table(table: Table, caption: str = "") -> str:
    """A table environment with booktabs rules, ready for a paper."""
    columns = "".join("l" if title in table.left else "r" for title in table.titles)
    rows = [" & ".join(latex(cell) for cell in row) + r" \\" for row in table.rows]
    return "\n".join(
        [
            "% needs \\usepackage{booktabs}",
            r"\begin{table}",
            *([rf"  \caption{{{latex(caption)}}}"] if caption else []),
            rf"  \begin{{tabular}}{{{columns}}}",
            r"    \toprule",
            f"    {' & '.join(latex(title) for title in table.titles)} " + r"\\",
            r"    \midrule",
            *(f"    {row}" for row in rows),
            r"    \bottomrule",
            r"  \end{tabular}",
            r"\end{table}",
        ]
    )


def csv_table(table: Table) -> str:
    """Comma-separated values, as a spreadsheet reads them."""
    lines: list[str] = []

    class _Lines:
        def write(self, line: str) -> None:
            lines.append(line.rstrip("\r\n"))

    writer = csv.writer(_Lines())
    writer.writerow(table.titles)
    writer.writerows(table.rows)
    return "\n".join(lines)


def markdown(report: Report) -> str:
    """A report as Markdown."""
    return "\n".join(_blocks(report)) + "\n"


def _blocks(report: Report) -> Iterable[str]:
    for part in report:
        if isinstance(part, Table):
            yield f"\n{markdown_table(part)}\n"
        elif part.startswith("note: "):
            yield f"> {_markdown(part[6:])}\n"
        elif part.startswith("  - "):
            yield f"- {_markdown(part[4:])}"
        elif part.startswith("  "):
            yield f"- {_markdown(part.strip())}"
        elif re.fullmatch(r"\*\*[^*]*\*\*", part):
            yield f"\n### {_markdown(part.strip('*'))}\n"
        else:
            yield f"{_markdown(part)}\n"


def _markdown(text: str) -> str:
    """Text that is neither HTML nor the end of a cell."""
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace("|", "\\|")
    return " ".join(escaped.split())


def latex(text: str) -> str:
    """A text with its signs escaped; a bar of blocks becomes a rule."""
    bar = re.fullmatch(f"{BAR}+", text)
    if bar:
        return rf"\rule{{{0.2 * len(text):.1f}em}}{{1.2ex}}"
    return "".join(_LATEX.get(character, character) for character in text)
