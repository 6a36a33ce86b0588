"""Traces read by the workers of a Dask cluster: the account is that of this process alone."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from nodewise.base.errors import SpecError
from nodewise.importers.profilers.clusters import map_on_cluster

TRACES = Path(__file__).parents[1] / "data" / "traces" / "k4"


def trace(*options):
    command = [sys.executable, "-m", "nodewise", "trace", str(TRACES), "--json", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0, done.stderr
    account = json.loads(done.stdout)
    for rank in account["ranks"]:
        rank["file"] = Path(rank["file"]).name  # a cluster is handed whole paths
    return account


def test_workers_of_this_machine_and_of_a_scheduler_give_the_same_account():
    distributed = pytest.importorskip(
        "distributed", reason="Dask is not installed: pip install 'nodewise[dask]'"
    )
    alone = trace()
    assert len(alone["ranks"]) == 4
    assert trace("--engine", "dask") == alone
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=2, host="127.0.0.1", dashboard_address=None
    ) as cluster:
        address = cluster.scheduler_address.removeprefix("tcp://")
        assert trace("--engine", f"dask://{address}") == alone


def test_an_engine_that_reads_no_traces_is_refused():
    with pytest.raises(SpecError, match="is not a cluster"):
        map_on_cluster("slurm", len, [])
