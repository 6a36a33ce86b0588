"""Fuzzing: each damaged input must give a result or an error with its fix.

.venv/bin/python benchmarks/fuzz.py [--count 10000] [--readers kineto,table] [--seed 0]
.venv/bin/python benchmarks/fuzz.py --atheris     # guided by coverage, where atheris is installed

Whole samples (fuzz_readers.py) are cut off, get bits flipped, lines doubled, values of other types,
huge numbers, nested garbage, bytes that are no text and pieces of each other. Each input has ten
seconds and, with all of the process, one gibibyte more than at the start. Of the inputs that are
read every eighth is also asked what a user would ask. What comes out beside a NodewiseError is a
fault, printed with its input and counted; the exit code says whether there was one.
"""

import argparse
import contextlib
import gzip
import io
import json
import os
import random
import re
import resource
import shlex
import signal
import sys
import tempfile
import time
import traceback
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from fuzz_readers import Reader

SECONDS = 10
_MORE_BYTES = 2**30
_MOST_BYTES = 2**20  # of one input
ASK_EVERY = 8
_SHOWN = 10
_BAD_VALUES = (
    b"null", b"true", b"-1", b"0", b"1e999", b"-1e999", b"NaN", b"nan", b"inf", b"-inf", b"9" * 400,
    b"9" * 5000, b"1e400", b"0.1e-400", b"5e-324", b"1e15", b'""', b'"x"', b"[]", b"{}",
    b"[" * 3000, b'{"a":' * 2000, b"[" * 3000 + b"]" * 3000, b'"\\ud800"', b'"\x00"', b"\xff\xfe",
    b"18446744073709551616", b"-9223372036854775809", b"1.7976931348623157e308", b'"0x0"',
    b"2026-08-22", b"9999-99-99", b"x" * 200_000, b'"' + b"x" * 200_000 + b'"', b"\xc3", b",",
    b"0x7fffffffffffffff", b"\r", b"\xe2\x80\xa8", b"\xef\xbb\xbf",
)  # fmt: skip
_ODD: tuple[Any, ...] = (
    None, True, False, 0, -1, 3, 2**31, 2**63, 2**64, -(2**63) - 1, 10**400, 0.5, 1e-300, 5e-324,
    1e15, 1e300, 1.7e308, -1e300, float("nan"), float("inf"), float("-inf"), "", "x", "\x00",
    "\ud800", "9" * 400, "nan", "1e400", "-1", "0", "2026-13-45", "\u202e", [], {}, [[]],
    {"": {}}, [None], [[[[[[[[0]]]]]]]], ["x"] * 50, "x" * 200_000,
)  # fmt: skip
_VALUE = re.compile(rb'-?\d+(?:\.\d+)?|"[^"\n]*"|null|true|\[\]|\{\}')


def corrupted(samples: list[bytes], dice: random.Random) -> bytes:
    """One sample, broken in one to four ways: as bytes, as lines, or in its own grammar."""
    text = dice.choice(samples)
    if text[:2] == b"\x1f\x8b" and dice.random() < 0.5:
        with contextlib.suppress(OSError, EOFError, zlib.error):
            text = gzip.decompress(text)
    for _ in range(dice.choice((1, 1, 1, 2, 3, 4))):
        way = dice.choice((_break, _break_line, _break_tree, _break_value))
        text = way(text, samples, dice)[:_MOST_BYTES]
    return text


def _break(text: bytes, samples: list[bytes], dice: random.Random) -> bytes:
    at = dice.randrange(len(text) + 1)
    way = dice.randrange(7)
    if way == 0:
        return text[:at]
    if way == 1 and at < len(text):
        flipped = text[at] ^ (1 << dice.randrange(8))
        return text[:at] + bytes([flipped]) + text[at + 1 :]
    if way == 2:
        return text[:at] + text[at + dice.randint(1, 60) :]
    if way == 3:
        return text[:at] + dice.choice(_BAD_VALUES) + text[at:]
    if way == 4:
        return text[:at] + dice.randbytes(dice.randint(1, 40)) + text[at:]
    if way == 5:
        other = dice.choice(samples) or b"\n"
        begin = dice.randrange(len(other))
        return text[:at] + other[begin : begin + dice.randint(1, 400)] + text[at:]
    return _with_value(text, dice.choice(_BAD_VALUES), dice)


def _break_value(text: bytes, samples: list[bytes], dice: random.Random) -> bytes:
    """A value replaced by one that is written as it should be."""
    odd = json.dumps(dice.choice(_ODD)).replace("NaN", "nan").replace("Infinity", "inf")
    return _with_value(text, dice.choice((odd, odd.strip('"'))).encode(), dice)


def _with_value(text: bytes, new: bytes, dice: random.Random) -> bytes:
    values = list(_VALUE.finditer(text))
    if not values:
        return text + new
    value = dice.choice(values)
    return text[: value.start()] + new + text[value.end() :]


