"""Logs of other people: a figure is right or absent, never wrong or invented."""

import gzip
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nodewise.importers.logs.record import LogRun
from nodewise.importers.logs.survey import survey

from . import logs_of_2026, more_real_logs, public_logs, real_hpc_logs, real_logs
from .log_sample import Sample, figures

SAMPLES = (
    *real_logs.SAMPLES, *more_real_logs.SAMPLES, *real_hpc_logs.SAMPLES, *public_logs.SAMPLES,
    *logs_of_2026.SAMPLES,
)  # fmt: skip

_COUNTS = {"world_size", "nodes", "global_batch", "iterations", "seq_length", "tp", "pp", "dp",
           "skipped", "entries"}  # fmt: skip
_OF_THE_HEADER = ("world_size", "nodes", "global_batch", "seq_length")
_MISSING = {
    ("modellink-misspelt-wrapped", "global_batch"),  # the label is misspelt in the log
    ("modellink-misspelt-wrapped", "tokens_per_s"),
    ("nemo-exponents", "global_batch"),  # samples and steps are rounded
    ("nemo-cloud-watch", "global_batch"),  # samples over steps: 128 / 2 or 128 / 1
    ("deepspeed-wrapped", "iterations"),  # one record in five lines
    ("gromacs-sunway-end", "iterations"),  # no accounting, and no line with the planned steps
    ("gromacs-sunway-end", "mean_step_s"),
    ("megatron-t5-three-lines", "global_batch"),  # it is on the line below
    ("hf-metrics-genomes", "iterations"),  # 9176 or, without the last batch, 9172
    ("hf-metrics-ipu", "global_batch"),  # 256 or 257 samples
    ("hf-whisper-58-epochs", "global_batch"),  # 15 to 17, epochs end with a smaller batch
}


def _read(folder: Path, name: str, text: bytes) -> LogRun:
    path = folder / name
    path.write_bytes(text)
    runs = survey([(None, path)])
    return next((run for run in runs if not run.problem), runs[0])


def _agree(name: str, truth: Any, read: Any) -> bool:
    if isinstance(truth, str) or name in _COUNTS:
        return bool(truth == read)
    if name == "warmup":
        return abs(truth - read) <= 2
    return abs(truth - read) <= 0.01 * abs(truth) + 1e-12


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
def test_figures_are_right_or_absent(sample: Sample, tmp_path: Path) -> None:
    """Each figure agrees with what was read by eye."""
    found = figures(_read(tmp_path, sample.file, sample.text.encode()))
    for name, truth in sample.truth.items():
        read = found[name]
        if truth is None:
            assert read is None, f"invented {name}"
        elif (sample.name, name) in _MISSING:
            assert read is None
        else:
            assert read is not None, f"missing {name}"
            assert _agree(name, truth, read), f"{name}: {read}, not {truth}"


def _before(label: str) -> Callable[[str], str]:
    return lambda text: "".join(label + line for line in text.splitlines(keepends=True))


def _both(one: str, other: str) -> Callable[[str], str]:
    return lambda text: "".join(one + line + other + line for line in text.splitlines(True))


def _noisy(text: str) -> str:
    dice = random.Random(1)
    out = ""
    for line in text.splitlines(keepends=True):
        out += line
        if dice.random() < 0.5:
            out += "/opt/checkpoint.py:85: UserWarning: step 12 took 3.5 s on 7 ranks\n"
        if dice.random() < 0.3:
            out += " 12%|██▏       | 123/1000 [00:12<01:20, 10.9it/s]\r"
    return out


VARIANTS: dict[str, Callable[[str], str]] = {
    "carriage returns": lambda text: text.replace("\n", "\r\n"),
    "torchrun": _before("[default0]:"),
    "torch rank": _before("[rank0]: "),
    "srun": _before("0: "),
    "mpirun": _before("[1,0]<stdout>:"),
    "kubernetes": _before("2026-03-01T12:00:00.123456789Z "),
    "compose": _before("trainer-0  | "),
    "two ranks": _both("[rank0]: ", "[rank1]: "),
    "two labels": _both("0: ", "1: "),
    "colours": lambda text: "".join(
        f"\x1b[32m{line.removesuffix(chr(10))}\x1b[0m\n" for line in text.splitlines(True)
    ),
    "noise": _noisy,
    "twice": lambda text: text + text,
}


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize(
    "sample", [one for one in SAMPLES if "sacct" not in one.name], ids=lambda sample: sample.name
)
def test_a_launcher_changes_no_figure(sample: Sample, variant: str, tmp_path: Path) -> None:
    """Labels, colours, other lines and a second run lose figures at most."""
    found = figures(_read(tmp_path, sample.file, VARIANTS[variant](sample.text).encode()))
    for name, truth in sample.truth.items():
        read = found[name]
        if name in ("skipped", "entries", "format") or read is None:
            continue
        assert truth is not None, f"invented {name}"
        assert _agree(name, truth, read), f"{name}: {read}, not {truth}"


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
def test_a_log_that_is_cut_off_invents_nothing(sample: Sample, tmp_path: Path) -> None:
    """At every twentieth of its length; what the whole does not give, no part gives."""
    packed = gzip.compress(sample.text.encode())
    raw = sample.text.encode()
    for part in range(1, 20):
        found = figures(_read(tmp_path, sample.file, raw[: len(raw) * part // 20]))
        for name, truth in sample.truth.items():
            read = found[name]
            if truth is None and (name, found["entries"]) != ("median_step_s", 1):
                assert read is None, f"invented {name}"
            elif read is not None and name in _OF_THE_HEADER:
                assert read == truth, f"{name} of a part"
    assert figures(_read(tmp_path, "packed.log.gz", packed)) == figures(
        _read(tmp_path, sample.file, raw)
    )
