"""Traces: exact arithmetic, every layout that profilers write, broken files, several ranks."""

import contextlib
import gzip
import json
import tempfile
import tracemalloc
from pathlib import Path

import msgspec
import numpy as np
import pytest
from benchmarks import fuzz_readers
from hypothesis import given
from hypothesis import strategies as st

from nodewise.base.errors import DataError, NodewiseError
from nodewise.base.time_sets import common, joined, union, without
from nodewise.diagnose.links import fit_alpha_beta
from nodewise.explain.trace.breakdown import break_down, digest, runs_of
from nodewise.importers.benchmarks import link_tests, mlperf
from nodewise.importers.profilers import (
    caliper,
    chrome,
    extrap,
    kineto,
    nsys,
    talp,  # fmt: skip
)
from nodewise.importers.profilers.digests import pack, unpack
from nodewise.importers.schedulers import dask_stream, ray_timeline, spark_log
from nodewise.importers.tables import claims_tables
from nodewise.study.trace import COMMUNICATION, COPY, Call, RankTrace, Step, Unreadable

BASE = 1_690_000_000_000_000  # microseconds, as profilers count them


def event(cat, name, ts, dur, ph="X", **args):
    return {
        "ph": ph,
        "cat": cat,
        "name": name,
        "pid": 0,
        "tid": 7,
        "ts": ts,
        "dur": dur,
        "args": args,
    }


def job_events(steps=3, late_us=0, base=BASE, compute_us=400, comm_us=200, step_us=1000):
    """Steps of compute, copy and all-reduce; a late rank computes longer and waits less."""
    events = []
    for step in range(steps):
        at = base + step * step_us
        ready = at + 10 + compute_us
        events += [
            event("user_annotation", f"ProfilerStep#{step}", at, step_us),
            event("cpu_op", "aten::mm", at + 1, 20),
            event("cuda_runtime", "cudaLaunchKernel", at + 2, 5, correlation=10 * step + 1),
            event("kernel", "gemm", at + 10, compute_us + late_us, stream=7,
                  correlation=10 * step + 1),
            event("cuda_runtime", "cudaLaunchKernel", at + 7, 2, correlation=10 * step + 2),
            event("kernel", "ncclDevKernel_AllReduce_Sum(x)", ready + late_us, comm_us - late_us,
                  stream=20, correlation=10 * step + 2, **{
                      "Collective name": "allreduce", "In msg nelems": 1000, "dtype": "Float",
                      "Process Group Name": "0", "Group size": 2}),
            event("cuda_runtime", "cudaMemcpyAsync", at + 9, 2, correlation=10 * step + 3),
            event("gpu_memcpy", "Memcpy HtoD", ready + comm_us + 10, 30, stream=7,
                  correlation=10 * step + 3),
        ]  # fmt: skip
    return events


def write_trace(path: Path, events, layout="python", **about):
    about = {"schemaVersion": 1, **about}
    if layout == "array":
        text = json.dumps(events)
    elif layout == "kineto":  # as the profiler itself writes it
        parts = []
        for one in events:
            name, args = json.dumps(one["name"]), json.dumps(one["args"])
            parts.append(
                f'  {{\n    "ph": "X", "cat": "{one["cat"]}", "name": {name}, "pid": 0, "tid": 7,\n'
                f'    "ts": {one["ts"]}, "dur": {one["dur"]},\n    "args": {args}\n  }}'
            )
        head = json.dumps(about)[:-1]
        text = f'{head},\n"traceEvents": [\n' + ",\n".join(parts) + "\n],\n"
        text += '"log": ["a ] b } c", "[["], "traceName": "x"}\n'
    elif layout == "compact":
        text = json.dumps({**about, "traceEvents": events}, separators=(",", ":"))
    elif layout in ("wide", "narrow"):
        indent = 4 if layout == "wide" else 2
        text = json.dumps({**about, "traceEvents": events}, indent=indent)
    elif layout == "sorted":
        text = json.dumps({**about, "traceEvents": events}, sort_keys=True)
    elif layout == "tail":
        text = json.dumps({"traceEvents": events, **about})
    else:
        text = json.dumps({**about, "traceEvents": events})
    raw = text.encode()
    path.write_bytes(gzip.compress(raw) if path.suffix == ".gz" else raw)
    return path


def account(path, window="all"):
    return break_down([digest(kineto.read(path), window)], window).ranks[0]


# Sets of time


spans = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 12)), max_size=12)


def covered(pairs):
    return {t for start, length in pairs for t in range(start, start + length)}


def cover(pairs):
    both = np.array([(start, start + length) for start, length in pairs], np.int64).reshape(-1, 2)
    return union(both[:, 0], both[:, 1])


def points(one):
    return {
        t for s, e in zip(one.starts.tolist(), one.ends.tolist(), strict=True) for t in range(s, e)
    }


@given(spans, spans, st.integers(-5, 80), st.integers(-5, 80))
def test_sets_of_time_agree_with_sets_of_points(first, second, start, end):
    one, other = cover(first), cover(second)
    assert points(one) == covered(first)
    assert one.length == len(covered(first))
    assert points(joined(one, other)) == covered(first) | covered(second)
    assert points(common(one, other)) == covered(first) & covered(second)
    assert points(without(one, other)) == covered(first) - covered(second)
    assert points(one.within(start, end)) == {t for t in covered(first) if start <= t < end}
    low, high = min(start, end), max(start, end)
    between = one.between(np.array([low]), np.array([high]))
    assert int(between[0]) == len({t for t in covered(first) if low <= t < high})
    assert np.all(one.starts[1:] > one.ends[:-1])