def _break_line(text: bytes, samples: list[bytes], dice: random.Random) -> bytes:
    """A line doubled, lost, moved, very long, or with one of its cells changed."""
    lines = text.splitlines(keepends=True) or [b""]
    at, other = dice.randrange(len(lines)), dice.randrange(len(lines))
    way, many = dice.randrange(5), _MOST_BYTES // (len(text) + 1) // 4 + 1
    if way == 0:
        lines[at:at] = [lines[at]] * dice.choice((1, 2, many))
    elif way == 1:
        del lines[at]
    elif way == 2:
        lines[at], lines[other] = lines[other], lines[at]
    elif way == 3:
        lines[at] = lines[at].rstrip(b"\n") * dice.choice((3, many)) + b"\n"
    else:
        mark = dice.choice((b",", b"|", b"&", b" ", b"="))
        cells = lines[at].split(mark)
        cells[dice.randrange(len(cells))] = dice.choice(_BAD_VALUES)
        lines[at] = mark.join(cells)
    return b"".join(lines)


def _break_tree(text: bytes, samples: list[bytes], dice: random.Random) -> bytes:
    """A value of a JSON document, or of one of its lines, changed so that it is JSON still."""
    with contextlib.suppress(ValueError, RecursionError):
        return json.dumps(_changed(json.loads(text), dice)).encode()
    lines = text.split(b"\n")
    at = dice.randrange(len(lines))
    begin = lines[at].find(b"{")
    if begin >= 0:
        with contextlib.suppress(ValueError, RecursionError):
            tree = _changed(json.loads(lines[at][begin:]), dice)
            lines[at] = lines[at][:begin] + json.dumps(tree).encode()
            return b"\n".join(lines)
    return _break(text, samples, dice)


def _changed(tree: Any, dice: random.Random) -> Any:
    slots: list[tuple[Any, Any]] = []
    left = [tree]
    while left:
        one = left.pop()
        keys = one.keys() if isinstance(one, dict) else range(len(one) if _is_list(one) else 0)
        slots += [(one, key) for key in keys]
        left += [one[key] for key in keys]
    if not slots:
        return dice.choice(_ODD)
    (place, key), (giver, given) = dice.choice(slots), dice.choice(slots)
    way = dice.randrange(8)
    if way == 0:
        del place[key]
    elif way == 1:
        # a copy, for a tree that holds itself has no end
        place[key] = json.loads(json.dumps(giver[given]))
    elif way == 2 and isinstance(place, dict):
        place[dice.choice(("", "x", "0", key.upper()))] = place.pop(key)
    elif way == 3 and _is_list(place):
        place[key:key] = [place[key]] * dice.choice((1, 20))
    else:
        place[key] = dice.choice(_ODD)
    return tree


def _is_list(value: Any) -> bool:
    return isinstance(value, list)


class _TooLong(Exception):
    pass


@contextlib.contextmanager
def bounded() -> Iterator[None]:
    """A limit on the memory of the process, and an alarm that a slow input meets."""

    def too_long(*_: Any) -> None:
        raise _TooLong

    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    handler = signal.signal(signal.SIGALRM, too_long)
    resource.setrlimit(resource.RLIMIT_AS, (size + _MORE_BYTES, before[1]))
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, handler)
        resource.setrlimit(resource.RLIMIT_AS, before)


class Fault(NamedTuple):
    """An input that was neither read nor refused."""

    text: bytes
    report: str

    @property
    def kind(self) -> str:
        """The error and the place in the project where it came up."""
        last = self.report.strip().splitlines()[-1].partition(":")[0].rpartition(".")[2]
        places = re.findall(r'nodewise/(\S+\.py)", line (\d+)', self.report)
        return f"{last} at {':'.join(places[-1]) if places else '?'}"


