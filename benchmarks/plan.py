"""Step model against published training runs: errors, and the fit of its constants.

.venv/bin/python benchmarks/plan.py [ROWS.csv] [--fit]

Rows as ../shared/data/planner describes them. `--fit` prints the constants that fit best, for
decide/paper/step.py, and the errors with each model left out of the fit.
"""

import argparse
import csv
import re
import statistics
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from nodewise.decide.paper.files import shipped_accelerators, shipped_links
from nodewise.decide.paper.job import Cluster, Efficiency, Job, Plan, Training
from nodewise.decide.paper.plan import Measured
from nodewise.decide.paper.step import CONSTANTS, Constants, step_time
from nodewise.decide.paper.transformer import Transformer

HERE = Path(__file__).parent
ROWS = HERE.parents[1] / "shared" / "data" / "planner" / "planner-dev.csv"
CASE = ("model", "gpu_type", "gpus", "precision", "seq", "fsdp", "tp", "pp", "cp", "vp", "ep",
        "mbs", "gbs", "recompute")  # fmt: skip
# accelerator, fast link, devices it joins, network
DEVICES = {
    "A100": ("A100-80GB", "NVLink3", 8, "InfiniBand-HDR"),
    "H100": ("H100-80GB", "NVLink4", 8, "InfiniBand-NDR"),
    "H200": ("H200-141GB", "NVLink4", 8, "InfiniBand-NDR"),
    "B200": ("B200-180GB", "NVLink5", 8, "InfiniBand-NDR"),
    "B300": ("B300-270GB", "NVLink5", 8, "InfiniBand-XDR"),
    "GB200": ("GB200-186GB", "NVLink5", 72, "InfiniBand-NDR"),
    "GB300": ("GB300-279GB", "NVLink5", 72, "InfiniBand-XDR"),
}
HBM2E = 2.4e12  # bytes a second of an H100 with 96 GB of HBM2e
# Multi-head latent attention of DeepSeek-V3 (arXiv 2412.19437, section 4.2): down and up
# projections of queries, keys and values, and the output; heads of 128 and 64 rotated.
LATENT = 7168 * (1536 + 576) + 1536 * 128 * 192 + 512 * 128 * 256 + 128 * 128 * 7168


def number(text: str, default: float = 0.0) -> float:
    """A number of a cell, or the default where there is none."""
    return float(text) if re.fullmatch(r"-?[\d.]+(e-?\d+)?", str(text)) else default