rows = st.lists(
    st.tuples(st.integers(0, 10**6), st.integers(1, 10**5), st.sampled_from([0, 1, 2])), min_size=1,
    max_size=30,
)  # fmt: skip


@given(rows)
def test_the_parts_add_up_to_the_window(found):
    starts = np.array([row[0] for row in found], np.int64)
    ends = starts + [row[1] for row in found]
    kinds = np.array([row[2] for row in found], np.int8)
    nothing = np.full(len(found), np.iinfo(np.int64).min)
    trace = RankTrace(file="x", rank=0, starts=starts, ends=ends, kinds=kinds, launches=nothing,
                      calls=np.full(len(found), -1, np.int32))  # fmt: skip
    one = digest(trace)
    result = break_down([one]).ranks[0]
    parts = [result.compute_us, result.exposed_comm_us, result.exposed_copy_us, result.idle_us]
    assert round(1000 * sum(parts)) == round(1000 * result.window_us)
    assert one.compute + one.exposed_communication + (one.busy - one.computing_or_communicating) \
        == one.busy <= one.end - one.start  # fmt: skip


# Real traces


def test_figures_of_real_traces(shared):
    reference = json.loads((shared / "data/traces/reference.json").read_text())["traces"]
    for name, expected in reference.items():
        for window in ("all", "hta"):
            if expected[window] is None:
                continue
            found = account(shared / "data/traces/kineto" / name, window)
            told = {
                "n": found.rows, "idle": found.idle_us, "compute": found.compute_us,
                "noncompute": round(found.exposed_comm_us + found.exposed_copy_us, 3),
                "span": found.window_us, "comm": found.comm_us,
                "exposed_comm": found.exposed_comm_us, "overlap": found.overlap_us,
            }  # fmt: skip
            assert told == {key: expected[window][key] for key in told}, name
            assert found.error is None


def test_real_traces_without_a_device(shared):
    for ranks in (2, 4):
        files = sorted((shared / f"data/traces/gloo/n{ranks}").glob("*.json.gz"))
        job = break_down([digest(kineto.read(file)) for file in files])
        assert [rank.rank for rank in job.ranks] == list(range(ranks))
        assert job.missing_ranks == ()
        assert (job.collectives.count, job.collectives.unmatched_calls) == (8, 0)
        assert [step.number for step in job.steps] == [2, 3, 4, 5]
        for rank in job.ranks:
            assert not rank.on_device
            assert rank.comm_us == pytest.approx(rank.exposed_comm_us + rank.overlap_us)
        for step in job.steps:
            for one in step.ranks:
                parts = one.compute_us + one.exposed_comm_us + one.exposed_copy_us
                parts += one.input_wait_us + one.host_bound_us + one.other_idle_us
                assert parts == pytest.approx(one.window_us, abs=1e-6)


def test_a_real_export_of_nsight(shared):
    traces = nsys.read(shared / "data/traces/nsys/mfu_2gpu_before.sqlite")
    job = break_down([digest(trace) for trace in traces])
    assert [rank.rank for rank in job.ranks] == [0, 1]
    assert sum(rank.rows for rank in job.ranks) == 4010 + 1020 + 269
    assert job.collectives.count == 33
    assert sum(kind.calls for kind in job.collectives.kinds) == 66
    assert all(rank.host_bound_us > 0 for rank in job.ranks)


def test_an_export_of_nsight_that_is_none(tmp_path):
    path = tmp_path / "x.sqlite"
    path.write_bytes(b"SQLite format 3\0" + b"\xff" * 4000)
    with pytest.raises(DataError):
        nsys.read(path)


# Layouts


LAYOUTS = ("python", "array", "kineto", "compact", "wide", "narrow", "sorted", "tail")


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("ending", [".json", ".json.gz"])
def test_every_layout_gives_the_same(tmp_path, layout, ending):
    about = {"distributedInfo": {"rank": 3, "world_size": 8}}
    trace = kineto.read(write_trace(tmp_path / f"t{ending}", job_events(), layout, **about))
    if layout != "array":
        assert (trace.rank, trace.world_size) == (3, 8)
    found = break_down([digest(trace)]).ranks[0]
    assert (found.window_us, found.compute_us, found.comm_us) == (2640.0, 1200.0, 600.0)
    assert (found.exposed_comm_us, found.exposed_copy_us, found.idle_us) == (600.0, 90.0, 750.0)
    assert found.steps == 3
    assert found.error is None


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("indent", range(7))
def test_steps_marked_as_operators_are_seen_in_every_layout(tmp_path, layout, indent):
    events = [
        {**one, "cat": "Operator" if one["cat"] == "user_annotation" else one["cat"]}
        for one in job_events()
    ]
    path = write_trace(tmp_path / "t.json", events, layout)
    path.write_text(path.read_text().replace("\n", "\n" + " " * indent))
    assert account(path).steps == 3


@pytest.mark.parametrize("block", [64, 100, 997, 4096])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_blocks_may_end_anywhere(tmp_path, monkeypatch, layout, block):
    path = write_trace(tmp_path / "t.json", job_events(20), layout)
    whole = kineto.read(path)
    monkeypatch.setattr(chrome, "BLOCK_BYTES", block)
    cut = kineto.read(path)
    assert cut.damage == "" and len(cut.starts) == len(whole.starts) == 60
    for field in ("starts", "ends", "kinds", "launches", "calls"):
        first, second = (getattr(one, field)[np.argsort(one.starts)] for one in (cut, whole))
        assert np.array_equal(first, second)


