"""Engines are tested on what they really start; only the registry is not."""

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent.name == "engines" and item.path.name != "test_registry.py":
            item.add_marker(pytest.mark.slow)
