"""What the title of a column names: a scale, a time, a rate, a ratio or a fact of the workload."""

import math
import re
from collections.abc import Mapping
from functools import cache
from typing import Literal

from nodewise.study.spec import Regime

Column = Literal[
    "nodes", "per_node", "seconds", "pace", "std", "rounds", "round", "speedup", "efficiency",
    "ratio", "throughput", "device_rate", "utilisation", "work", "size", "model", "batch",
    "local_batch", "micro_batch", "parallelism", "memory", "steps", "epochs", "quality", "seed",
    "split", "precision", "machine", "settings", "date", "label", "energy", "power", "price",
    "price_date", "kind", "regime", "curve", "metric", "value", "device_hours", "load",
    "ttft", "tpot", "requests",
]  # fmt: skip

_DEVICE = r"(gpus?|devices?|nodes?|cores?|chips?|ranks?|workers?|cards?|gcds?|npus?|tpus?|sockets?)"
COUNTED = (
    r"(nodes?|gpus?|cores?|cpus?|vcpus?|ranks?|procs?|process(es|ors?)?|pes?|tasks?|workers?|"
    r"threads?|devices?|chips?|accelerators?|tpus?|npus?|replicas?|instances?|machines?|servers?|"
    r"executors?|hosts?|gcds?|dcus?|cards?|pods?|shards?|engines?|nprocs?|ntasks?|nnodes?|ngpus?|"
    r"ncores?|nranks?|nthreads?|np|world size|workers)"
)
_FLOPS = r"\b[kmgtpez]?flops?(/?s)?\b"
_RATE = (
    rf"(\w/ ?(s|secs?|seconds?|min|minute|hour|hr|day)\b|per (s|sec|second|minute|min|hour|day)\b|"
    rf"throughput|{_FLOPS}|\bfps\b|\bqps\b|\btps\b|\brps\b|\btok s\b|\biops\b|[mg]l?ups\b|"
    r"bandwidth|\bsypd\b|performance$|^perf$|^(training |simulation )?speed$)"
)
_PER_DEVICE = rf"((/|per) ?{_DEVICE}\b)"
_TIME_WORD = (
    r"(time|times|wall ?(clock)?|wallclock|walltime|run ?times?|elapsed|duration|seconds|secs?|"
    r"latency|loop time|timing|makespan|clock ?time|execution ?time)"
)
_STATISTIC = r"(min(imum)?|max(imum)?|mean|median|avg\.?|average|best|p50)"

