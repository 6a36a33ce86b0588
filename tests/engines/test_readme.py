"""The README's torch script, typed into an empty folder."""

import pytest

from tests.test_docs import check_five_minutes


def test_the_five_minutes_with_torch(tmp_path):
    pytest.importorskip("torch", reason="torch is not installed: pip install 'nodewise[torch]'")
    check_five_minutes("A torch script", tmp_path)
