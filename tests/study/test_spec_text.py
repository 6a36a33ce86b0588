"""Specs that nodewise writes are read back as they were."""

import pytest

from nodewise.study.spec import Spec, Workload, parse_file
from nodewise.study.spec_text import spec_text
from tests.conftest import GOLDEN

WHOLE = """
name = 'a "quoted" \\ name \u00e9'
scales = [1, 2, 4]
regime = "weak"
fixed = ["batch"]
[workload]
command = ["{python}", "job.py", "a\\nb"]
environment = {OMP_NUM_THREADS = "1", "odd key" = "\\u007f"}
[baseline]
command = ["fast"]
[engine]
name = "slurm"
options = []
[engine.slurm]
partition = "gpu"
exclusive = true
lists = [{a = 1}, {b = 2.5}]
[gates]
deadline_seconds = 9.5
least_speedup = {2 = 1.5}
[price]
per_node_hour = 1e-7
"""


@pytest.mark.parametrize(
    "text", [WHOLE, *(path.read_text() for path in GOLDEN.glob("digits*.toml"))]
)
def test_a_spec_is_read_back(text):
    spec, asked = parse_file(text)
    written = spec_text(spec, asked, "made by a test")
    assert parse_file(written) == (spec, asked)
    assert written.startswith("# made by a test\nformat = 1\nname = ")


def test_a_short_spec_is_short():
    spec = Spec(name="a", scales=(1, 2), workload=Workload(command=("job",)))
    assert spec_text(spec) == (
        'format = 1\nname = "a"\nscales = [1, 2]\n\n[workload]\ncommand = ["job"]\n'
    )
