"""The Kubernetes engine against a stand-in for kubectl, which runs the pods' command here.

There is no cluster: what is tested is our side of the protocol, with answers in the shape that
kubectl gives.
"""

import json
import stat
import sys
from pathlib import Path

import pytest

from nodewise.base.errors import RunError, SpecError
from nodewise.measure.engines.clusters.kubernetes import Kubernetes, KubernetesOptions
from tests.jobs import measure, runs_of, write_job

# Makes "pods" of a Job as processes, one after the other, and answers as kubectl would.
KUBECTL = '''#!{python}
import json, os, pathlib, subprocess, sys
place = pathlib.Path(__file__).parent
state = place / "state.json"
words = [word for word in sys.argv[1:] if not word.startswith("--context")]
with (place / "calls").open("a") as calls:
    calls.write(" ".join(words) + "\\n")
namespaced = [word for word in words if not word.startswith("--namespace")]
verb = namespaced[0]
if verb == "auth":
    print((place / "can-i").read_text() if (place / "can-i").exists() else "yes")
elif verb == "version":
    print(json.dumps({{"serverVersion": {{"gitVersion": "v1.32.4"}}}}))
elif verb == "create":
    manifest = json.load(sys.stdin)
    service, job = manifest["items"]
    assert service["kind"] == "Service" and job["spec"]["completionMode"] == "Indexed"
    name = job["metadata"]["name"]
    jobs = json.loads(state.read_text()) if state.exists() else {{}}
    if (place / "refuse").exists():
        (place / "services").write_text(name)  # made before the Job was refused
        print("error: exceeded quota", file=sys.stderr)
        sys.exit(1)
    if (place / "stuck").exists():
        waiting = {{"reason": "ImagePullBackOff", "message": "no such image."}}
        pod = {{"status": {{"containerStatuses": [{{"state": {{"waiting": waiting}}}}]}}}}
        state.write_text(json.dumps({{name: {{"job": job, "pods": {{"items": [pod]}}}}}}))
        sys.exit(0)
    worker = job["spec"]["template"]["spec"]["containers"][0]
    pods, failed = [], False
    for index in range(job["spec"]["completions"]):
        told = {{one["name"]: one["value"] for one in worker["env"] if "value" in one}}
        node = "only" if (place / "one-node").exists() else f"node-{{index}}"
        told |= {{"JOB_COMPLETION_INDEX": str(index), "NODEWISE_HOST": node}}
        done = subprocess.run(
            worker["command"], env={{"PATH": os.environ["PATH"], **told}}, text=True,
            cwd=worker.get("workingDir"), stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        (place / f"{{name}}-{{index}}.log").write_text(done.stdout)
        ended = {{"exitCode": done.returncode, "reason": "Completed"}}
        if (place / "oom").exists():
            ended = {{"exitCode": 137, "reason": "OOMKilled"}}
        pods.append({{
            "metadata": {{"name": f"{{name}}-{{index}}"}},
            "status": {{
                "conditions": [{{"type": "PodScheduled", "status": "True",
                                 "lastTransitionTime": "2026-11-16T03:00:04Z"}}],
                "containerStatuses": [{{"state": {{"terminated": ended}}}}]}}}})
        failed = failed or ended["exitCode"] != 0
    job["metadata"]["creationTimestamp"] = "2026-11-16T03:00:01Z"
    kind = "Failed" if failed else "Complete"
    job["status"] = {{"conditions": [{{"type": kind, "status": "True"}}]}}
    jobs[name] = {{"job": job, "pods": {{"items": pods}}}}
    state.write_text(json.dumps(jobs))
elif verb == "get":
    jobs = json.loads(state.read_text()) if state.exists() else {{}}
    name = namespaced[3].partition("=")[2] if namespaced[1] == "pods" else namespaced[2]
    if name not in jobs:
        print(f'Error from server (NotFound): jobs.batch "{{name}}" not found', file=sys.stderr)
        sys.exit(1)
    print(json.dumps(jobs[name][namespaced[1]]))
elif verb == "logs":
    print((place / f"{{namespaced[1]}}.log").read_text(), end="")
elif verb == "delete":
    jobs = json.loads(state.read_text()) if state.exists() else {{}}
    jobs.pop(namespaced[2], None)
    state.write_text(json.dumps(jobs))
    (place / "services").unlink(missing_ok=True)
'''  # fmt: skip