@pytest.mark.parametrize("layout", ["kineto", "sorted"])
@pytest.mark.parametrize(
    ("ts", "dur", "start", "end"),
    [
        ("1690000000000123.001", "0.999", 1690000000000123001, 1690000000000124000),
        ("4909914679597.053", "5.568", 4909914679597053, 4909914679602621),
        ("8796093022208.999", "0.001", 8796093022208999, 8796093022209000),
        ("1690000000000005.999", "1", 1690000000000005999, 1690000000000006999),
        ("12.5", "3", 12500, 15500),
    ],
)
def test_nanoseconds_are_exact(tmp_path, layout, ts, dur, start, end):
    events = job_events(1)[3:4]
    path = write_trace(tmp_path / "t.json", events, layout)
    text = path.read_text()
    text = text.replace(f'"ts": {events[0]["ts"]}', f'"ts": {ts}').replace(
        '"dur": 400', f'"dur": {dur}'
    )
    path.write_text(text)
    trace = kineto.read(path)
    assert (int(trace.starts[0]), int(trace.ends[0])) == (start, end)


def test_times_are_counted_from_the_files_own_base(tmp_path):
    path = write_trace(tmp_path / "t.json", job_events(base=1000), "tail",
                       baseTimeNanoseconds=1_700_000_000_000_000_000)  # fmt: skip
    trace = kineto.read(path)
    assert int(trace.starts.min()) == 1_700_000_000_000_000_000 + 1_010_000
    assert int(trace.launches.min()) == 1_700_000_000_000_000_000 + 1_002_000
    assert trace.steps[0].start == 1_700_000_000_000_000_000 + 1_000_000


def test_old_names_hex_streams_and_what_is_not_json(tmp_path):
    path = tmp_path / "t.json"
    path.write_text("""{"traceEvents": [
      {"ph": "X", "cat": "Kernel", "name": "a\tb", "ts": 10, "dur": 5, "args": {"stream": "0x0"}},
      {"ph": "X", "cat": "Memcpy", "name": "c", "ts": 20, "dur": 5, "args": {"bytes": "256"}},
      {"ph": "X", "cat": "Operator", "name": "ProfilerStep#1", "ts": 0, "dur": 40, "args": {}},
      {"ph": "X", "cat": "kernel", "name": "d", "ts": 30, "dur": 5,
       "args": {"est. achieved occupancy %": nan, "x": -inf, "correlation": 1.5}}]}""")
    found = account(path)
    assert (found.rows, found.window_us, found.compute_us, found.exposed_copy_us) == (3, 25, 10, 5)
    assert found.steps == 1 and found.error is None


def test_a_key_inside_a_string_or_inside_arguments_is_no_event(tmp_path):
    inner = {"ph": "X", "cat": "kernel", "name": "no", "ts": BASE, "dur": 9}
    events = [
        event("cpu_op", '{"ph": "X", "cat": "kernel", "ts": 1, "dur": 1}', BASE, 5, nested=inner),
        event("kernel", 'a "ph" b \\" {', BASE + 10, 5),
        event("kernel", "b", BASE + 20, 5, nested=inner),
    ]
    for layout in LAYOUTS:
        assert account(write_trace(tmp_path / "t.json", events, layout)).rows == 2, layout


def test_events_without_a_time_are_counted_and_named(tmp_path):
    bad = [
        event("kernel", "x", None, 1), event("kernel", "x", BASE, -5), event("kernel", "", 1e30, 1),
        event("kernel", "x", BASE, None), event("kernel", "x", 10**40, 2),
    ]  # fmt: skip
    found = account(write_trace(tmp_path / "t.json", [*job_events(), *bad]))
    assert found.rows == 9
    assert found.error is not None and "5 events" in found.error


def host_events(name="ProfilerStep#1", thread=1, shapes="[[4, 4]]", types='["float"]'):
    """A step, an operator and a collective of a rank without a device, as bytes."""
    rows = [
        f'"cat": "user_annotation", "name": "{name}", "tid": 1, "ts": 0, "dur": 900',
        f'"cat": "cpu_op", "name": "aten::mm", "tid": {thread}, "ts": 10, "dur": 300',
        '"cat": "user_annotation", "name": "gloo:all_reduce", "tid": 1, "ts": 400, "dur": 100, '
        f'"args": {{"Input Dims": {shapes}, "Input type": {types}}}',
    ]
    text = ", ".join(f'{{"ph": "X", {row}}}' for row in rows)
    return f'{{"traceEvents": [{text}]}}'.encode("latin1")


@pytest.mark.parametrize(
    ("change", "steps", "size"),
    [
        ({}, 1, 64),
        ({"name": "ProfilerStep#" + "9" * 30}, 0, 64),
        ({"thread": "[]"}, 1, 64),
        ({"thread": '{"a": [1]}'}, 1, 64),
        ({"types": '["flo\xaeat"]'}, 1, None),  # not UTF-8
        ({"shapes": "[[4, 4611686018427387904, 4611686018427387904]]"}, 1, None),
        ({"shapes": "[[-4]]"}, 1, None),
    ],
)
def test_a_step_a_thread_or_a_size_that_is_none(tmp_path, change, steps, size):
    path = tmp_path / "t.json"
    path.write_bytes(host_events(**change))
    job = break_down([digest(kineto.read(path))])
    assert (job.ranks[0].compute_us, job.ranks[0].steps) == (300, steps)
    assert job.collectives.kinds[0].bytes == size
    msgspec.json.encode(job)