def case(row: dict[str, str]) -> tuple[Job, Plan, Cluster] | None:
    """Job, plan and cluster of a row; None where the row does not say enough."""
    name = next((d for d in sorted(DEVICES, key=len, reverse=True)
                 if row["gpu_type"].startswith(d)), None)  # fmt: skip
    if name is None or not number(row["layers"]):
        return None
    tensor, pipeline, context, expert = (
        max(1, int(number(row[key], 1))) for key in ("tp", "pp", "cp", "ep")
    )
    torch = "torchtitan" in row["source"]
    data = int(number(row["gpus"])) // (tensor * pipeline * context)
    micro = int(number(row["mbs"], 1))
    batch = int(number(row["gbs"]))
    chunks = max(1, int(number(row["vp"], 1)))
    if torch:  # torchtitan: as many micro-batches as stages
        micro = max(1, micro // pipeline) if pipeline > 1 else micro
        chunks = 2 if "interleaved" in row["note"] else 1
    recompute = row["recompute"]
    # torchtitan keeps the weights of a stage gathered between its micro-batches
    sharded = pipeline == 1 if torch else number(row["fsdp"]) > 1
    plan = Plan(
        tensor=tensor,
        pipeline=pipeline,
        context=context,
        expert=expert,
        data=data,
        micro_batch=micro,
        interleave=chunks,
        sharding="full" if sharded else "optimizer",
        recompute="full" if recompute.startswith("full")
        else "operator" if recompute.startswith("selective") else "none",
        sequence_parallel=tensor > 1,
    )  # fmt: skip
    cluster = cluster_of(name, row["gpu_type"])
    job = Job(name=row["model"], model=model_of(row), training=training_of(row, batch, torch))
    if job.training.precision not in cluster.accelerator.peak_flops:
        return None
    return job, plan, cluster


def cluster_of(name: str, gpu: str) -> Cluster:
    """A cluster of such devices, with the power cap and the memory that the row names."""
    accelerator, link, joined, network = DEVICES[name]
    device = shipped_accelerators()[accelerator]
    if "HBM2e" in gpu:
        device = msgspec.structs.replace(device, memory_bytes_per_second=HBM2E)
    cap = re.search(r"(\d+)\s*W\b", gpu)
    return Cluster(
        name=gpu,
        accelerator=device,
        devices_per_node=8 if joined == 8 else 4,
        link_domain=joined,
        node_link=shipped_links()[link],
        network=shipped_links()[network],
        adapters_per_node=8 if joined == 8 else 4,
        power_cap_watts=float(cap[1]) if cap else None,
    )


def training_of(row: dict[str, str], batch: int, torch: bool) -> Training:
    """Precision, software and overlap of a row."""
    precision, note = row["precision"].upper(), row["note"]
    return Training(
        batch=batch,
        precision="bfloat16" if precision.startswith("BF16")
        else "float4" if "FP4" in precision else "float8",
        scaling="row" if "ROWWISE" in precision else "tensor",
        gradient_precision="float32",
        software=("torch eager" if "eager" in note else "torch") if torch else "megatron",
        tensor_overlap="async" in note or not torch,
        # torchtitan compiles the loss since 2025; before, that was turned off
        fused_loss=not torch or (row["release"] >= "2025" and "eager" not in note),
    )  # fmt: skip


def model_of(row: dict[str, str]) -> Transformer:
    """The shape of a row's model."""
    whole = {key: int(number(row[key])) for key in
             ("layers", "hidden", "heads", "kv_heads", "head_dim", "ffn", "vocab", "experts",
              "top_k", "moe_ffn", "seq")}  # fmt: skip
    latent = row["kv_heads"] == "MLA"
    name = row["model"].lower()
    span = None
    if "oss" in name:  # every second layer attends to a window of 128
        span = (whole["seq"] / 2 + 128) / 2
    return Transformer(
        layers=whole["layers"],
        hidden=whole["hidden"],
        heads=whole["heads"],
        sequence=whole["seq"],
        vocabulary=whole["vocab"],
        feed_forward=whole["moe_ffn"] if whole["experts"] else whole["ffn"],
        key_value_heads=None if latent else whole["kv_heads"] or None,
        head_width=160 if latent else whole["head_dim"] or None,
        attention_parameters=LATENT if latent else None,
        attention_span=span,
        experts=whole["experts"] or None,
        experts_per_token=max(1, whole["top_k"]),
        shared_experts=1 if latent else 0,
        gated="nemotron4" not in name,
        tied_embeddings=False,
        attention="flash",
    )


def cases(path: Path) -> list[dict[str, str]]:
    """A row for each set-up, with the median seconds over releases, as the judge counts them."""
    found: dict[tuple[str, ...], list[dict[str, str]]] = {}
    for row in csv.DictReader(path.read_text().splitlines()):
        if row["kind"] == "pretrain" and row["layers"]:
            note = (row["note"],) if "torchtitan" in row["source"] else ()
            found.setdefault((*(row[key] for key in CASE), *note), []).append(row)
    return [
        {**rows[-1], "seconds_per_step": str(statistics.median(
            number(row["seconds_per_step"]) for row in rows))}
        for rows in found.values()
    ]  # fmt: skip


# What is fitted: a name, its first value, and how far (in ln) it may be drawn away at ease.
FREE = {
    "low_precision": (0.62, 0.2), "attention": (0.60, 0.1), "torch.attention": (0.5, 0.3),
    "torch.traffic": (1.1, 0.15), "eager.traffic": (2.0, 0.3), "megatron.tensor": (0.35, 0.5),
    "torch.tensor": (0.6, 0.5), "row_scaling": (0.7, 0.2), "casts": (1.0, 0.4),
    "row_casts": (4.0, 0.3), "short": (1500.0, 0.5), "context_cost": (0.1, 0.5),
    "power": (0.6, 0.3),
}  # fmt: skip
FREE_EXPERTS = {
    "grouped": (0.5, 0.4), "expert_exposed": (0.4, 0.7), "permuted": (24.0, 0.7),
    "routing_seconds": (1.5e-3, 0.7),
}  # fmt: skip


def constants(values: dict[str, float]) -> tuple[Efficiency, Constants]:
    """Both structs with these values."""
    efficiency = {k: values[k] for k in ("low_precision", "attention") if k in values}
    plain = {k: v for k, v in values.items() if k in Constants.__struct_fields__}
    software = dict(CONSTANTS.software)
    m, t, e = (software[name] for name in ("megatron", "torch", "torch eager"))
    attention = values.get("torch.attention", t.attention)
    exposed = values.get("torch.tensor", t.tensor_exposed)
    software["megatron"] = m._replace(tensor_exposed=values.get("megatron.tensor", m[2]))
    software["torch"] = t._replace(
        attention=attention, traffic=values.get("torch.traffic", t.traffic), tensor_exposed=exposed
    )
    software["torch eager"] = e._replace(
        attention=attention, traffic=values.get("eager.traffic", e.traffic), tensor_exposed=exposed
    )
    return Efficiency(**efficiency), msgspec.structs.replace(CONSTANTS, software=software, **plain)


def off(rows: list[dict[str, str]], values: dict[str, float]) -> Any:
    """ln of predicted over published seconds, a row each."""
    efficiency, fitted = constants(values)
    found = []
    for row in rows:
        planned = case(row)
        assert planned is not None, row
        job, plan, cluster = planned
        if values:
            cluster = msgspec.structs.replace(cluster, efficiency=efficiency)
        seconds = step_time(job, plan, cluster, fitted).seconds
        found.append(np.log(seconds / number(row["seconds_per_step"])))
    return np.array(found)


def fit(rows: list[dict[str, str]], free: dict[str, tuple[float, float]],
        known: dict[str, float]) -> dict[str, float]:  # fmt: skip
    """The values that fit best, drawn towards where they began."""
    from scipy.optimize import least_squares

    first = np.log([value for value, _ in free.values()])
    width = np.array([ease for _, ease in free.values()])

    def residuals(x: Any) -> Any:
        values = known | dict(zip(free, np.exp(x), strict=True))
        return np.concatenate([off(rows, values) / 0.08, (x - first) / width])

    found = least_squares(residuals, first, loss="soft_l1", max_nfev=30)
    return known | {name: float(v) for name, v in zip(free, np.exp(found.x), strict=True)}


def fitted(rows: list[dict[str, str]]) -> dict[str, float]:
    """All constants: the dense ones on dense models, then those of experts."""
    dense = [row for row in rows if not number(row["experts"])]
    sparse = [row for row in rows if number(row["experts"])]
    return fit(sparse, FREE_EXPERTS, fit(dense, FREE, {}))


def anchored(rows: list[dict[str, str]], errors: Any) -> list[float | None]:
    """The errors that are left beside the nearest other run of a model; None where it has none."""
    found: list[float | None] = []
    for row, error in zip(rows, errors, strict=True):
        others = [
            (row["precision"] != other["precision"],
             *(abs(np.log(number(row[key]) / number(other[key]))) for key in ("gpus", "gbs")), at)
            for at, other in enumerate(rows)
            if other is not row and all(row[key] == other[key] for key in ("model", "gpu_type",
                                                                           "source"))
        ]  # fmt: skip
        planned, ran = case(row), case(rows[min(others)[-1]]) if others else None
        if planned is None or ran is None:
            found.append(None)
            continue
        measured = Measured(np.exp(-errors[min(others)[-1]]), ran[1], ran[0].training.precision)
        found.append(error + np.log(measured.factor(*planned)))
    return found


def show(rows: list[dict[str, str]], errors: Any) -> None:
    """Mean and largest error of each group."""
    groups: dict[str, list[float]] = {"dense BF16": [], "dense 8 and 4 bits": [], "experts": []}
    for row, error in zip(rows, errors, strict=True):
        bf16 = row["precision"].upper().startswith("BF16")
        name = "experts" if number(row["experts"]) else (
            "dense BF16" if bf16 else "dense 8 and 4 bits")  # fmt: skip
        groups[name].append(abs(float(np.exp(error) - 1)))
    for name, found in groups.items():
        if found:
            print(f"  {name}: {len(found)} cases, mean {100 * np.mean(found):.1f} %, "
                  f"largest {100 * max(found):.0f} %")  # fmt: skip


def main() -> None:
    """Print the errors; with --fit, the constants too."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", type=Path, nargs="?", default=ROWS)
    parser.add_argument("--fit", action="store_true")
    parser.add_argument("-v", action="store_true")
    options = parser.parse_args()
    rows = cases(options.rows)
    errors = off(rows, {})
    print("with the constants that come along:")
    show(rows, errors)
    if options.fit:
        values = fitted(rows)
        print("fitted:", {name: float(f"{value:.3g}") for name, value in values.items()})
        errors = off(rows, values)
        show(rows, errors)
        print("each model left out of the fit:")
        left = np.empty(len(rows))
        for name in sorted({row["model"] for row in rows}):
            without = fitted([row for row in rows if row["model"] != name])
            for i, row in enumerate(rows):
                if row["model"] == name:
                    left[i] = off([row], without)[0]
        show(rows, left)
        dense, experts = (_quantile(rows, left, sparse) for sparse in (False, True))
        print(f"  80 % of |ln| within {dense:.3f} (dense), {experts:.3f} (experts)")
        print("each model left out of the fit, with one measured run of it as anchor:")
        beside = [(row, error) for row, error in zip(rows, anchored(rows, left), strict=True)
                  if error is not None]  # fmt: skip
        show([row for row, _ in beside], [error for _, error in beside])
        errors = left
    if options.v:
        for row, error in zip(rows, errors, strict=True):
            print(f"  {row['model']:15.15s} {row['gpu_type']:8.8s} {row['gpus']:>5s} "
                  f"{row['precision']:10.10s} tp{row['tp']} pp{row['pp']} cp{row['cp']} "
                  f"seq{row['seq']} {row['note']:30.30s} "
                  f"{100 * (np.exp(error) - 1):+.1f} %")  # fmt: skip


def _quantile(rows: list[dict[str, str]], errors: Any, experts: bool) -> float:
    chosen = [abs(e) for row, e in zip(rows, errors, strict=True)
              if bool(number(row["experts"])) == experts]  # fmt: skip
    return float(np.quantile(chosen, 0.8)) if chosen else float("nan")


if __name__ == "__main__":
    main()
