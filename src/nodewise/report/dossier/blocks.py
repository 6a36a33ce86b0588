"""A document as blocks, and the same blocks as Markdown and LaTeX."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from nodewise.report.export import latex, markdown_table
from nodewise.report.tables import Table

TODO = "TODO(author): "


class Title(NamedTuple):
    """A heading; level 1 is that of the document."""

    text: str
    level: int = 2


class Paragraph(NamedTuple):
    """Sentences."""

    text: str


class Picture(NamedTuple):
    """A chart: the name of its file without ending, what it shows, and its bytes by format."""

    name: str
    caption: str
    png: bytes
    pdf: bytes


Block = Title | Paragraph | Table | Picture


def as_markdown(blocks: Sequence[Block]) -> str:
    """The document as Markdown."""
    parts = []
    for block in blocks:
        if isinstance(block, Title):
            parts.append(f"{'#' * block.level} {block.text}")
        elif isinstance(block, Table):
            parts.append(markdown_table(block))
        elif isinstance(block, Picture):
            parts.append(f"![{block.caption}]({block.name}.png)\n\n*{block.caption}*")
        else:
            parts.append(_marked(block.text))
    return "\n\n".join(parts) + "\n"


def _marked(text: str) -> str:
    return f"**{text}**" if text.startswith(TODO) else text


def as_latex(blocks: Sequence[Block]) -> str:
    """The document as LaTeX that compiles by itself; it needs graphicx only."""
    parts = [
        r"\documentclass[11pt,a4paper]{article}",
        r"\usepackage[T1]{fontenc}",
        r"\usepackage[utf8]{inputenc}",
        r"\usepackage{graphicx}",
        r"\setlength{\parindent}{0pt}\setlength{\parskip}{6pt}",
        r"\begin{document}",
    ]
    for block in blocks:
        if isinstance(block, Title):
            kind = "section*" if block.level < 3 else "subsection*"
            large = rf"{{\Large\bfseries {latex(block.text)}\par}}"
            parts.append(large if block.level == 1 else rf"\{kind}{{{latex(block.text)}}}")
        elif isinstance(block, Table):
            parts.append(_latex_table(block))
        elif isinstance(block, Picture):
            parts += [
                r"\begin{center}",
                rf"\includegraphics[width=0.72\textwidth]{{{block.name}.pdf}}",
                "",
                rf"\small {latex(block.caption)}",
                r"\end{center}",
            ]
        else:
            text = latex(block.text)
            parts.append(rf"\textbf{{{text}}}" if block.text.startswith(TODO) else text)
        parts.append("")
    return "\n".join([*parts, r"\end{document}", ""])


def _latex_table(table: Table) -> str:
    columns = "".join("l" if title in table.left else "r" for title in table.titles)
    rows = [" & ".join(latex(cell) for cell in row) + r" \\" for row in table.rows]
    head = " & ".join(latex(title) for title in table.titles) + r" \\ \hline"
    body = "\n".join([head, *rows])
    return "\n".join(
        [
            r"\begin{center}",
            rf"\begin{{tabular}}{{{columns}}}",
            r"\hline",
            body,
            r"\hline",
            r"\end{tabular}",
            r"\end{center}",
        ]
    )


def file_stem(name: str) -> str:
    """A name that a file, and LaTeX, may have.

    >>> file_stem("heat 2D (µm)")
    'heat-2D-m'
    """
    return re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-") or "study"