@pytest.mark.parametrize(("elements", "size"), [(1000, 4000), (2**62, None), (-1, None)])
def test_a_call_of_more_bytes_than_there_are(tmp_path, elements, size):
    name = "ncclDevKernel_AllReduce_Sum(x)"
    about = {"Collective name": "allreduce", "In msg nelems": elements, "dtype": "Float"}
    path = write_trace(tmp_path / "t.json", [event("kernel", name, BASE, 9, **about)])
    assert break_down([digest(kineto.read(path))]).collectives.kinds[0].bytes == size


def test_a_long_tail_takes_no_memory(tmp_path):
    about = {"stacks": {str(at): "x" * 1000 for at in range(9000)}}
    found = account(write_trace(tmp_path / "t.json", job_events(), "tail", **about))
    assert found.rows == 9 and found.error is None


def test_other_collectives_are_named_and_can_be_told(tmp_path):
    events = [event("kernel", "multimem_all_reduce_kernel<x>", BASE, 10), *job_events()]
    path = write_trace(tmp_path / "t.json", events)
    trace = kineto.read(path)
    assert "multimem_all_reduce_kernel" in trace.notes[0]
    assert account(path).comm_us == 600
    assert digest(kineto.read(path, "multimem")).communication == 610_000


# Broken and foreign files


@pytest.mark.parametrize("layout", ["python", "kineto", "array", "sorted"])
def test_a_file_that_is_cut_off_says_so_wherever_it_is_cut(tmp_path, layout):
    raw = write_trace(tmp_path / "t.json", job_events(), layout).read_bytes()
    path = tmp_path / "cut.json"
    for length in range(0, len(raw) - 3, 41):
        path.write_bytes(raw[:length])
        try:
            trace = kineto.read(path)
        except DataError as error:
            assert str(path) in error.what
        else:
            assert trace.damage or not raw[length:].strip(), length