# What a title is called by, tried in this order: the first that matches names the column.
_TITLES: tuple[tuple[Column, str], ...] = (
    ("curve", r"^(curve( id)?|series)$"),
    ("metric", r"^metric$"),
    ("value", r"^value$"),
    ("regime", r"^(regime|scaling type)$"),
    ("kind", r"^(kind|measured or predicted|measured\?|predicted\?)$"),
    ("ttft", r"\bttft\b|time to first token"),
    ("tpot", r"\b(tpot|itl)\b|time per output token|inter[- ]token"),
    ("requests", r"^(number of |num |total |# ?)?(requests|prompts)$"),
    ("load", r"\b(concurrency|clients|users|request rate|offered)\b"),
    ("label", r"^(ideal|linear|theoretical|perfect|expected|target)\b|\b(ideal|theoretical)$"),
    ("speedup", r"\bspeed[- ]?ups?\b|^s ?\(?[knp]?\)?$|^s [knp]$|加速|scaling factor"),
    ("efficiency", r"^(?!.*(energy|cache|memory|power|cost|sample|zero)).*"
     r"(\beff(iciency|icient|\.)?( |$)|scalability|(of|to|vs\.?) (ideal|linear)|效率)|"
     r"^e ?\(?[knp]?\)?$"),
    ("ratio", r"^(weak |strong )?scaling$|^relative( to .*)?$|^vs\.? "),
    ("std", r"(^|\b)(std|stdev|st\.? ?dev\.?.*|std\.? ?dev.*|sd|sigma|spread|stderr|\+/-)( .*)?$"),
    ("local_batch", r"\b(local|per[- ]?(gpu|node|worker|device|rank)).*\bbatch|"
     r"\bbatch.*(per|/) ?(gpu|node|worker|device|rank)|^lbs$|\blocal (workload|size|work|problem)|"
     r"\b(cells|atoms|dofs?|elements|particles|points|work|samples|size|vertices|unknowns)"
     r"( per |/)(gpu|node|core|rank|process|proc|device|worker)"),
    ("micro_batch", r"\b(micro|mic)[- ]?(batch|bs)|^mbs$|\bgrad(ient)?[- ]?acc"),
    ("batch", r"^((global|glob|total|effective)[ _-])?(batch([ _-]?size)?|bs)\b|^gbs$"),
    ("device_hours", r"\b(gpu|node|core|cpu|chip|device)[- ]?(hours?|hrs?|h)\b"),
    ("price_date", r"^(price date|priced on|as of)$"),
    ("utilisation", r"\b(mfu|hfu|utili[sz]ation|util|occupancy)\b"),
    ("energy", r"\benergy|joules?|\bkwh\b"),
    ("power", r"\bpower\b|\bwatts?\b"),
    ("price", r"\b(price|cost)s?\b|\$|\busd\b|\beur\b|rate per hour"),
    ("pace", r"^(it|its|iter|iters|iterations?|steps?)( ?/ ?| per )s(ec(ond)?)?$"),
    ("seconds", r"^(s|sec|secs|seconds|ms|us|min|h)( ?/ ?| per )(step|it|iter|iteration|epoch|"
     r"batch|token|image|sample|cycle|timestep|run|p|particle)s?\b"),
    ("seconds", rf"^({_STATISTIC} )?(\w+ ){{0,4}}{_TIME_WORD}( ?/ ?(s|sec|ms|us|min|h|step|it|iter|"
     r"iteration|epoch|batch|call|cycle|timestep))?( (s|sec|secs|seconds|ms|us|min|mins|h|avg|mean|"
     r"average|median|min|max|per .*|to .*|for .*|in .*|of .*|total|std)){0,2}$|时间|耗时|用时"),
    ("device_rate", rf"^(?=.*{_RATE})(?=.*{_PER_DEVICE})"),
    ("throughput", _RATE + r"|吞吐"),
    ("memory", r"\b(mem|memory|vram|rss|gib|ram)\b"),
    ("per_node", rf"{COUNTED}( ?per |/)(node|host|machine|server|gpu|rank)$|^ppn$|pernode$"),
    ("rounds", r"^(number of |no\. |n |# ?|num )?(runs|repeats|repetitions|rounds|reps|trials)$"),
    ("round", r"^(rep|round|repeat|run|trial)( (id|number|no\.?))?$"),
    ("date", r"^(date|day|when|measured on|timestamp)$"),
    ("precision", r"^(precision|dtype|data type|numeric type)$"),
    ("split", r"^((data )?split|quality split)$"),
    ("seed", r"^(random )?seed$"),
    ("machine", r"^(machine|host|hostname|hardware|system|cluster|platform|device|accelerator|"
     r"processor|instance|gpu|cpu|systemname|((gpu|cpu|node|instance|machine|accelerator|device)"
     r"[ _-](type|model|name)))$"),
    ("settings", r"^(settings|options|flags|commit|(\w+ )?versions?|software|framework|build|"
     r"container|compiler|release|driver|library|sharding( strategy)?|mp mode|backend)$"),
    ("label", r"^(config(uration)?s?|set-?ups?|experiment|case|name|notes?|comments?|label|id|"
     r"benchmark|test|method|variant|scenario|jobid|job id|directory|status|verified|remarks?|"
     r"implementation|reliability|training config\.?|run name|run id|#)$"),
    ("quality", r"^(quality|.*accuracy|acc\.?|(test|val|validation|final|eval|train|lm)?[ _]?loss|"
     r"auc|bleu|f1|perplexity|m?ap|.*top-?1.*)$"),
    ("epochs", r"^(number of |# ?|num )?epochs$"),
    ("steps", r"^(number of |# ?|num )?(time ?)?(steps|iterations|iters)$"),
    ("parallelism", r"^(dp|tp|pp|cp|ep|sp|fsdp|zero( stage)?|pp chunks|.*parallel(ism)?( size)?|"
     r"decomposition|layout|topology|mesh shape|npx|npy|npz|px|py|pz)$"),
    ("model", r"^((model|network|param(eter)?s?|num ?params|# ?params?)( size| count| \(b\))?|"
     r"(num(ber)?( of)? |# ?|total |active/?total )param(eter)?s|模型大小)$"),
    ("work", r"^(work|items|(number of |num |total |n |# ?)?(samples|tokens|images|cells|atoms|"
     r"particles|dofs?|elements|unknowns|neurons|vertices|trees|points|grid ?points|records|rows|"
     r"cells total)|(problem|data(set)?|global|total|input)( input)? ?(size|n)?|qubits|总量)$"),
    ("size", r"^(size|grid( size)?|resolution|mesh|domain( size)?|matrix( size)?|lattice|volume|"
     r"(seq(uence)?)[ _-]?len(gth)?( .*)?|context( length)?|dimensions?|l[xyz]|n[xyz]|years)$"),
    ("seconds", r"^t ?\(?[knp]?\)?$|^t (s|ms|[knp]|avg|mean|total|wall)\b.*$|^time\b.*"
     r"|^[a-z]{1,2}time$"),
    ("nodes", rf"^(k|p|n|((number of|no\.|n|num|#|total|count of|mpi|omp|openmp|compute|used|cpu|"
     rf"gpu|physical|sum|max|data parallel|tp|dp) ?)*{COUNTED}( ?(total|count|number|used|size))?"
     rf"|{COUNTED}( ?(/|and|,|x|\+) ?{COUNTED})?( number)?|总?卡数|节点数?|tp规模)$"),
)  # fmt: skip
_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "msec": 1e-3, "msecs": 1e-3,
          "millisecond": 1e-3, "milliseconds": 1e-3, "s": 1.0, "sec": 1.0, "secs": 1.0,
          "second": 1.0, "seconds": 1.0, "min": 60.0, "mins": 60.0, "minute": 60.0,
          "minutes": 60.0, "h": 3600.0, "hr": 3600.0, "hrs": 3600.0, "hour": 3600.0,
          "hours": 3600.0, "d": 86400.0, "day": 86400.0, "days": 86400.0}  # fmt: skip
