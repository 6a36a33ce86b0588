"""The scripts that draw charts in a page, made once for each version and kept on disk."""

import base64
import gzip
import os
from importlib.metadata import version
from pathlib import Path


def vega_bundle() -> str:
    """Vega, Vega-Lite and their embedder as one script, from the package that holds them.

    It is compressed, in base 64: a page unpacks it when the reader first points at a chart.
    """
    kept = _cache() / f"vega-{version('vl-convert-python')}.js.gz.txt"
    try:
        return kept.read_text(encoding="utf-8")
    except OSError:
        bundle = _bundle()
    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
        part = kept.with_suffix(f".{os.getpid()}.part")
        part.write_text(bundle, encoding="utf-8")
        part.replace(kept)
    except OSError:
        pass  # nowhere to keep it: the next page takes a second longer
    return bundle


def _bundle() -> str:
    import vl_convert

    script: str = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    return base64.b64encode(gzip.compress(script.encode(), mtime=0)).decode()


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "nodewise"