def test_a_packed_file_that_is_cut_off_or_damaged(tmp_path):
    raw = write_trace(tmp_path / "t.json.gz", job_events(300)).read_bytes()
    path = tmp_path / "cut.json.gz"
    for broken in (raw[:-9], raw[: len(raw) // 2], raw[:500] + b"\x00\xff\x00" + raw[503:]):
        path.write_bytes(broken)
        with contextlib.suppress(DataError):
            assert kineto.read(path).damage
    path.write_bytes(raw + b"\0\0\0")  # padding is no damage
    assert kineto.read(path).damage == ""


@pytest.mark.parametrize(
    "content", [b"", b"   ", b"K,time_s\n1,2\n", b"\x89PNG\r\n\x1a\n" + bytes(999), b"{}", b"[]",
                b"{" * 5000, b"[" * 200_000, b'{"traceEvents": 5}', b'{"traceEvents": []}', b"null",
                b'{"traceEvents": [1, "x", null, [2]]}', b"\x1f\x8b", b"\x1f\x8b\x08garbage"],
)  # fmt: skip
def test_foreign_files_are_refused_by_name(tmp_path, content):
    path = tmp_path / "foreign.json"
    path.write_bytes(content)
    with pytest.raises(DataError, match="foreign"):
        kineto.read(path)


@given(st.data())
def test_changed_bytes_give_an_error_or_a_result_and_never_anything_else(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("fuzz")
    layout = data.draw(st.sampled_from(LAYOUTS))
    raw = bytearray(write_trace(folder / "t.json", job_events(), layout).read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(raw) - 1))
        kind = data.draw(st.sampled_from(["change", "drop", "add"]))
        if kind == "change":
            raw[at] = data.draw(st.integers(0, 255))
        elif kind == "drop":
            del raw[at : at + data.draw(st.integers(1, 40))]
        else:
            raw[at:at] = data.draw(
                st.sampled_from(
                    [
                        b'"',
                        b"{",
                        b"}",
                        b"[",
                        b"]",
                        b"\\",
                        b"1e999,",
                        b'"ph": "X", ',
                        b"null",
                        b"\xff\xfe",
                    ]
                )
            )
        if not raw:
            raw = bytearray(b"x")
    path = folder / "fuzz.json"
    path.write_bytes(raw)
    try:
        job = break_down([digest(kineto.read(path))])
    except NodewiseError:
        pass
    else:
        for rank in job.ranks:
            parts = rank.compute_us + rank.exposed_comm_us + rank.exposed_copy_us + rank.idle_us
            assert parts == pytest.approx(rank.window_us)


# Several ranks


def ranks_of(tmp_path, lateness, **about):
    digests = []
    for rank, late in enumerate(lateness):
        info = {"rank": rank, "world_size": about.get("world_size", len(lateness))}
        path = write_trace(
            tmp_path / f"r{rank}.json", job_events(late_us=late), distributedInfo=info
        )
        digests.append(digest(kineto.read(path)))
    return digests


def test_transfer_and_wait_are_told_apart_and_the_late_rank_is_named(tmp_path):
    job = break_down(ranks_of(tmp_path, [0, 0, 150, 0]))
    # The all-reduce takes 50 us on the late rank and 200 us on the three that wait for it.
    assert job.collectives.count == 3
    assert job.collectives.transfer_us == 3 * 4 * 50
    assert job.collectives.wait_us == 3 * 3 * 150
    assert [(late.rank, late.times_last) for late in job.late_ranks] == [(2, 3)]
    assert {step.critical_rank for step in job.steps} == {2}
    assert job.collectives.kinds[0].bytes == 12 * 4000
    assert (job.collectives.kinds[0].operation, job.collectives.kinds[0].group) == (
        "allreduce",
        "0",
    )


def test_the_factors_multiply_to_the_parallel_efficiency(tmp_path):
    pop = break_down(ranks_of(tmp_path, [0, 0, 150, 0])).pop
    assert pop.parallel_efficiency == pytest.approx(
        pop.load_balance * pop.serialisation * pop.transfer
    )
    assert pop.elapsed_us == 2640
    assert pop.load_balance == pytest.approx((3 * 400 + 550) / 4 / 550)
    assert pop.transfer == pytest.approx((2640 - 3 * 50) / 2640)


def test_missing_ranks_are_named(tmp_path):
    digests = ranks_of(tmp_path, [0] * 3, world_size=5)
    assert break_down(digests[:1] + digests[2:]).missing_ranks == (1, 3, 4)


def lacking(events, *steps):
    """The events without the marks of some steps; their work stays."""
    names = {f"ProfilerStep#{step}" for step in steps}
    return [one for one in events if one["name"] not in names]


def test_a_step_that_one_rank_lacks_is_left_out_with_the_one_that_ran_into_it(tmp_path):
    whole = digest(kineto.read(write_trace(tmp_path / "a.json", job_events(steps=5))))
    gap = digest(kineto.read(write_trace(tmp_path / "b.json", lacking(job_events(steps=5), 2))))
    assert gap.step_numbers.tolist() == [0, 1, 3, 4]
    job = break_down([whole, gap])
    # Step 1 of the second rank lasts until its step 3, so it is not set beside that of the first.
    assert [step.number for step in job.steps] == [0, 3, 4]
    assert {step.window_us for step in job.steps[:2]} == {1000}
    assert [rank.window_us for rank in job.ranks] == [4640, 4640]
    assert job.ranks[0].compute_us == job.ranks[1].compute_us == 5 * 400
    assert any(note.startswith("2 of 5 steps are not marked alike") for note in job.notes)
    assert not break_down([whole, whole]).notes


@pytest.mark.parametrize("window", ["all", "hta", "common"])
def test_traces_without_steps_are_one_run(tmp_path, window):
    events = lacking(job_events(), 0, 1, 2)
    digests = [
        digest(kineto.read(write_trace(tmp_path / f"rank{rank}.json", events)), window)
        for rank in (0, 1)
    ]
    job = break_down(digests, window)
    assert job.steps == () and not job.notes
    assert [rank.window_us for rank in job.ranks] == [2640, 2640]
    assert job.collectives.count == 3
    assert [run.seconds for run in runs_of(job, nodes=2)] == [pytest.approx(2640e-6)]


def test_work_that_no_mark_of_a_step_holds_counts_in_the_totals(tmp_path):
    found = digest(kineto.read(write_trace(tmp_path / "t.json", lacking(job_events(), 0))))
    assert found.step_numbers.tolist() == [1, 2]
    assert found.compute == 3 * 400_000
    assert int(found.step_parts[:, 0].sum()) == 2 * 400_000


@given(st.permutations(range(9)))
def test_rows_in_any_order_give_the_same(order):
    columns = {
        "starts": np.array([5, 0, 20, 20, 7, 31, 40, 40, 60], np.int64),
        "ends": np.array([9, 6, 25, 22, 7, 39, 44, 48, 61], np.int64),
        "kinds": np.array([0, 1, 2, 0, 1, 0, 1, 0, 2], np.int8),
        "launches": np.array([1, 0, 8, 8, 3, 27, 39, 39, 50], np.int64),
        "calls": np.array([-1, 0, -1, -1, 0, -1, 0, -1, -1], np.int32),
    }
    steps = (Step(number=1, start=0, end=25), Step(number=2, start=25, end=70))
    about = {"file": "x", "rank": 0, "call_table": (Call(operation="allreduce"),), "steps": steps}
    plain = digest(RankTrace(**about, **{name: one.copy() for name, one in columns.items()}))
    mixed = digest(RankTrace(**about, **{name: one[order] for name, one in columns.items()}))
    assert pack([mixed], "all") == pack([plain], "all")
    assert (plain.compute, plain.communication, plain.busy) == (22, 10, 31)
    assert plain.step_starts.tolist() == [0, 31]


def test_adding_up_takes_little_more_memory_than_the_rows():
    count = 200_000
    starts = np.arange(count, dtype=np.int64) * 10
    kinds = np.zeros(count, np.int8)
    kinds[::20], kinds[1::20] = COMMUNICATION, COPY
    trace = RankTrace(
        file="x",
        rank=0,
        starts=starts,
        ends=starts + 8,
        kinds=kinds,
        launches=starts - 5,
        calls=np.where(kinds == COMMUNICATION, 0, -1).astype(np.int32),
        call_table=(Call(operation="allreduce"),),
        steps=tuple(Step(number=at, start=10_000 * at, end=10_000 * (at + 1)) for at in range(200)),
    )
    tracemalloc.start()
    try:
        assert digest(trace).busy == 8 * count
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 60 * count  # bytes; a row itself has 29


def test_a_rank_whose_calls_differ_is_not_matched(tmp_path):
    digests = ranks_of(tmp_path, [0, 0])
    extra = [
        *job_events(),
        event(
            "kernel",
            "ncclDevKernel_AllReduce_Sum(x)",
            BASE + 2700,
            10,
            **{"Collective name": "allreduce", "Process Group Name": "0"},
        ),
    ]
    odd = digest(kineto.read(write_trace(tmp_path / "odd.json", extra)))
    job = break_down([digests[0], odd])
    assert job.collectives.count == 2  # in the steps that agree
    assert job.collectives.unmatched_calls == 3
    assert any("no counterpart" in note for note in job.notes)


def test_ranks_with_other_clocks_are_told(tmp_path):
    first = digest(kineto.read(write_trace(tmp_path / "a.json", job_events())))
    other = digest(kineto.read(write_trace(tmp_path / "b.json", job_events(base=BASE + 10**9))))
    job = break_down([first, other], "common")
    assert any("clocks" in note for note in job.notes)
    assert [rank.window_us for rank in job.ranks] == [2640, 2640]


def test_a_common_window_counts_what_a_rank_missed_as_idle(tmp_path):
    first = digest(kineto.read(write_trace(tmp_path / "a.json", job_events())))
    other = digest(kineto.read(write_trace(tmp_path / "b.json", job_events(base=BASE + 100))))
    job = break_down([first, other], "common")
    assert [rank.window_us for rank in job.ranks] == [2740, 2740]
    assert [rank.idle_us for rank in job.ranks] == [850, 850]


def test_input_wait_and_host_bound_gaps(tmp_path):
    events = [
        event("kernel", "a", BASE, 100, correlation=1),
        event("user_annotation", "enumerate(DataLoader)#_Single.__next__", BASE + 90, 60),
        event("cuda_runtime", "cudaLaunchKernel", BASE + 180, 5, correlation=2),
        event("kernel", "b", BASE + 200, 100, correlation=2),
        event("cuda_runtime", "cudaLaunchKernel", BASE + 190, 5, correlation=3),
        event("kernel", "c", BASE + 310, 100, correlation=3),
    ]
    found = account(write_trace(tmp_path / "t.json", events))
    assert found.idle_us == 110
    assert found.input_wait_us == 50
    assert found.host_bound_us == 50  # the last gap, of 10, was not the host's


def test_runs_of_a_job_keep_all_of_its_time(tmp_path):
    job = break_down(ranks_of(tmp_path, [0, 150]))
    runs = runs_of(job, nodes=2)
    assert [run.round for run in runs] == [0, 1]  # the last of three steps is left out
    for run in runs:
        assert run.seconds == pytest.approx(1e-3)
        for rank in run.ranks:
            assert sum(rank.stages.values()) == pytest.approx(rank.seconds)
        assert run.ranks[0].stages["idle"] == pytest.approx(150e-6)
        assert run.ranks[1].stages["idle"] == 0
        assert run.ranks[1].stages["communication"] == pytest.approx(50e-6)
    whole = runs_of(break_down(ranks_of(tmp_path, [0, 150])[:1]), nodes=1)
    assert len(whole[0].ranks) == 1


# Other formats


def test_talp_says_what_it_printed(shared):
    folder = shared / "data/traces/talp"
    run = talp.read(folder / "complete_2.json", None)[0]
    assert run.nodes == 2
    assert run.seconds == pytest.approx(10.002805067)
    assert run.stages["compute"] == pytest.approx(12.514719683 / 2)
    for path in folder.glob("*.json"):
        try:
            assert talp.read(path, 4)[0].nodes == 4
        except DataError as error:
            assert path.name in error.what


def test_ray_timelines(tmp_path):
    path = tmp_path / "ray.json"
    path.write_text(json.dumps([
        {"cat": "task:execute", "ph": "X", "pid": "10.0.0.1", "tid": "w1", "ts": 0.0, "dur": 3e6},
        {"cat": "ray.put", "ph": "X", "pid": "10.0.0.1", "tid": "w1", "ts": 3e6, "dur": 1e6},
        {"cat": "task:execute", "ph": "X", "pid": "10.0.0.2", "tid": "w2", "ts": 1e6, "dur": 1e6},
        {"cat": "submit_task", "ph": "X", "pid": "10.0.0.1", "tid": "d", "ts": 0.0, "dur": 9e6},
    ]))  # fmt: skip
    run = ray_timeline.read(path, None)[0]
    assert (run.nodes, run.seconds, len(run.ranks)) == (2, 4.0, 2)
    assert run.ranks[0].stages == {"compute": 3.0, "io": 1.0, "idle": 0.0}
    assert run.ranks[1].stages["idle"] == 3.0
    path.write_text("[]")
    with pytest.raises(DataError, match="no tasks"):
        ray_timeline.read(path, None)


def test_dask_streams(tmp_path):
    path = tmp_path / "dask.json"
    path.write_text(json.dumps([
        {"worker": "a", "startstops": [{"action": "transfer", "start": 100.0, "stop": 101.0},
                                       {"action": "compute", "start": 101.0, "stop": 104.0}]},
        {"worker": "b", "startstops": [{"action": "compute", "start": 100.0, "stop": 102.0}]},
    ]))  # fmt: skip
    run = dask_stream.read(path, None)[0]
    assert (run.nodes, run.seconds) == (2, 4.0)
    assert run.ranks[0].stages == {"compute": 3.0, "communication": 1.0, "io": 0.0, "idle": 0.0}
    assert run.ranks[1].stages["idle"] == 2.0


def test_spark_logs(tmp_path):
    path = tmp_path / "spark.log"
    task = {
        "Event": "SparkListenerTaskEnd",
        "Task Info": {"Executor ID": "1", "Launch Time": 1000, "Finish Time": 3000},
        "Task Metrics": {
            "Executor Run Time": 1500,
            "Shuffle Read Metrics": {"Fetch Wait Time": 300},
            "Shuffle Write Metrics": {"Shuffle Write Time": 200_000_000},
        },
    }
    added = {"Event": "SparkListenerExecutorAdded", "Executor ID": "1",
             "Executor Info": {"Host": "h", "Total Cores": 2}}  # fmt: skip
    path.write_text("\n".join([json.dumps(added), json.dumps(task), '{"Event": "cut']))
    run = spark_log.read(path, None)[0]
    assert (run.nodes, run.seconds) == (1, 2.0)
    assert run.ranks[0].stages == pytest.approx(
        {"compute": 0.5, "communication": 0.15, "io": 0.1, "serial": 0.25, "idle": 1.0}
    )


@pytest.mark.parametrize(
    "text",
    [
        "PARAMETER p\nPOINTS 1 2 4\n\nREGION m\nMETRIC time\nDATA 8 8.2\nDATA 4.1 4\nDATA 2 2.1\n",
        "PARAMETER p\nPOINTS ( 1 ) ( 2 ) ( 4 )\nMETRIC time\nDATA 8 8.2\nDATA 4.1 4\nDATA 2 2.1\n",
        "\n".join(
            json.dumps({"params": {"p": p}, "metric": "time", "callpath": "main", "value": v})
            for p, v in [(1, 8), (1, 8.2), (2, 4.1), (2, 4), (4, 2), (4, 2.1)]
        ),
        json.dumps({"measurements": {"main": {"time": [
            {"point": [1], "values": [8, 8.2]}, {"point": [2], "values": [4.1, 4]},
            {"point": [4], "values": [2, 2.1]}]}}}),
    ],
)  # fmt: skip
def test_measurements_of_extra_p(tmp_path, text):
    path = tmp_path / "extrap.txt"
    path.write_text(text)
    runs = extrap.read(path, None)
    assert [(run.nodes, run.seconds) for run in runs] == [
        (1, 8), (1, 8.2), (2, 4.1), (2, 4), (4, 2), (4, 2.1)
    ]  # fmt: skip


def test_logs_of_mlperf(tmp_path):
    path = tmp_path / "mlperf.log"
    lines = [
        {"key": "init_start", "time_ms": 0, "value": None},
        {"key": "global_batch_size", "time_ms": 5, "value": 256},
        {"key": "run_start", "time_ms": 10_000, "value": None},
        {"key": "eval_accuracy", "time_ms": 60_000, "value": 0.759},
        {"key": "run_stop", "time_ms": 70_000, "value": None, "metadata": {"status": "success"}},
    ]
    path.write_text("\n".join(f"0: :::MLLOG {json.dumps(line)}" for line in lines) + "\nother\n")
    run = mlperf.read(path, 8)[0]
    assert (run.nodes, run.seconds, run.quality, run.setup_seconds) == (8, 60.0, 0.759, 10.0)
    assert run.facts == {"global_batch_size": 256}
    with pytest.raises(NodewiseError, match="number of nodes"):
        mlperf.read(path, None)


def test_outputs_of_nccl_tests_and_osu(tmp_path):
    path = tmp_path / "nccl.txt"
    rows = [
        f"{size:12d} {size // 4:12d} float sum -1 {20 + size / 10e3:8.2f} 1.0 1.0 0 21.0 1.0 1.0 0"
        for size in (8, 1024, 2**20, 2**28)
    ]
    head = "# all_reduce_perf\n#  Rank  0 Group  0 Pid  1 on h device 0\n#  Rank  1 Pid 2 on h\n"
    path.write_text(head + "\n".join(rows))
    test = link_tests.read(path)
    assert (test.operation, test.ranks, len(test.points)) == ("all_reduce", 2, 4)
    fit = fit_alpha_beta(test.points)
    assert fit.alpha_us == pytest.approx(20, rel=1e-3)
    assert fit.bandwidth_gb_per_s == pytest.approx(10, rel=1e-3)
    path.write_text(
        "# OSU MPI Latency Test v7.3\n# Size          Latency (us)\n1   1.5\n1048576 101.5\n"
    )
    osu = link_tests.read(path)
    assert osu.operation == "Latency"
    assert osu.points == ((1, 1.5e-6), (1048576, 101.5e-6))


@pytest.mark.parametrize("read", [talp.read, ray_timeline.read, dask_stream.read, spark_log.read,
                                  extrap.read, mlperf.read])  # fmt: skip
@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xfe\x00",
        b"[",
        b"{}",
        b"5",
        b"[[[]]]",
        b'{"Application": 3}',
        b'{"measurements": {"a": 1}}',
        b'[{"worker": 3}]',
        b'{"Event": 1}',
        b":::MLLOG 5",
    ],
)
def test_foreign_logs_are_refused_by_name(tmp_path, read, content):
    path = tmp_path / "foreign.log"
    path.write_bytes(content)
    with pytest.raises(NodewiseError, match="foreign"):
        read(path, 2)


