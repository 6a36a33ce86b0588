"""K pods of an indexed Job, made and read through kubectl.

Pods share no folder with us: each prints what it recorded at the end of its log. A Job goes on
without us; its name is in the folder of its run, and the next `measure` collects it.
"""

import base64
import binascii
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, Self

import msgspec

from nodewise.base.errors import RunError, SpecError
from nodewise.measure.engines import base, shell_tasks
from nodewise.measure.engines.base import Engine, Finished, Job, Started
from nodewise.measure.engines.commands import script_of
from nodewise.measure.engines.shell_tasks import Task
from nodewise.study.spec import EngineSpec, Part, Positive
from nodewise.study.study import Fact

_ANSWER_SECONDS = 60.0
_PORT = 29500
# A first failure to fetch an image (ErrImagePull) may pass; the waiting after several does not.
_STUCK = ("ImagePullBackOff", "InvalidImageName", "CreateContainerConfigError")
_LOG_END = "--- nodewise"  # the records follow in the log

# In the pod, by any POSIX shell. The last lines of its log are what it recorded.
_POD = f"""
export NODEWISE_RUN=$(mktemp -d) NODEWISE_RANK=$JOB_COMPLETION_INDEX
begin=$(date +%s.%N)
"$@"
code=$?
end=$(date +%s.%N)
times > $NODEWISE_RUN/times
cpu=$(tail -n 1 $NODEWISE_RUN/times | sed 's/[ms]/ /g' | awk '{{print $1*60+$2+$3*60+$4}}')
echo
echo '{_LOG_END}'
echo "task $NODEWISE_RANK $NODEWISE_HOST $begin $end $cpu $code"
for file in $NODEWISE_RUN/rank-*.json $NODEWISE_RUN/rank-*.bin; do
  [ -s "$file" ] && echo "file ${{file##*/}} $(base64 < "$file" | tr -d '\\n')"
done
exit $code
"""

Json = dict[str, Any]


class KubernetesOptions(Part, frozen=True, kw_only=True):
    """The table `[engine.kubernetes]`."""

    image: str = ""  # image with the program, and nodewise if it uses the probe
    directory: str = ""  # working directory in the image
    python: str = "python3"  # interpreter for {python}
    launcher: Literal["plain", "torchrun"] = "plain"  # what starts the ranks
    namespace: str = ""  # of the Job; default: that of kubectl
    context: str = ""  # of kubectl
    cpu: str = "1"  # CPU request and limit of a pod
    memory: str = ""  # memory request and limit of a pod
    apart: bool = True  # each pod on a separate node
    pod: dict[str, Any] = msgspec.field(
        default_factory=dict
    )  # more fields of the pod's spec: tolerations, volumes ...
    poll_seconds: Positive = 2.0  # interval of queries


