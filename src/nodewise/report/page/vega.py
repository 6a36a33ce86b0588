"""The scripts that draw charts in a page, made once for each version and kept on disk."""

import os
from importlib.metadata import version
from pathlib import Path


def vega_bundle() -> str:
    """Vega, Vega-Lite and their embedder as one module, from the package that holds them."""
    kept = _cache() / f"vega-{version('vl-convert-python')}.js"
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

    made: str = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    return made.replace("</script", "<\\/script")  # it stands inside such an element


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "nodewise"