def test_a_file_that_cannot_be_read(tmp_path):
    for read in (kineto.read, lambda path: talp.read(path, 2)):
        with pytest.raises(DataError, match="nowhere"):
            read(tmp_path / "nowhere.json")


# What fuzzing found (benchmarks/fuzz.py)


def test_a_time_beyond_all_decimals(tmp_path):
    path = write_trace(tmp_path / "t.json", job_events())
    path.write_text(path.read_text().replace('"dur": 400', '"dur": 1e999999999', 1))
    found = account(path)
    assert found.rows == 8
    assert found.error is not None and "1 events" in found.error


def test_numbers_that_no_link_test_writes(tmp_path):
    path = tmp_path / "osu.txt"
    head = "# OSU MPI Latency Test\n# Size Latency (us)\n"
    path.write_text(f"{head}1 1.5.5\n{'9' * 400} 2\n8 2.0\n16 3.0\n")
    assert link_tests.read(path).points == ((8, 2e-6), (16, 3e-6))


@pytest.mark.parametrize("scale", ["nan", "inf", "1e400", "0.5"])
def test_a_parameter_that_is_no_scale(tmp_path, scale):
    path = tmp_path / "extrap.txt"
    path.write_text(f"PARAMETER p\nPOINTS 1 {scale}\nMETRIC time\nDATA 8\nDATA 4\n")
    with pytest.raises(DataError, match="is not a number of nodes"):
        extrap.read(path, None)