class Kubernetes(Engine):
    """One indexed Job for each run."""

    options_type = KubernetesOptions
    elsewhere = True
    detached = True

    def __init__(self, options: KubernetesOptions) -> None:
        """Nothing is asked of the cluster yet."""
        self._options = options

    @classmethod
    def of(cls, chosen: EngineSpec, home: Path) -> Self:
        """With the table of the spec."""
        return cls(base.options_of(chosen, "kubernetes", KubernetesOptions))

    def check_spec(self, scales: Sequence[int]) -> None:
        """There must be an image."""
        if not self._options.image:
            raise SpecError(
                "engine.kubernetes.image is not set.", 'Write image = "registry/job:tag".'
            )

    def check(self, scales: Sequence[int]) -> None:
        """An image, kubectl, a cluster that answers, and the right to make Jobs."""
        self.check_spec(scales)
        if shutil.which("kubectl") is None:
            raise RunError(
                "kubectl is not installed.", "Install it, and give it your cluster's config."
            )
        answer = self._kubectl("auth", "can-i", "create", "jobs")
        if answer.stdout.strip() == "yes":
            return
        if answer.stdout.strip() == "no":
            raise RunError(
                "Creating Jobs in this namespace is not allowed.",
                "Request it, or name another with namespace = ... in [engine.kubernetes].",
            )
        raise RunError(
            f"The cluster does not answer: {_last_line(answer.stderr)}.",
            "Make this work: kubectl cluster-info. context = ... names another cluster.",
        )

    def plan(self, job: Job) -> str:
        """The manifest."""
        return json.dumps(self.manifest(job, _name(job)), indent=2)

    def run(self, job: Job, started: Started) -> Finished:
        """Make the Job, unless it was made before, and wait for its end."""
        note = job.folder / "submitted"
        if not note.exists() or self._get("job", note.read_text()) is None:
            self._make(job, note)
        name = note.read_text()
        ended = self._wait(job, name)
        finished = self._finished(job, name, ended)
        self.forget(job.folder)
        return finished

    def _make(self, job: Job, note: Path) -> None:
        """Make the Job under a new name, which is written down first: so it can be found."""
        self.forget(job.folder)  # a service without its Job may be left of an earlier try
        name = f"{_name(job)}-{time.time_ns() // 1000 % 10**9:09d}"
        note.write_text(name)
        made = self._kubectl("create", "-f", "-", stdin=json.dumps(self.manifest(job, name)))
        if made.returncode:
            self.forget(job.folder)
            raise RunError(
                f"The cluster refuses the Job: {_last_line(made.stderr)}.",
                "Correct [engine.kubernetes]; nodewise measure --dry-run prints the manifest.",
            )

    def forget(self, folder: Path) -> None:
        """Delete the Job with its pods and its service."""
        note = folder / "submitted"
        if note.exists():
            name = note.read_text()
            self._kubectl("delete", "job,service", name, "--ignore-not-found", "--wait=false")

    def manifest(self, job: Job, name: str) -> Json:
        """The Job, and the service by which its pods find each other."""
        options = self._options
        labels = {"app.kubernetes.io/managed-by": "nodewise", "nodewise/run": name}
        size = {"cpu": options.cpu} | ({"memory": options.memory} if options.memory else {})
        container = {
            "name": "worker",
            "image": options.image,
            "command": ["sh", "-c", _POD, "nodewise", *self._command(job)],
            "env": self._environment(job, name),
            "resources": {"requests": size, "limits": size},
        } | ({"workingDir": options.directory} if options.directory else {})
        pod: Json = {
            "restartPolicy": "Never",
            "subdomain": name,
            "containers": [container],
            **({"affinity": _apart(name)} if options.apart else {}),
            **options.pod,
        }
        job_spec = {
            "completions": job.nodes,
            "parallelism": job.nodes,
            "completionMode": "Indexed",
            "backoffLimit": 0,
            "template": {"metadata": {"labels": labels}, "spec": pod},
        }
        service = {"clusterIP": "None", "selector": {"nodewise/run": name}}
        meta = {"name": name, "labels": labels}
        items = [
            {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": service},
            {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": job_spec},
        ]
        return {"apiVersion": "v1", "kind": "List", "items": items}

    def _command(self, job: Job) -> list[str]:
        program, *rest = job.command
        python = self._options.python
        words = [python if program == sys.executable else program, *rest]
        if self._options.launcher == "torchrun":
            # A rank a pod: it needs torchrun's variables, not torchrun.
            words = [python, "-m", "nodewise.measure.launch", *script_of(job)]
        # Short options: small images have no others. A program that does not listen is killed.
        return ["timeout", "-k", "10", f"{job.timeout_seconds:g}", *words]

    def _environment(self, job: Job, name: str) -> list[Json]:
        """The variables of the workload; nothing else of our own environment matters there."""
        here = ("NODEWISE_RUN", "NODEWISE_GATE")  # files that pods do not see
        told = {key: value for key, value in job.own_environment.items() if key not in here}
        if self._options.launcher == "torchrun":
            told |= {
                "MASTER_ADDR": f"{name}-0.{name}",
                "MASTER_PORT": str(_PORT),
                "WORLD_SIZE": str(job.nodes),
                "LOCAL_RANK": "0",
                "LOCAL_WORLD_SIZE": "1",
            }
        told_by_cluster = {"NODEWISE_HOST": "spec.nodeName"}
        if self._options.launcher == "torchrun":
            index = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
            told_by_cluster |= {"RANK": index, "GROUP_RANK": index}
        return [
            *({"name": key, "value": value} for key, value in sorted(told.items())),
            *(
                {"name": key, "valueFrom": {"fieldRef": {"fieldPath": path}}}
                for key, path in told_by_cluster.items()
            ),
        ]

    def _wait(self, job: Job, name: str) -> Json:
        """The Job when it has ended; pods that cannot begin would be waited for without an end."""
        while True:
            found = self._get("job", name)
            if found is None:
                raise RunError(f"The Job {name} no longer exists.", "Run nodewise measure again.")
            if {"Complete", "Failed"} & _conditions(found):
                return found
            stuck = next((why for pod in self._pods(name) if (why := _stuck(pod))), "")
            if stuck:
                self.forget(job.folder)
                raise RunError(
                    f"A pod cannot begin: {stuck}.",
                    "Correct [engine.kubernetes] or what it names, then measure again.",
                )
            time.sleep(self._options.poll_seconds)

    def _pods(self, name: str) -> list[Json]:
        found: list[Json] = (self._get("pods", "-l", f"nodewise/run={name}") or {}).get("items", [])
        return found

    def _finished(self, job: Job, name: str, ended: Json) -> Finished:
        pods = self._pods(name)
        for pod in pods:
            log = self._kubectl("logs", pod["metadata"]["name"]).stdout
            _unpack(log, job)
        tasks = shell_tasks.read_tasks(job.folder)
        begin = min((task.begin for task in tasks), default=0.0)
        end = max((task.end for task in tasks), default=0.0)
        facts = self._facts(name, ended, pods, tasks)
        killed = [state for pod in pods if (state := _terminated(pod)).get("reason") == "OOMKilled"]
        if killed:
            words = "a pod needs more than its memory"
            return Finished(outcome="out of memory", seconds=end - begin, detail=words, facts=facts)
        codes = [int(_terminated(pod).get("exitCode", 0)) for pod in pods]
        failed = next((code for code in codes if code), 0)
        if shell_tasks.is_timeout(failed, end - begin, job.timeout_seconds):
            words = f"stopped after {job.timeout_seconds:g} s"
            return Finished(outcome="timeout", seconds=end - begin, detail=words, facts=facts)
        if failed or "Complete" not in _conditions(ended):
            outcome, words = shell_tasks.first_failure(tasks) or (
                base.outcome_of(failed),
                base.in_words(failed),
            )
            return Finished(outcome=outcome, seconds=end - begin, detail=words, facts=facts)
        hosts = {task.host for task in tasks}
        if len(tasks) != job.nodes or (self._options.apart and len(hosts) != job.nodes):
            words = f"{len(tasks)} workers on {len(hosts)} nodes, not {job.nodes}"
            return Finished(outcome="wrong workers", seconds=end - begin, detail=words, facts=facts)
        ranks = shell_tasks.ranks_of(tasks, begin, end)
        return Finished(outcome="ok", seconds=end - begin, ranks=ranks, facts=facts)

    def _facts(
        self, name: str, ended: Json, pods: list[Json], tasks: list[Task]
    ) -> dict[str, Fact]:
        version = self._get_json("version", "-o", "json") or {}
        created = shell_tasks.moment(ended.get("metadata", {}).get("creationTimestamp", ""))
        placed = [
            at
            for pod in pods
            for condition in pod.get("status", {}).get("conditions", [])
            if condition.get("type") == "PodScheduled"
            and (at := shell_tasks.moment(condition.get("lastTransitionTime", ""))) is not None
        ]
        facts: dict[str, Fact] = {
            "kubernetes_job": name,
            "engine_version": version.get("serverVersion", {}).get("gitVersion", ""),
            "engine_nodes": ",".join(dict.fromkeys(task.host for task in tasks)),
        }
        if created is not None and placed:
            facts["queue_seconds"] = max(max(placed) - created, 0.0)  # in whole seconds
            if tasks:
                begun = max(task.begin for task in tasks)
                facts["startup_seconds"] = max(begun - max(placed), 0.0)
        return facts

    def _get(self, kind: str, *what: str) -> Json | None:
        """An object of the cluster; None if there is none of that name."""
        return self._get_json("get", kind, *what, "-o", "json")

    def _get_json(self, *arguments: str) -> Json | None:
        done = self._kubectl(*arguments)
        if done.returncode == 0:
            found: Json = json.loads(done.stdout)
            return found
        if "NotFound" in done.stderr or arguments[0] == "version":
            return None
        raise RunError(
            f"kubectl fails: {_last_line(done.stderr)}.",
            "Repeat the command when the cluster answers. The Job continues meanwhile.",
        )

    def _kubectl(self, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        options = self._options
        where = [f"--context={options.context}"] if options.context else []
        where += [f"--namespace={options.namespace}"] if options.namespace else []
        return shell_tasks.ask(["kubectl", *where, *arguments], _ANSWER_SECONDS, stdin)


def _name(job: Job) -> str:
    """A name for the cluster: lower-case letters, digits and dashes."""
    study = job.folder.parent.parent.stem
    words = f"{study}-{job.folder.name}".lower()
    plain = "".join(c if c.isascii() and c.isalnum() else "-" for c in words)
    return "nodewise-" + plain[-30:].strip("-")  # the end tells the runs of a study apart


def _apart(name: str) -> Json:
    rule = {
        "labelSelector": {"matchLabels": {"nodewise/run": name}},
        "topologyKey": "kubernetes.io/hostname",
    }
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [rule]}}


def _unpack(log: str, job: Job) -> None:
    """The records at the end of a pod's log, as files of the run; the rest is its output."""
    output, _, records = log.rpartition(f"\n{_LOG_END}\n")
    with job.log.open("a") as file:
        file.write(output if records else log)
    for line in records.splitlines():
        kind, _, rest = line.partition(" ")
        name, _, content = rest.partition(" ")
        if kind == "task" and name.isdecimal():
            (job.folder / f"task-{name}").write_text(rest)
        if kind == "file" and name == Path(name).name and name.startswith("rank-"):
            try:
                (job.folder / name).write_bytes(base64.b64decode(content, validate=True))
            except binascii.Error:
                continue  # cut off: the worker counts as one that did not report


def _terminated(pod: Json) -> Json:
    for status in pod.get("status", {}).get("containerStatuses", []):
        if "terminated" in status.get("state", {}):
            state: Json = status["state"]["terminated"]
            return state
    return {}


def _stuck(pod: Json) -> str:
    """Why the container of a pod will not begin, however much room there is; else nothing."""
    for status in pod.get("status", {}).get("containerStatuses", []):
        waiting = status.get("state", {}).get("waiting", {})
        if waiting.get("reason") in _STUCK:
            return f"{waiting['reason']}: {_last_line(waiting.get('message', ''))}"
    return ""


def _conditions(job: Json) -> set[str]:
    """What holds of a Job."""
    conditions = job.get("status", {}).get("conditions", [])
    return {c["type"] for c in conditions if c.get("status") == "True"}


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1].removeprefix("error: ").rstrip(".") if lines else "no message"
