"""The blocks of a document as DOCX, for a word processor."""

from collections.abc import Sequence
from io import BytesIO
from typing import TYPE_CHECKING

from nodewise.base.errors import RunError
from nodewise.report.dossier.blocks import TODO, Block, Picture, Title
from nodewise.report.tables import Table

if TYPE_CHECKING:
    from docx.document import Document


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
