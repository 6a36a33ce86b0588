"""Probe overhead: a span, a step, and a loop of 10 ms steps, with spans of other tools.

CPU time, minimum of repeats, measured alternately in one run:
.venv/bin/python benchmarks/probe_overhead.py
Torch and OpenTelemetry are taken along where they are installed.
"""

import atexit
import hashlib
import importlib
import importlib.util
import itertools
import os
import tempfile
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from time import process_time_ns

REPEATS = 25
SPANS = 2000
STEPS = 20
STEP_NS = 10_000_000


def least(loops: Mapping[str, Callable[[], object]], times: int, repeats: int) -> dict[str, float]:
    """Nanoseconds of CPU for one of `times`, in the best of the alternating repeats."""
    best = dict.fromkeys(loops, float("inf"))
    for _ in range(repeats):
        for name, loop in loops.items():
            begin = process_time_ns()
            loop()
            best[name] = min(best[name], (process_time_ns() - begin) / times)
    return best


def spans(span: Callable[[], AbstractContextManager[object]]) -> Callable[[], None]:
    """A loop that does nothing but enter and leave."""

    def loop() -> None:
        for _ in range(SPANS):
            with span():
                pass

    return loop


def nested_spans() -> None:
    """Four spans inside each other, as many in all."""
    from nodewise import probe

    for _ in range(SPANS // 4):
        with probe.compute(), probe.comm(), probe.compute(), probe.comm():
            pass


def empty_loop() -> None:
    """The loop around the spans, which is taken off."""
    for _ in range(SPANS):
        pass


def span_makers() -> dict[str, Callable[[], AbstractContextManager[object]]]:
    """The ways to time a span that are installed here."""
    from nodewise import probe

    makers: dict[str, Callable[[], AbstractContextManager[object]]] = {
        "probe.compute()": probe.compute,
        "probe.comm()": probe.comm,
    }
    if importlib.util.find_spec("torch"):
        record = importlib.import_module("torch.profiler").record_function
        makers["torch.profiler.record_function"] = lambda: record("step")
    if importlib.util.find_spec("opentelemetry"):
        trace = importlib.import_module("opentelemetry.trace")
        no_tracer = trace.NoOpTracer()
        makers["OpenTelemetry span, no-op"] = lambda: no_tracer.start_as_current_span("step")
    if importlib.util.find_spec("opentelemetry") and importlib.util.find_spec("opentelemetry.sdk"):
        provider = importlib.import_module("opentelemetry.sdk.trace").TracerProvider()
        tracer = provider.get_tracer("benchmark")
        makers["OpenTelemetry span, SDK"] = lambda: tracer.start_as_current_span("step")
    return makers


def show_spans() -> None:
    """Nanoseconds per span, and how many of the probe's that is."""
    loops = {name: spans(maker) for name, maker in span_makers().items()}
    loops["probe's spans, four deep"] = nested_spans
    best = least({"": empty_loop, **loops}, SPANS, REPEATS)
    own = best["probe.compute()"] - best[""]
    for name in loops:
        nanoseconds = best[name] - best[""]
        print(f"{name}: {nanoseconds:.0f} ns, {nanoseconds / own:.2f} times probe.compute()")


def show_loop() -> None:
    """Steps of 10 ms with and without the probe: four spans in each; and what an epoch adds."""
    from nodewise import probe

    endless = probe.steps(itertools.count())  # so that no end of an epoch is among the steps

    def watched(steps: int, work: bytes) -> None:
        for _ in itertools.islice(endless, steps):
            with probe.compute():
                hashlib.sha256(work)
            with probe.comm():
                pass
            with probe.serial():
                pass

    def bare(steps: int, work: bytes) -> None:
        for _ in range(steps):
            hashlib.sha256(work)

    def best(steps: int, work: bytes, repeats: int) -> dict[str, float]:
        loops = {
            "probe": lambda: watched(steps, work),
            "bare": lambda: bare(steps, work),
            "bare again": lambda: bare(steps, work),
        }
        return least(loops, steps, repeats)

    found = best(SPANS, b"", REPEATS)
    cost = found["probe"] - found["bare"]
    print(f"a step with four spans: {cost / 1000:.1f} us, {100 * cost / STEP_NS:.3f} % of 10 ms")
    block = bytes(1_000_000)
    of_block = least({"": lambda: hashlib.sha256(block)}, 1, REPEATS)[""]
    found = best(1, bytes(int(len(block) * STEP_NS / of_block)), 8 * REPEATS)
    overhead, noise = (100 * (found[name] / found["bare"] - 1) for name in ("probe", "bare again"))
    print(
        f"a loop of {found['bare'] / 1e6:.1f} ms steps: {overhead:+.2f} % with the probe, "
        f"{noise:+.2f} % for the same loop again"
    )
    found = least({"": lambda: list(probe.steps(()))}, 1, REPEATS)
    print(f"an epoch: {found[''] / 1000:.0f} us")


def show_torch_hooks(folder: str) -> None:
    """A training step of a tiny model under DDP, before and after the hooks are installed."""
    torch = importlib.import_module("torch")
    distributed = importlib.import_module("torch.distributed")
    hooks = importlib.import_module("nodewise.measure.torch.hooks")
    torch.set_num_threads(1)
    distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/store", rank=0, world_size=1
    )

    def training() -> Callable[[], None]:
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        loader = torch.utils.data.DataLoader(torch.ones(STEPS, 4), batch_size=1)

        def steps() -> None:
            for batch in loader:
                model(batch).sum().backward()
                optimizer.step()
                optimizer.zero_grad()

        return steps

    plain = least({"": training()}, STEPS, REPEATS)[""]
    hooks.install()
    watched = least({"": training()}, STEPS, REPEATS)[""]
    distributed.destroy_process_group()
    cost = watched - plain
    print(f"torch hooks: {cost / 1000:.0f} us a step, {100 * cost / STEP_NS:.2f} % of 10 ms")


def main() -> None:
    """Print every figure."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["NODEWISE_RUN"] = folder  # read when the probe is imported
        show_spans()
        show_loop()
        if importlib.util.find_spec("torch"):
            show_torch_hooks(folder)
        else:
            print("torch hooks: torch is not installed")
        from nodewise import probe

        if probe._report is not None:
            atexit.unregister(probe._report.write)  # its folder is gone by then


if __name__ == "__main__":
    main()
