import msgspec
import pytest
from hypothesis import given

from nodewise.base.errors import DataError
from nodewise.study.study import Run, Study
from tests.study.test_table import studies


@given(studies())
def test_save_and_load_is_identity(study):
    assert msgspec.json.decode(msgspec.json.encode(study), type=Study) == study


def test_scales_rounds_and_pairing():
    def study(*runs):
        return Study(
            name="x",
            regime="strong",
            runs=tuple(Run(nodes=nodes, round=number, seconds=1.0) for nodes, number in runs),
        )

    paired = study((4, 0), (1, 1), (1, 0), (4, 1))
    assert paired.scales == (1, 4)
    assert paired.paired
    assert paired.rounds == 2
    assert [run.round for run in paired.at(1)] == [0, 1]
    assert not study((1, 0), (1, 1), (4, 0)).paired


@pytest.mark.parametrize("seconds", [0.0, 1e-16])
def test_a_run_of_no_time_is_refused_by_every_reader(seconds):
    with pytest.raises(DataError, match="A run cannot take"):
        Run(nodes=2, round=0, seconds=seconds)
    failed = Run(nodes=2, round=0, seconds=seconds, outcome="crashed")
    study = msgspec.json.encode(Study(name="x", regime="strong", runs=(failed,)))
    assert msgspec.json.decode(study, type=Study).runs == (failed,)
    with pytest.raises(
        msgspec.ValidationError, match=r"^A run cannot take .* - at `\$\.runs\[0\]`$"
    ):
        msgspec.json.decode(study.replace(b"crashed", b"ok"), type=Study)