def test_a_task_beyond_all_clocks(tmp_path):
    path = tmp_path / "dask.json"
    spans = [{"action": "compute", "start": 1.0, "stop": stop} for stop in (9.5e9, 3.0)]
    path.write_text(json.dumps([{"worker": "a", "startstops": spans}]))
    assert dask_stream.read(path, None)[0].seconds == 2.0


def test_an_export_of_nsight_with_damaged_text(tmp_path):
    good = fuzz_readers._nsys()[0]
    path = tmp_path / "x.sqlite"
    path.write_bytes(good.replace(b"CREATE TABLE NVTX_EVENTS", b"CREATE TABLE \xc3\xc1TX_EVENTS"))
    with contextlib.suppress(DataError):
        assert nsys.read(path)


# Caliper, Hatchet, CSV


def caliper_split():
    """Two ranks; the second spends half of its three seconds in MPI."""
    return {
        "data": [[0.5, 0, 0], [2.5, 1, 0], [0.5, 0, 1], [1.0, 1, 1], [1.5, 2, 1]],
        "columns": ["sum#time.duration", "path", "mpi.rank"],
        "column_metadata": [{"is_value": True}, {"is_value": False}, {"is_value": True}],
        "nodes": [
            {"label": "main", "column": "path"},
            {"label": "solve", "column": "path", "parent": 0},
            {"label": "MPI_Allreduce", "column": "mpi.function", "parent": 1},
        ],
    }