JOB = """
import os, time
from nodewise import probe
nodes = int(os.environ["NODEWISE_NODES"])
for step in probe.steps(range(2)):
    with probe.compute():
        time.sleep(0.1 / nodes)
    with probe.comm():
        time.sleep(0.01)
probe.work(items=12 / nodes)
print("hello from", os.environ["NODEWISE_RANK"], os.environ["COLOUR"])
"""
TABLE = """
COLOUR = "blue"
[engine]
name = "kubernetes"
[engine.kubernetes]
image = "registry/job:1"
directory = "{folder}"
python = "{python}"
namespace = "studies"
poll_seconds = 0.05
"""


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cluster"
    folder.mkdir()
    kubectl = folder / "kubectl"
    kubectl.write_text(KUBECTL.format(python=sys.executable))
    kubectl.chmod(kubectl.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{folder}:{Path(sys.executable).parent}:/usr/bin:/bin")
    return folder


def write(folder: Path, job: str = JOB, more: str = "", scales: str = "1, 2, 4") -> Path:
    table = TABLE.format(folder=folder, python=sys.executable)
    return write_job(folder, job, scales, rounds=2, timeout=20, more=table + more)


def test_a_study_of_indexed_jobs(tmp_path, cluster):
    spec = write(tmp_path)
    outcome = measure(spec)
    assert outcome.returncode == 0, outcome.stderr
    runs = runs_of(tmp_path)
    assert runs.keys() == {(k, r) for k in (1, 2, 4) for r in range(2)}
    for (nodes, _), run in runs.items():
        assert run.outcome == "ok", run.detail
        assert [rank.host for rank in run.ranks] == [f"node-{n}" for n in range(nodes)]
        assert run.work == 12
        assert run.provenance["engine_version"] == "v1.32.4"
        assert run.provenance["engine_nodes"] == ",".join(f"node-{n}" for n in range(nodes))
        assert run.provenance["queue_seconds"] == 3
        for rank in run.ranks:  # what the probe printed at the end of the log
            assert rank.stages["compute"] >= 0.1 / nodes * 2 * 0.9
            assert rank.stages["communication"] > 0
    assert json.loads((cluster / "state.json").read_text()) == {}  # nothing is left there
    calls = (cluster / "calls").read_text().splitlines()
    assert sum(" create " in f" {call} " and "auth" not in call for call in calls) == 6
    assert all("--namespace=studies" in call for call in calls)
    assert measure(spec).stderr == ""


def test_a_program_without_a_probe_has_its_ranks_too(tmp_path, cluster):
    write(tmp_path, job="import time; time.sleep(0.2)", scales="2")
    assert measure(tmp_path / "study.toml").returncode == 0
    run = runs_of(tmp_path)[2, 0]
    assert len(run.ranks) == 2
    for rank in run.ranks:
        assert sum(rank.stages.values()) == pytest.approx(run.seconds, rel=0.05)


@pytest.mark.parametrize(
    ("job", "flag", "outcome", "words"),
    [
        ("raise SystemExit(3)", None, "crashed", "exit code 3, rank 0 on node-0"),
        ("print('ok')", "oom", "out of memory", "a pod needs more than its memory"),
        ("print('ok')", "one-node", "wrong workers", "2 workers on 1 nodes, not 2"),
    ],
)
def test_failures_are_told(tmp_path, cluster, job, flag, outcome, words):
    if flag is not None:
        (cluster / flag).touch()
    write(tmp_path, job=job, scales="2")
    measure(tmp_path / "study.toml")
    run = runs_of(tmp_path)[2, 0]
    assert (run.outcome, run.detail.partition("\n")[0]) == (outcome, words)


def test_a_program_that_does_not_listen_is_ended_and_that_is_a_timeout(tmp_path, cluster):
    deaf = "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(60)"
    spec = write(tmp_path, job=deaf, scales="1")
    spec.write_text(
        spec.read_text()
        .replace("seconds = 20", "seconds = 1.5")
        .replace("rounds = 2", "rounds = 1")
    )
    measure(spec)
    run = runs_of(tmp_path)[1, 0]
    assert (run.outcome, run.detail.partition("\n")[0]) == ("timeout", "stopped after 1.5 s")


@pytest.mark.parametrize(
    ("flag", "words"),
    [
        ("refuse", "The cluster refuses the Job: exceeded quota."),
        ("stuck", "A pod cannot begin: ImagePullBackOff: no such image."),
    ],
)
def test_a_job_that_cannot_begin_is_said_taken_away_and_made_anew(tmp_path, cluster, flag, words):
    (cluster / flag).touch()
    spec = write(tmp_path, scales="2")
    outcome = measure(spec)
    assert (outcome.returncode, outcome.stderr.splitlines()[0]) == (3, f"nodewise: {words}")
    assert json.loads((cluster / "state.json").read_text()) == {}
    assert not (cluster / "services").exists()
    (cluster / flag).unlink()
    outcome = measure(spec)
    assert outcome.returncode == 0, outcome.stderr
    assert {run.outcome for run in runs_of(tmp_path).values()} == {"ok"}


def test_pods_are_told_what_the_spec_says_even_where_we_have_it_too(tmp_path, cluster, monkeypatch):
    monkeypatch.setenv("COLOUR", "blue")  # pods do not inherit ours
    spec = write(tmp_path, scales="1")
    spec.write_text(spec.read_text().replace('"job"', '"Größe"'))
    text = measure(spec, "--dry-run").stdout
    _, job = json.loads(text.partition("\n")[2])["items"]
    told = {
        one["name"]: one.get("value")
        for one in job["spec"]["template"]["spec"]["containers"][0]["env"]
    }
    assert told["COLOUR"] == "blue"
    assert job["metadata"]["name"] == "nodewise-gr--e-k1-round0"


def test_who_comes_back_collects_the_job_that_was_made(tmp_path, cluster):
    spec = write(tmp_path, scales="2")
    assert measure(spec).returncode == 0
    # as if we had been killed after the Job was made, and before its end was written down
    folder = tmp_path / "job.study"
    manifest = {"name": runs_of(tmp_path)[2, 1].provenance["kubernetes_job"]}
    lines = (folder / "runs.jsonl").read_text().splitlines(keepends=True)
    (folder / "runs.jsonl").write_text(lines[0])
    place = folder / "jobs" / "K2-round1"
    place.mkdir()
    (place / "submitted").write_text(manifest["name"])
    logs = [f"{manifest['name']}-{n}.log" for n in range(2)]
    assert all((cluster / log).exists() for log in logs)
    state = {manifest["name"]: {"job": ENDED, "pods": {"items": [pod(log[:-4]) for log in logs]}}}
    (cluster / "state.json").write_text(json.dumps(state))
    before = (cluster / "calls").read_text().count("create -f")
    assert measure(spec).returncode == 0
    assert (cluster / "calls").read_text().count("create -f") == before
    run = runs_of(tmp_path)[2, 1]
    assert (run.outcome, run.provenance["kubernetes_job"]) == ("ok", manifest["name"])


ENDED = {
    "metadata": {"creationTimestamp": "2026-11-16T03:00:01Z"},
    "status": {"conditions": [{"type": "Complete", "status": "True"}]},
}


def pod(name: str) -> dict[str, object]:
    state = {"terminated": {"exitCode": 0, "reason": "Completed"}}
    return {"metadata": {"name": name}, "status": {"containerStatuses": [{"state": state}]}}


def test_dry_run_prints_the_manifest_and_asks_nothing(tmp_path, cluster):
    more = 'launcher = "torchrun"\n[engine.kubernetes.pod]\nnodeSelector = { gpu = "a100" }'
    outcome = measure(write(tmp_path, more=more), "--dry-run")
    assert outcome.returncode == 0, outcome.stderr
    assert not (cluster / "calls").exists()
    head, _, text = outcome.stdout.rpartition("# K=4\n")
    assert "# K=2\n" in head
    service, job = json.loads(text)["items"]
    assert service["spec"]["clusterIP"] == "None"
    assert (job["spec"]["completions"], job["spec"]["parallelism"]) == (4, 4)
    pod = job["spec"]["template"]["spec"]
    assert pod["nodeSelector"] == {"gpu": "a100"}
    assert pod["affinity"]["podAntiAffinity"]
    told = {one["name"]: one.get("value") for one in pod["containers"][0]["env"]}
    assert told["WORLD_SIZE"] == "4"
    assert told["COLOUR"] == "blue"
    assert told["MASTER_ADDR"].startswith("nodewise-job-k4-round0-0.")
    assert "NODEWISE_GATE" not in told and "PATH" not in told


def test_what_is_missing_is_said_before_the_first_run(cluster, monkeypatch):
    with pytest.raises(SpecError, match="image"):
        Kubernetes(KubernetesOptions()).check([1])
    Kubernetes(KubernetesOptions(image="x")).check([1])
    (cluster / "can-i").write_text("no")
    with pytest.raises(RunError, match="Creating Jobs in this namespace"):
        Kubernetes(KubernetesOptions(image="x")).check([1])
    (cluster / "kubectl").write_text("#!/bin/sh\necho 'error: connection refused' >&2; exit 1\n")
    with pytest.raises(RunError, match="does not answer: connection refused"):
        Kubernetes(KubernetesOptions(image="x")).check([1])
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(RunError, match="kubectl is not installed"):
        Kubernetes(KubernetesOptions(image="x")).check([1])