_SAME_AMOUNT = 0.02
_UNIT_AT = re.compile(r"[\[(,]\s*([a-zµμ]+)[^\])]*[\])]?$|[_/ ](ns|us|ms|s|sec|min|mins|h)$")
_LONGEST = 300  # of a title


@cache
def _compiled() -> tuple[tuple[Column, re.Pattern[str]], ...]:
    """The patterns, compiled when the first title is looked up; most tables need none."""
    return tuple((column, re.compile(pattern)) for column, pattern in _TITLES)


def words_of(title: str) -> str:
    """A title in lower-case words, without brackets around its unit.

    >>> words_of("NUM_NODES"), words_of("GlobalBatchSize"), words_of("Total_Time [s]")
    ('num nodes', 'global batch size', 'total time s')
    """
    title = re.sub(r"([a-z])([A-Z][a-z])", r"\1 \2", title)
    title = re.sub(r"[\[\]()_:$]", " ", title).lower()
    title = title.replace("per-", "per ").replace("-per", " per").replace("#", "# ")
    return " ".join(title.split()).rstrip(" ,.")


def title_column(title: str) -> Column | None:
    """What a title names.

    >>> [title_column(title) for title in ("TPS/GPU", "Time (ms)", "# GPUs", "Speed-up vs serial")]
    ['device_rate', 'seconds', 'nodes', 'speedup']
    """
    title = title[:_LONGEST]
    bare = words_of(re.sub(r"[\[(](?![knpKNP][\])]).*?[\])]", " ", title))
    whole = words_of(title)
    in_words = bare or whole
    for column, pattern in _compiled():
        if column in ("throughput", "device_rate", "seconds", "pace"):
            if pattern.search(in_words) or (column != "seconds" and pattern.search(whole)):
                return column
        elif pattern.search(in_words):
            return column
    unit = re.search(r"[\[(]\s*([a-zµ]+)\s*[\])]\s*$", title.lower())
    return "seconds" if unit and unit[1] in _UNITS else None


def seconds_of_unit(title: str) -> float:
    """The seconds in a title's unit: `time (ms)`, `time_min`, `Time/ms`, `ms/step`."""
    lower = title.lower().strip()
    found = re.match(r"(ns|us|µs|ms|s|sec|min|h)\s*(/|per)\s*[a-z]", lower) or _UNIT_AT.search(
        lower
    )
    named = next((group for group in found.groups() if group in _UNITS), "s") if found else "s"
    return _UNITS[named]


def time_unit(word: str) -> float | None:
    """The seconds of a unit of time by its name; None of another word."""
    return _UNITS.get(word.lower())


def amount(text: str) -> float | None:
    """The size that a cell tells: a number, a product such as 2048²x128, or a tuple.

    >>> amount("2048²x128"), amount("(16384, 1024)"), amount("7.5B"), amount("1,048,576")
    (536870912.0, 16777216.0, 7500000000.0, 1048576.0)
    """
    powers = text.replace("²", "^2").replace("³", "^3")
    if re.search(r"\d\s*[x*]\s*\d|\^|\(\d+, ?\d", powers):
        parts = re.findall(r"(\d+(?:\.\d+)?)(?:\^(\d))?", powers)
        return math.prod(float(base) ** int(power or 1) for base, power in parts[:4])
    found = re.match(r"[~≈]?\s*(\d[\d,]*(?:\.\d+)?(?:[eE][+-]?\d+)?)\s*([kKmMgGbBtT]?)", powers)
    if found is None:
        return None
    factors = {"k": 1e3, "m": 1e6, "g": 1e9, "b": 1e9, "t": 1e12}
    value = float(found[1].replace(",", "")) * factors.get(found[2].lower(), 1.0)
    return value if value > 0 else None


def regime_of_amounts(amounts: Mapping[int, float | None]) -> Regime | None:
    """Strong where amounts are held, weak where they grow as K, or their square or cube does.

    >>> regime_of_amounts({1: 256, 8: 512, 64: 1024}), regime_of_amounts({1: 5.0, 2: 5.0})
    ('weak', 'strong')
    """
    values = {k: v for k, v in amounts.items() if v}
    if len(values) < 2 or len(values) < len(amounts):
        return None
    (first, base), *rest = values.items()
    if all(abs(v / base - 1) <= _SAME_AMOUNT for _, v in rest):
        return "strong"
    for power in (1, 2, 3):
        share = _SAME_AMOUNT * power
        if all(abs((v / base) ** power / (k / first) - 1) <= share for k, v in rest):
            return "weak"
    return None
