"""What a TOML file asks of a study, apart from what it measures.

One file may hold both. The question is kept as the file writes it; `nodewise.decide.inputs` has
the one table of its inputs and reads it. Changing it never asks for a new measurement.
"""

from typing import Any

# Top-level keys of the file that belong to the question. `scenarios` was asked by version 0.1.
KEYS = (
    "price", "energy", "gates", "regime", "threshold", "center", "work_unit", "unit", "per_node",
    "peak_tflops",
    "scenarios",
)  # fmt: skip
_QUALITY = (
    "tolerance",
    "better",
    "target_loss",
)  # the rest of [quality] describes what is measured

Tables = dict[str, Any]  # as the TOML file has them


def split(raw: Tables) -> tuple[Tables, Tables]:
    """The measured part of a file, and the asked part."""
    measured = {key: value for key, value in raw.items() if key not in KEYS}
    asked = {key: value for key, value in raw.items() if key in KEYS}
    quality = raw.get("quality")
    if isinstance(quality, dict):
        measured["quality"] = {k: v for k, v in quality.items() if k not in _QUALITY}
        asked["quality"] = {k: v for k, v in quality.items() if k in _QUALITY}
    return measured, asked
