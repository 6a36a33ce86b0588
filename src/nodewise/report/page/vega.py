"""What a page needs to draw, kept on disk: the scripts, and the pictures of charts.

To start the converter takes longer than all the rest of a page.
"""

import base64
import contextlib
import gzip
import hashlib
import json
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

from nodewise.report.charts.look import Definition
from nodewise.report.images import image
from nodewise.study.files import read_own, replace

_MAKES_BUNDLE = """import sys, vl_convert
sys.stdout.buffer.write(vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;").encode())"""
_MOST_PICTURES = 500  # kept; a page has about ten of 20 kB


def vega_bundle() -> str:
    """Vega, Vega-Lite and their embedder as one script, from the package that holds them.

    It is compressed, in base 64: a page unpacks it when the reader first points at a chart.
    """
    kept = _cache() / f"vega-{version('vl-convert-python')}.js.gz.txt"
    try:
        return read_own(kept).decode()
    except OSError:
        bundle = _bundle()
    _keep(kept, bundle)
    return bundle


def chart_svg(chart: Definition) -> str:
    """The picture of a chart; one that was drawn before by this converter is not drawn again."""
    drawn_from = json.dumps([version("vl-convert-python"), chart], sort_keys=True)
    folder = _cache() / "charts"
    kept = folder / f"{hashlib.sha256(drawn_from.encode()).hexdigest()}.svg"
    try:
        return read_own(kept).decode()
    except OSError:
        drawn = image(chart, "svg").decode()
    _keep(kept, drawn)
    with contextlib.suppress(OSError):
        oldest = sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime)
        for path in oldest[:-_MOST_PICTURES]:
            path.unlink(missing_ok=True)
    return drawn


def _keep(path: Path, text: str) -> None:
    with contextlib.suppress(OSError):  # nowhere to keep it: the next page takes a second longer
        path.parent.mkdir(parents=True, exist_ok=True)
        replace(path, text)


def _bundle() -> str:
    """Made in a process of its own: it takes 100 MB, which the converter would never give back.

    -P: a module in the folder where the user happens to be is not ours.
    """
    done = subprocess.run(
        [sys.executable, "-P", "-c", _MAKES_BUNDLE], capture_output=True, check=True
    )
    return base64.b64encode(gzip.compress(done.stdout, mtime=0)).decode()


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "nodewise"
