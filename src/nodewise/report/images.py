"""A chart as a picture: SVG, PNG or PDF, or the Vega-Lite definition it is made from."""

import json
from typing import Literal

from nodewise.report.charts.look import Definition

ImageFormat = Literal["svg", "png", "pdf", "json"]


def image(chart: Definition, form: ImageFormat) -> bytes:
    """The bytes of the picture; a PNG has twice the pixels of a screen."""
    import vl_convert

    if form == "json":
        return json.dumps(chart, indent=2).encode()
    if form == "svg":
        return bytes(vl_convert.vegalite_to_svg(chart), "utf-8")
    if form == "pdf":
        return bytes(vl_convert.vegalite_to_pdf(chart))
    return bytes(vl_convert.vegalite_to_png(chart, scale=2))
