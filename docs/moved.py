"""Addresses of version 0.1 that lead to the pages of today; a hook of mkdocs."""

from pathlib import Path
from typing import Any

MOVED = {"first_hour": "start"}


def on_post_build(config: Any) -> None:
    """Write a page under each old name that sends the reader on."""
    for old, new in MOVED.items():
        folder = Path(config["site_dir"]) / old
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "index.html").write_text(
            f'<!doctype html><meta charset="utf-8"><title>{new}</title>'
            f'<meta http-equiv="refresh" content="0; url=../{new}/">'
            f'<a href="../{new}/">This page has moved.</a>\n'
        )
