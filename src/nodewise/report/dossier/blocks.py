"""A document as blocks, and the same blocks as Markdown, LaTeX and DOCX."""

import re
from collections.abc import Sequence
from io import BytesIO
from typing import TYPE_CHECKING, NamedTuple

from nodewise.base.errors import RunError
from nodewise.report.export import latex, markdown_table
from nodewise.report.tables import Table

if TYPE_CHECKING:
    from docx.document import Document

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


def as_docx(blocks: Sequence[Block]) -> bytes:
    """The document for a word processor."""
    try:
        import docx
        from docx.shared import Cm
    except ImportError:
        raise RunError(
            "A .docx needs the package python-docx.", "Install it: pip install 'nodewise[docx]'"
        ) from None
    document: Document = docx.Document()
    for block in blocks:
        if isinstance(block, Title):
            document.add_heading(block.text, level=min(block.level - 1, 4))
        elif isinstance(block, Table):
            _docx_table(document, block)
        elif isinstance(block, Picture):
            document.add_picture(BytesIO(block.png), width=Cm(12))
            document.add_paragraph(block.caption)
        else:
            run = document.add_paragraph().add_run(block.text)
            run.bold = block.text.startswith(TODO)
    made = BytesIO()
    document.save(made)
    return made.getvalue()


def _docx_table(document: "Document", table: Table) -> None:
    made = document.add_table(rows=1, cols=len(table.titles))
    made.style = "Light Grid Accent 1"
    for cell, title in zip(made.rows[0].cells, table.titles, strict=True):
        cell.text = title
    for row in table.rows:
        for cell, text in zip(made.add_row().cells, row, strict=True):
            cell.text = text


def file_stem(name: str) -> str:
    """A name that a file, and LaTeX, may have.

    >>> file_stem("heat 2D (µm)")
    'heat-2D-m'
    """
    return re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-") or "study"