class Trial:
    """A reader with the folder that its inputs are put into, and what came of them."""

    def __init__(self, reader: "Reader", folder: Path) -> None:
        """What is whole must be read, and what is asked of it answered."""
        from nodewise.base.errors import NodewiseError

        self._reader, self._path, self._refusal = reader, folder / reader.name, NodewiseError
        self.told: Counter[str] = Counter()
        self.faults: list[Fault] = []
        for name, content in reader.beside.items():
            (folder / name).write_bytes(content)
        for text in reader.samples:
            self._path.write_bytes(text)
            reader.read(self._path)
        with contextlib.suppress(NodewiseError):  # whole, it may still be too little to say
            for command in reader.commands:
                self._ask(command)

    def put(self, text: bytes) -> None:
        """Hand in one input."""
        self.told["inputs"] += 1
        self._path.write_bytes(text)
        signal.alarm(SECONDS)
        try:
            self._reader.read(self._path)
            self.told["read"] += 1
            commands = self._reader.commands
            if commands and self.told["read"] % ASK_EVERY == 0:
                self.told["asked"] += 1
                self._ask(commands[self.told["asked"] % len(commands)])
        except self._refusal as error:
            self.told["refused"] += 1
            self.told[type(error).__name__] += 1
            shown = self._refusal.__str__(error)  # as the command line shows it
            if len(shown.splitlines()) != 2:
                self.faults.append(Fault(text, f"not two lines: {shown}"))
        except Exception:  # noqa: BLE001 - that is what is looked for
            self.faults.append(Fault(text, traceback.format_exc()))
        finally:
            signal.alarm(0)

    def _ask(self, command: str) -> None:
        """What a user would ask, by the command line, in this process."""
        import click

        from nodewise.cli.main import nodewise

        words = command.format(file=self._path, folder=self._path.parent)
        quiet = io.StringIO()
        with (
            contextlib.redirect_stdout(quiet),
            contextlib.redirect_stderr(quiet),
            contextlib.suppress(click.ClickException, SystemExit),  # SystemExit: a gate is not met
        ):
            nodewise.main(shlex.split(words), standalone_mode=False)

    def line(self, name: str, seconds: float) -> str:
        """What came of all inputs."""
        errors = {kind: count for kind, count in self.told.items() if kind.endswith("Error")}
        kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(errors.items()))
        return (
            f"{name:<14} {self.told['inputs']} inputs: {self.told['read']} read, "
            f"{self.told['asked']} asked, "
            f"{self.told['refused']} refused ({kinds or 'none'}), {len(self.faults)} faults; "
            f"{seconds:.0f} CPU-s, {_most_megabytes():.0f} MB"
        )


def _most_megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def fuzz(reader: "Reader", count: int, seed: str = "0") -> Trial:
    """Hand in so many corrupted inputs; the same seed gives the same ones."""
    dice = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder, bounded():
        trial = Trial(reader, Path(folder))
        for _ in range(count):
            trial.put(corrupted(reader.samples, dice))
    return trial


def _show(trial: Trial, name: str, begin: float) -> None:
    print(trial.line(name, time.process_time() - begin), flush=True)
    seen: Counter[str] = Counter(one.kind for one in trial.faults)
    for kind, count in seen.most_common(_SHOWN):
        # the shortest input says most
        one = min((one for one in trial.faults if one.kind == kind), key=lambda one: len(one.text))
        print(f"--- {count} times {kind}\n{one.text[:1500]!r}\n{one.report[-2500:]}", flush=True)


def guided(reader: "Reader", name: str, count: int) -> None:
    """Hand in inputs that atheris chooses by the lines they reach; ends this process."""
    import atheris

    with tempfile.TemporaryDirectory() as folder, bounded():
        corpus, place = Path(folder) / "corpus", Path(folder) / "place"
        corpus.mkdir()
        place.mkdir()
        for at, text in enumerate(reader.samples):
            (corpus / str(at)).write_bytes(text)
        trial, begin = Trial(reader, place), time.process_time()
        left = count

        def one(text: bytes) -> None:
            nonlocal left
            trial.put(text)
            left -= 1
            if left == 0:
                _show(trial, name, begin)
                sys.stdout.flush()
                os._exit(bool(trial.faults))

        def changed(text: bytes, most: int, seed: int) -> bytes:
            dice = random.Random(seed)
            if dice.random() < 0.5:
                return bytes(atheris.Mutate(text, most))
            return corrupted([text], dice)[:most]

        most = max(map(len, reader.samples)) + 2**16
        options = [f"-max_len={most}", "-seed=7", "-verbosity=0", "-rss_limit_mb=0"]
        atheris.Setup([name, str(corpus), *options], one, custom_mutator=changed)
        atheris.Fuzz()


def _in_a_child(work: Callable[[], None]) -> bool:
    """Whether work that ends its process ended well."""
    child = os.fork()
    if child == 0:
        try:
            work()
        finally:
            traceback.print_exc()
            os._exit(2)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code not in (0, 1):
        print(f"--- the fuzzer itself ended with {code}", flush=True)
    return code == 0


def main() -> None:
    """A line a reader; faults in full."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--readers", default="", help="Names divided by commas; default: all.")
    parser.add_argument("--seed", default="0")
    parser.add_argument("--atheris", action="store_true", help="Guided by coverage.")
    options = parser.parse_args()
    if options.atheris:
        import atheris

        # never left again: what a command imports later counts too
        atheris.instrument_imports(include=["nodewise"]).__enter__()
    from fuzz_readers import readers

    known = readers()
    good = True
    for name in options.readers.split(",") if options.readers else known:
        if options.atheris:
            good &= _in_a_child(lambda name=name: guided(known[name], name, options.count))
            continue
        begin = time.process_time()
        trial = fuzz(known[name], options.count, f"{name} {options.seed}")
        _show(trial, name, begin)
        good &= not trial.faults
    sys.exit(not good)


if __name__ == "__main__":
    main()
