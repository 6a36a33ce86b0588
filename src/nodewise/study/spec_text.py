"""A spec as TOML text, for study folders that no user wrote a spec for."""

import json
import re
from typing import Any

import msgspec

from nodewise.study.question import Tables
from nodewise.study.spec import Spec

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def spec_text(spec: Spec, asked: Tables | None = None, comment: str = "") -> str:
    """The TOML that `parse_file` reads back; fields with their default value are left out.

    >>> from nodewise.study.spec import Workload, parse_spec
    >>> spec = Spec(name="a", scales=(1, 2), workload=Workload(command=("job",)))
    >>> parse_spec(spec_text(spec)) == spec
    True
    """
    plain = msgspec.to_builtins(spec, str_keys=True)
    engine = plain.get("engine", {})
    engine |= engine.pop("tables", {})  # [engine.NAME] is a table of its own in the file
    lines = [f"# {comment}"] if comment else []
    whole = {"format": spec.format, **plain}
    for key, value in (asked or {}).items():
        whole[key] = {**whole.get(key, {}), **value} if isinstance(value, dict) else value
    return "\n".join([*lines, *_table(whole, ())]) + "\n"


def _table(table: dict[str, Any], path: tuple[str, ...]) -> list[str]:
    """The lines of a table: its values, then the tables in it."""
    values = {key: value for key, value in table.items() if not isinstance(value, dict)}
    lines = [f"{_key(key)} = {toml_value(value)}" for key, value in values.items()]
    if path and (lines or not table):
        lines = ["", f"[{'.'.join(map(_key, path))}]", *lines]
    for key, value in table.items():
        if isinstance(value, dict):
            lines += _table(value, (*path, key))
    return lines


def _key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else toml_value(key)


def toml_value(value: Any) -> str:
    """A value as TOML writes it."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml_value, value))}]"
    if isinstance(value, dict):  # within a list
        return f"{{{', '.join(f'{_key(key)} = {toml_value(one)}' for key, one in value.items())}}}"
    return str(value).lower() if isinstance(value, bool) else repr(value)