def test_profiles_of_caliper(tmp_path):
    path = tmp_path / "caliper.json"
    path.write_text(json.dumps(caliper_split()))
    run = caliper.read(path, None)[0]
    assert (run.nodes, run.seconds) == (2, 3.0)
    assert run.ranks[0].stages == {"compute": 3.0, "communication": 0.0}
    assert run.ranks[1].stages == {"compute": 1.5, "communication": 1.5}
    assert caliper.read(path, 8, region="solve")[0].seconds == 2.5
    with pytest.raises(DataError, match="no region nothing"):
        caliper.read(path, 8, region="nothing")


def test_a_circle_among_the_parents_of_a_profile(tmp_path):
    document = caliper_split()
    document["nodes"][0]["parent"] = 2
    path = tmp_path / "caliper.json"
    path.write_text(json.dumps(document))
    assert caliper.read(path, 2)[0].seconds == 3.0


def test_plain_records_of_caliper_and_trees_of_hatchet(tmp_path):
    path = tmp_path / "profile.json"
    records = [
        {"path": "main/solve", "sum#time.duration.ns": "3e9"},
        {"path": "main/solve", "mpi.function": "MPI_Send", "sum#time.duration.ns": "1e9"},
    ]
    leaf = {"frame": {"name": "MPI_Send"}, "metrics": {"time": 1.0, "time (inc)": 1.0}}
    tree = {"frame": {"name": "main"}, "metrics": {"time": 3.0, "time (inc)": 4.0}}
    for document in (records, [{**tree, "children": [leaf]}]):
        path.write_text(json.dumps(document))
        run = caliper.read(path, 4)[0]
        assert (run.nodes, run.seconds) == (4, 4.0)
        assert run.stages == {"compute": 3.0, "communication": 1.0}
        with pytest.raises(NodewiseError, match="number of nodes"):
            caliper.read(path, None)


def test_tables_to_be_joined(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("K,rep,time_s\n1,0,8\n2,0,4.5\n")
    assert [run.nodes for run in claims_tables.read_csv(path, None)] == [1, 2]
    assert [run.seconds for run in claims_tables.read_csv(path, 2)] == [4.5]
    with pytest.raises(DataError, match="no runs at K=4"):
        claims_tables.read_csv(path, 4)
    path.write_text("K,rep,time_s\n1,0,eight\n")
    with pytest.raises(DataError, match=r"table\.csv: "):
        claims_tables.read_csv(path, None)


# Partial results


def test_parts_merge_to_the_account_of_the_whole(tmp_path):
    digests = ranks_of(tmp_path, [0, 0, 150, 0])
    digests.append(Unreadable(file="x", reason="cut off", rank=4))
    parts = [pack(digests[:1], "all"), pack(digests[1:], "all")]
    merged = [one for part in parts for one in unpack(part, "all")]
    assert break_down(merged) == break_down(digests)
    with pytest.raises(NodewiseError, match="--window all"):
        unpack(parts[0], "hta")
    with pytest.raises(NodewiseError, match="--collective-kernels '', not 'multimem'"):
        unpack(parts[0], "all", "multimem")


@given(st.data())
def test_a_damaged_part_is_refused_or_read(data):
    with tempfile.TemporaryDirectory() as folder:
        raw = bytearray(pack(ranks_of(Path(folder), [0, 150]), "all"))
    for _ in range(data.draw(st.integers(1, 3))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(NodewiseError):
        break_down(unpack(bytes(raw[: data.draw(st.integers(0, len(raw)))]), "all"))
