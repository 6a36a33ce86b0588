"""The start barrier, with ranks that arrive as the probe does."""

import socket
import time
from pathlib import Path

from nodewise.measure.barrier import Barrier


def arrived(gate: Path, rank: int, pause: float = 0.0) -> socket.socket:
    door = socket.socket(socket.AF_UNIX)
    door.settimeout(30)
    door.connect(str(gate))
    time.sleep(pause)
    door.sendall(b"%d\n" % rank)
    return door


def test_a_rank_more_than_expected_is_let_through_without_an_error(tmp_path: Path) -> None:
    nothing = [lambda: None] * 3
    with Barrier(tmp_path / "gate", 1, *nothing):
        first = arrived(tmp_path / "gate", 0)
        assert first.recv(1) == b"g"
        for rank in (1, 2):
            with arrived(tmp_path / "gate", rank, pause=0.05) as door:
                assert door.recv(1) == b""
        first.close()
