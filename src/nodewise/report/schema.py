"""The JSON Schema of what `nodewise decide --json` prints."""

from typing import Any

import msgspec

from nodewise.decide.decide import Decision
from nodewise.decide.inputs import Question
from nodewise.decide.training import Training
from nodewise.explain.attribute import Attribution
from nodewise.explain.scaling import Scaling
from nodewise.study.check import Check

# The keys that `document` adds to those of the decision.
PARTS: dict[str, Any] = {
    "question": Question,
    "scaling": Scaling | None,
    "attribution": Attribution | None,
    "checks": tuple[Check, ...],
    "decision": Decision,
    "training": Training,
}
_SOMETIMES = {"training"}  # only where hooks saw one


def document_schema() -> dict[str, Any]:
    """The schema of `Findings.document`."""
    (_, *parts), defined = msgspec.json.schema_components([Decision, *PARTS.values()])
    decision = defined["Decision"]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "nodewise decide --json",
        "type": "object",
        "properties": {**decision["properties"], **dict(zip(PARTS, parts, strict=True))},
        "required": sorted({*decision["required"], *PARTS} - _SOMETIMES),
        "$defs": defined,
    }
