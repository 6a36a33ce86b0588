import msgspec
from hypothesis import given

from nodewise.study import Run, Study
from tests.test_table import studies


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
