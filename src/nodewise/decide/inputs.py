"""The question and the one table of its inputs.

Every input has one row here: its key, its place in a TOML file, its unit and bounds, its help, its
place in the question. The TOML reader, the command-line options, `--set`, ranges and the
sensitivity analysis are made from this table. A default is written once, in the struct that holds
the value.
"""

import math
import re
from collections.abc import Callable, Mapping
from datetime import date
from numbers import Real
from typing import Any, NamedTuple

import msgspec

from nodewise.base.errors import NodewiseError, SpecError
from nodewise.base.interval import Interval, parse_range
from nodewise.base.stats import Center
from nodewise.base.units import (
    SECONDS_PER_HOUR,
    format_duration,
    format_money,
    format_percent,
    parse_amount,
    parse_fraction,
    parse_seconds,
)
from nodewise.decide.candidates import Needs
from nodewise.decide.energy import Embodied, NodePower, Site
from nodewise.decide.payment.owned import Commitment
from nodewise.decide.payment.spot import Preemptions, parse_preemptions
from nodewise.decide.payment.ways import Payment
from nodewise.decide.prices.bill import Price
from nodewise.decide.prices.records import PriceRecord
from nodewise.study.question import Tables, split
from nodewise.study.scale_unit import NODE, parse_unit
from nodewise.study.spec import Quality, Regime, Spec

_LARGEST = 1e30  # a larger figure is a typing error, and products of such figures overflow
_LARGEST_COUNT = 1_000_000


class Question(msgspec.Struct, frozen=True, kw_only=True, rename={"payment": "alternatives"}):
    """The inputs of a question. A number that was given as a range is at its centre."""

    price: Price = Price()
    needs: Needs = Needs()
    payment: Payment = Payment()
    site: Site = Site()
    regime: Regime | None = None  # null: as stated in the study
    center: Center = "mean"
    records: tuple[PriceRecord, ...] = ()  # the price records that were used
    ranges: dict[str, Interval] = {}  # by input
    work_unit: str = "items"
    unit: str | None = None  # what K counts, in the singular; null: as stated in the study
    per_node: int | None = None  # how many of them share a node; null: as stated in the study
    asked_on: date | None = None  # date of the question; prices are checked for their age


Settings = dict[str, Any]  # values by key


class Kind(NamedTuple):
    """How an input is written, read, bounded and shown."""

    name: str
    read: Callable[[str], Any]
    form: Callable[[Any, str], str] = lambda value, _: str(value)
    least: float | None = None
    most: float | None = None
    above: float | None = None  # a bound that the value itself may not have
    choices: tuple[str, ...] = ()
    numeric: bool = True


class Input(NamedTuple):
    """One row of the table."""

    key: str  # of --set; the option is --key
    toml: str  # where a TOML file has it
    kind: Kind
    help: str
    path: tuple[str, ...] = ()  # where it lies in the question
    title: str = ""  # in a sentence about what changes the answer
    common: bool = False  # whether --help shows its option
    ranged: bool = False  # whether two ends may be given
    on_spot: bool = False  # whether it matters on spot only, unless nodes fail
    put: "Callable[[Question, Any, Settings], Question] | None" = None  # where a path is not enough

    @property
    def name(self) -> str:
        """The key as an identifier."""
        return self.key.replace("-", "_")

    def form(self, value: float, currency: str) -> str:
        """A value as text."""
        return self.kind.form(value, currency)


def _number(value: float, _: str) -> str:
    return f"{value:g}"


def _choice(*names: str) -> Kind:
    return Kind("|".join(names), str, choices=names, numeric=False)


def _rate(text: str) -> tuple[Preemptions, Interval]:
    """Preemptions with their unit; the rate a second as a range."""
    given = parse_range(text, lambda one: parse_preemptions(one).per_second)
    stated = parse_preemptions(text.rpartition("..")[2])
    return msgspec.structs.replace(stated, per_second=given.center), given


class GivenPrice(NamedTuple):
    """A price, and what it is for; empty if not stated."""

    amount: Interval
    per: str = ""


def _price(text: str) -> GivenPrice:
    """A price by the hour: `2.10`, `2.10/gpu`, `2.1..3.5/node`, `0.04/core-h`."""
    amount, slash, per = text.partition("/")
    given = parse_range(amount, parse_amount)
    _check_bounds(MONEY, given, amount)
    unit = re.sub(r"[- ]?(h|hours?)$", "", per.strip().lower()) or NODE
    return GivenPrice(given, parse_unit(unit) if slash else "")


def _whole(text: str) -> int:
    """A count."""
    if not text.strip().isdecimal() or not 1 <= int(text) <= _LARGEST_COUNT:
        raise ValueError(f"'{text}' is not a whole number from 1 to {_LARGEST_COUNT}")
    return int(text)


def _currency(text: str) -> str:
    """A sign or a code: `€`, `EUR`."""
    sign = text.strip()
    if not re.fullmatch(r"[^\W\d_]{2,8}|[^\w\s]", sign):
        raise ValueError(f"'{text}' is not a currency; write for example EUR or €")
    return "$" if sign.upper() == "USD" else sign


def _saving(text: str) -> Interval | str:
    """The time to save, or `none`."""
    return "none" if text.strip() == "none" else parse_range(text, parse_seconds)


def _watts(text: str) -> Interval:
    """A power, or the idle and the busy one; one alone is what a node draws."""
    return parse_range(text, lambda one: parse_amount(one.strip().rstrip("wW")))


_BUDGETS = {
    "": ("budget", 1.0),
    "j": ("energy_budget_joules", 1.0),
    "kj": ("energy_budget_joules", 1e3),
    "mj": ("energy_budget_joules", 1e6),
    "wh": ("energy_budget_joules", 3.6e3),
    "kwh": ("energy_budget_joules", 3.6e6),
    "g": ("carbon_budget_grams", 1.0),
    "kg": ("carbon_budget_grams", 1e3),
}


def _budgets(text: str) -> dict[str, float]:
    """Gates by name: money (5), energy (2kWh, 500kJ), carbon (300g); several with commas."""
    found = {}
    for part in text.lower().split(","):
        plain = part.strip()
        number = plain.rstrip("abcdefghijklmnopqrstuvwxyz ")
        unit = plain[len(number) :].strip()
        if unit not in _BUDGETS:
            raise ValueError(f"'{part.strip()}' is not a budget; write for example 5, 2kWh or 300g")
        gate, factor = _BUDGETS[unit]
        amount = parse_amount(number)
        if amount < 0:
            raise ValueError(f"{part.strip()} is below 0")
        found[gate] = factor * amount
    return found


def _by_scale(text: str) -> dict[int, float]:
    """Limits by K: `4=0.7,8=0.5`."""
    try:
        pairs = [part.split("=") for part in text.split(",")]
        return {int(nodes): float(limit) for nodes, limit in pairs}
    except ValueError:
        raise ValueError(
            f"'{text}' is not a list of limits; write for example 4=0.7,8=0.5"
        ) from None


PRICE = Kind("money[/unit]", _price, format_money, numeric=False)
COUNT = Kind("count", _whole, numeric=False)
UNIT = Kind("unit", parse_unit, numeric=False)
CURRENCY = Kind("currency", _currency, numeric=False)
MONEY = Kind("money", parse_amount, format_money, least=0, most=_LARGEST)
NUMBER = Kind("number", parse_amount, _number, least=0, most=_LARGEST)
POSITIVE = Kind("number", parse_amount, _number, above=0, most=_LARGEST)
SECONDS = Kind("time", parse_seconds, lambda value, _: format_duration(value), least=0,
               most=_LARGEST)  # fmt: skip
DEADLINE = Kind("time", parse_seconds, lambda value, _: format_duration(value), above=0,
                most=_LARGEST)  # fmt: skip
SHARE = Kind("share", parse_fraction, lambda value, _: format_percent(value), least=0, most=1)
CONFIDENCE = Kind("share", parse_fraction, lambda value, _: format_percent(value), above=0, most=1)
EFFICIENCY = Kind("share", parse_fraction, lambda value, _: f"{value:.3g}", least=0, most=1)
TEXT = Kind("text", str, numeric=False)
FILE = Kind("file", str, numeric=False)
RATE = Kind("rate", _rate, lambda value, _: f"{value * SECONDS_PER_HOUR:.3g}/h", numeric=False)
SAVING = Kind("time", _saving, lambda value, _: format_duration(value), least=0, most=_LARGEST)
WATTS = Kind("idle..busy", _watts, numeric=False)
BUDGET = Kind("amount", _budgets, numeric=False)
BY_SCALE = Kind("K=limit,...", _by_scale, numeric=False)


def _put_price(question: Question, value: GivenPrice | Interval, _: Settings) -> Question:
    """A price of your own replaces the one before, and with it its record and its source."""
    given = GivenPrice(value) if isinstance(value, Interval) else value
    question = replaced(msgspec.structs.replace(question, records=()), ("price", "source"), "")
    question = replaced(question, ("price", "per"), given.per)
    return with_range(question, "price", given.amount)


def _put_preempt(
    question: Question, value: tuple[Preemptions, Interval], settings: Settings
) -> Question:
    if "trace" in settings:
        raise SpecError(
            "--preempt and --trace both give the preemption rate.", "Drop one of the two."
        )
    stated, given = value
    before = question.payment.preemptions
    if before is not None:
        exponent = before.correlation_exponent
        stated = msgspec.structs.replace(stated, correlation_exponent=exponent)
    question = replaced(question, ("payment", "preemptions"), stated)
    return with_range(question, "preempt", given)


def _put_correlation(question: Question, value: float, _: Settings) -> Question:
    """How the rate of a gang grows with its nodes; one that is counted of the gang does not."""
    rate = question.payment.preemptions
    if rate is None or rate.scope == "gang":
        raise SpecError(
            "--correlation needs a preemption rate of a node.", "Add --preempt, for example 0.05/h."
        )
    changed = msgspec.structs.replace(rate, correlation_exponent=value)
    return replaced(question, ("payment", "preemptions"), changed)


def _put_checkpoint(question: Question, value: Interval | str, _: Settings) -> Question:
    question = replaced(question, ("payment", "saves"), value != "none")
    return question if isinstance(value, str) else with_range(question, "checkpoint", value)


def _put_runs(question: Question, value: float, settings: Settings) -> Question:
    if "utilisation" in settings:
        raise SpecError(
            "--utilisation and --runs-per-month both give the use of the nodes.",
            "Drop one of the two.",
        )
    return replaced(question, ("payment", "runs_per_month"), value)


def _put_commit(question: Question, value: float, _: Settings) -> Question:
    return replaced(question, ("payment", "commitment"), Commitment(discount=value))


def _put_watts(question: Question, value: Interval, _: Settings) -> Question:
    power = NodePower(idle_watts=value.low, busy_watts=value.high)
    return replaced(question, ("site", "power"), power)


def _put_idle(question: Question, value: float, settings: Settings) -> Question:
    power = question.site.power
    if "busy-watts" in settings:
        return question  # both are set with the busy one
    if power is None:
        raise SpecError("energy.idle_watts needs energy.busy_watts.", "Write both.")
    return _put_watts(question, Interval(value, power.busy_watts), settings)


def _put_busy(question: Question, value: float, settings: Settings) -> Question:
    power = question.site.power
    is_range = power is not None and power.idle_watts < power.busy_watts
    before = power.idle_watts if power is not None and is_range else value
    idle = settings.get("idle-watts", min(before, value))
    return _put_watts(question, Interval(idle, value), settings)


def _put_embodied(question: Question, value: float, _: Settings) -> Question:
    made = Embodied(kilograms=value) if value else None
    return replaced(question, ("site", "embodied"), made)


def _put_budget(question: Question, value: dict[str, float], _: Settings) -> Question:
    for gate, amount in value.items():
        question = replaced(question, ("needs", gate), amount)
    return question


_PRICE, _PAY, _SITE, _NEEDS = "price", "payment", "site", "needs"
_SAVES = (_PAY, "checkpointing")
_ROWS = (
    Input("instance", "price.instance", TEXT,
          "Price of an instance: aws:p5.48xlarge[@REGION].", common=True),
    Input("prices", "price.list", TEXT,
          "Your own price list, FILE or FILE@DAY: TOML, SkyPilot CSV, AWS or Azure JSON."),
    Input("price", "price.per_node_hour", PRICE,
          "Per node-hour, or 2.10/gpu, 0.04/core, 2.1..3.5.",
          (_PRICE, "per_node_hour"), "price of a node", common=True, ranged=True, put=_put_price),
    Input("currency", "price.currency", CURRENCY, "Currency of all prices: EUR, €.",
          (_PRICE, "currency")),
    Input("price-source", "price.source", TEXT, "Where and when the price was read.",
          (_PRICE, "source")),
    Input("fixed", "price.fixed_per_hour", MONEY, "Overhead in dollars per wall-clock hour.",
          (_PRICE, "fixed_per_hour"), "overhead by the hour", common=True, ranged=True),
    Input("startup", "price.startup_seconds", SECONDS,
          "Launch and tear-down, billed on every node.",
          (_PRICE, "startup_seconds"), "start-up", common=True, ranged=True),
    Input("storage", "price.storage_per_hour", MONEY, "Disks of the job, in dollars per hour.",
          (_PRICE, "storage_per_hour"), "storage by the hour", ranged=True),
    Input("egress", "price.egress_gb", TEXT,
          "Data that a run sends out of the cloud, GB or GB@CLOUD: 500@aws."),
    Input("cloud", "price.cloud", TEXT, "The cloud whose egress price counts."),
    Input("billing-unit", "price.billing_unit_seconds", SECONDS,
          "Billed time is rounded up to this.", (_PRICE, "billing_unit_seconds")),
    Input("billing-minimum", "price.billing_minimum_seconds", SECONDS, "Shortest time billed.",
          (_PRICE, "billing_minimum_seconds")),
    Input("spot", "price.spot", SHARE, "Spot price as a fraction of the on-demand price.",
          (_PAY, "spot_fraction"), "spot price, of that on demand", ranged=True, on_spot=True),
    Input("preempt", "price.preempt", RATE,
          "Spot preemptions: 0.05/h, 0.4/gang-h, 5%/month.",
          (_PAY, "preemptions", "per_second"), "preemptions", common=True, ranged=True,
          on_spot=True, put=_put_preempt),
    Input("mtbf", "price.mtbf_seconds", DEADLINE,
          "Mean time between failures of one node, however it is paid for: 30d, 5000h.",
          (_PAY, "mtbf_seconds"), "time between failures of a node", ranged=True),
    Input("checkpoint", "price.checkpoint_seconds", SAVING,
          "Time to save a checkpoint; none: a stopped run starts again.",
          (*_SAVES, "save_seconds"), "time to save", ranged=True, on_spot=True,
          put=_put_checkpoint),
    Input("downtime", "price.downtime_seconds", SECONDS, "Time until lost nodes are back.",
          (*_SAVES, "downtime_seconds"), "time to get nodes back", ranged=True, on_spot=True),
    Input("restart", "price.restart_seconds", SECONDS, "Time to load a checkpoint.",
          (*_SAVES, "restart_seconds"), "time to reload", ranged=True, on_spot=True),
    Input("correlation", "price.correlation", SHARE,
          "K nodes are stopped K^this times as often as one; 0: all are lost at once.",
          put=_put_correlation),
    Input("while-down", "price.while_down", _choice("all", "survivors", "none"),
          "Spot nodes billed while replacements start.", (_PAY, "while_down")),
    Input("trace", "price.trace", FILE, "Replay when spot nodes were available: CSV or JSON."),
    Input("own", "price.own", TEXT,
          "Owned nodes: a fraction of the price, or a TOML file of what one costs."),
    Input("owned-above", "price.owned_above", SHARE,
          "Utilisation above which the owned fraction holds.", (_PAY, "owned_above")),
    Input("utilisation", "price.utilisation", SHARE, "Share of hours that owned nodes work.",
          (_PAY, "utilisation")),
    Input("runs-per-month", "price.runs_per_month", POSITIVE,
          "Runs in a month: the use of owned or committed nodes, instead of --utilisation.",
          (_PAY, "runs_per_month"), put=_put_runs),
    Input("commit", "price.commit", SHARE, "Discount on hours that are paid whether used or not.",
          put=_put_commit),
    Input("watts", "energy.watts", WATTS, "Power of a node, idle..busy, to model joules.",
          put=_put_watts),
    Input("idle-watts", "energy.idle_watts", NUMBER, "Power of an idle node.", put=_put_idle),
    Input("busy-watts", "energy.busy_watts", POSITIVE, "Power of a busy node.", put=_put_busy),
    Input("shared-watts", "energy.shared_watts", NUMBER,
          "Power of shared equipment, on top of the nodes.", (_SITE, "shared_watts")),
    Input("pue", "energy.pue", Kind("number", parse_amount, _number, least=1, most=_LARGEST),
          "Power of the site per watt of nodes.", (_SITE, "pue")),
    Input("grid", "energy.grid", TEXT, "Country of the power, for CO2e: FRA."),
    Input("embodied", "energy.embodied_kilograms", NUMBER,
          "Carbon to make a node, in kg, over 4 years.", put=_put_embodied),
    Input("deadline", "gates.deadline_seconds", DEADLINE,
          "Longest time of a run, start-up included.", (_NEEDS, "deadline_seconds"), common=True),
    Input("confidence", "gates.deadline_confidence", CONFIDENCE,
          "Share of runs that must keep the deadline.", (_NEEDS, "deadline_confidence")),
    Input("budget", "gates.budget", BUDGET, "Largest cost of a run: 5, 2kWh or 300g.",
          common=True, put=_put_budget),
    Input("energy-budget", "gates.energy_budget_joules", POSITIVE, "Largest joules of a run.",
          (_NEEDS, "energy_budget_joules")),
    Input("carbon-budget", "gates.carbon_budget_grams", POSITIVE, "Largest grams of CO2e of a run.",
          (_NEEDS, "carbon_budget_grams")),
    Input("least-speedup", "gates.least_speedup", BY_SCALE, "Lowest speedup at named K.",
          (_NEEDS, "least_speedup")),
    Input("least-efficiency", "gates.least_efficiency", BY_SCALE, "Lowest efficiency at named K.",
          (_NEEDS, "least_efficiency")),
    Input("most-seconds", "gates.most_seconds", BY_SCALE, "Longest time at named K.",
          (_NEEDS, "most_seconds")),
    Input("least", "gates.least", COUNT,
          "Least K that can run; predict and next start here.",
          (_NEEDS, "least_scale")),
    Input("value-per-hour", "price.value_per_hour", MONEY, "Value of an hour of waiting.",
          (_NEEDS, "value_per_hour"), "value of an hour", common=True, ranged=True),
    Input("quality-tolerance", "quality.tolerance", NUMBER, "Largest drift of quality.",
          (_NEEDS, "quality_tolerance"), common=True),
    Input("quality-better", "quality.better", _choice("same", "higher", "lower"),
          "Direction of change that is acceptable.", (_NEEDS, "quality_better")),
    Input("target-loss", "quality.target_loss", NUMBER,
          "Loss of a training to give time and cost for.", (_NEEDS, "target_loss")),
    Input("peak-tflops", "peak_tflops", POSITIVE, "Peak TFLOP/s of one of K, for MFU.",
          (_NEEDS, "peak_tflops")),
    Input("threshold", "threshold", EFFICIENCY, "Lowest cost efficiency worth its nodes.",
          (_NEEDS, "threshold"), common=True),
    Input("center", "center", _choice("mean", "median"),
          "Centre of repeated runs; median for noisy data.", ("center",)),
    Input("regime", "regime", _choice("strong", "weak"),
          "strong: fixed job; weak: fixed work per node.", ("regime",), common=True),
    Input("work-unit", "work_unit", TEXT, "What the work of a run is counted in.",
          ("work_unit",)),
    Input("unit", "unit", UNIT, "What K counts: nodes, gpus, ranks, cores.", ("unit",),
          common=True),
    Input("per-node", "per_node", COUNT, "How many of K share a node.",
          ("per_node",), common=True),
)  # fmt: skip
_ASSUMABLE = ("spot", "own", "checkpoint", "downtime", "restart")  # shown as assumed if not set
_MEASURED = frozenset(Spec.__struct_fields__)
INPUTS: dict[str, Input] = {row.key: row for row in _ROWS}
RANGED: dict[str, Input] = {row.key: row for row in _ROWS if row.ranged}
_BY_TOML: dict[str, Input] = {row.toml: row for row in _ROWS}


def input_named(name: str) -> Input:
    """The input of a key, or of its place in a TOML file."""
    row = INPUTS.get(name) or INPUTS.get(name.replace("_", "-")) or _BY_TOML.get(name)
    if row is None:
        from difflib import get_close_matches

        near = get_close_matches(name, INPUTS, 1)
        fix = f"Is it {near[0]}? " if near else ""
        raise SpecError(f"'{name}' is not an input.", f"{fix}List them: nodewise help inputs")
    return row


def read_value(row: Input, given: object) -> Any:
    """A value as the question holds it, from text, a number or a table; ValueError if it is bad."""
    kind = row.kind
    if isinstance(given, dict) and kind is BY_SCALE:
        given = ",".join(f"{nodes}={limit}" for nodes, limit in given.items())
    if hasattr(given, "__fspath__"):
        given = str(given)
    if isinstance(given, bool) or not isinstance(given, str | Real):
        raise ValueError(f"expected {kind.name}, got {type(given).__name__}")
    text = given if isinstance(given, str) else f"{float(given):.17g}"
    if kind.choices and text not in kind.choices:
        raise ValueError(f"'{text}' is not one of {', '.join(kind.choices)}")
    is_range = row.ranged and kind.numeric and kind is not SAVING
    value = parse_range(text, kind.read) if is_range else kind.read(text)
    _check_bounds(kind, value, text)
    return value


def _check_bounds(kind: Kind, value: Any, text: str) -> None:
    if not kind.numeric or isinstance(value, str):
        return
    for end in (value.low, value.high) if isinstance(value, Interval) else (value,):
        if kind.least is not None and end < kind.least:
            raise ValueError(f"{text} is below {kind.least:g}")
        if kind.above is not None and end <= kind.above:
            raise ValueError(f"{text} is not above {kind.above:g}")
        if kind.most is not None and end > kind.most:
            raise ValueError(f"{text} is above {kind.most:g}")


def read_tables(tables: Tables) -> Settings:
    """The settings of a question as a TOML file has it; a bad one is named by its path."""
    found: Settings = {}
    for name, table in tables.items():
        if name == "scenarios":
            continue  # version 0.1 had them
        fields = {f"{name}.{key}": value for key, value in table.items()} if isinstance(
            table, dict) else {name: table}  # fmt: skip
        for path, given in fields.items():
            if path == "price.ranges" and isinstance(given, dict):
                for key, ends in given.items():
                    found[key] = _read_ends(key, ends, tables)
            elif path not in _BY_TOML and path not in INPUTS:
                raise SpecError(f"{path}: unknown field.", "List the inputs: nodewise help inputs")
            elif given != "":  # an empty text is not set
                row = _BY_TOML.get(path) or INPUTS[path]
                found.setdefault(row.key, _read_or_refuse(row, given, path))
    return found


def read_question_tables(raw: Tables) -> Settings:
    """The settings of a question file: tables as in a spec, or keys as in --set.

    What a spec measures is skipped, so that a spec can be read as a question.
    """
    measured, asked = split(raw)
    named = {}
    for key, value in measured.items():
        is_table = isinstance(value, dict)
        if key == "quality" and not (is_table and set(value) <= set(Quality.__struct_fields__)):
            raise SpecError("quality: unknown field.", "Its inputs are tolerance and better.")
        is_input = key in INPUTS and isinstance(value, str | int | float)
        if key in _MEASURED and not is_input:
            continue
        row = input_named(key)
        named[row.key] = _read_or_refuse(row, value, key)
    return read_tables(asked) | named


def read_inputs(inputs: Mapping[str, Any]) -> Settings:
    """The settings in keywords of Python: `price=3.20, deadline="15min"`."""
    rows = {name: input_named(name) for name in inputs}
    return {row.key: _read_or_refuse(row, inputs[name], name) for name, row in rows.items()}


def _read_or_refuse(row: Input, given: object, path: str) -> Any:
    try:
        return read_value(row, given)
    except (ValueError, OverflowError) as error:
        raise SpecError(f"{path}: {error}.", "See its unit: nodewise help inputs") from None
    except NodewiseError as error:
        raise SpecError(f"{path}: {error.what}", error.fix) from None


def _read_ends(key: str, ends: object, tables: Tables) -> Any:
    """A range from [price.ranges]: two numbers."""
    row = INPUTS.get(key)
    if row is None or not (
        row.ranged
        and isinstance(ends, list | tuple)
        and [type(end) in (int, float) for end in ends] == [True, True]
    ):
        raise SpecError(f"price.ranges.{key}: not a range.", "Write two numbers: [low, high].")
    low, high = map(float, ends)
    if not 0 <= low <= high < math.inf:
        raise SpecError(
            f"{key}: {low:g}..{high:g} is not a range.",
            "Write two numbers of 0 or more, the smaller one first.",
        )
    given = Interval(low, high)
    if row.kind is PRICE:
        centre = tables["price"].get("per_node_hour")
        return GivenPrice(given, _price(centre).per if isinstance(centre, str) else "")
    if row.kind is not RATE:
        return given
    stated = tables["price"].get("preempt")
    rate = parse_preemptions(stated) if isinstance(stated, str) else Preemptions(per_second=0.0)
    return msgspec.structs.replace(rate, per_second=given.center), given


def ask(question: Question, settings: Settings) -> Question:
    """The question with other settings; those that name a list or a file are looked up before."""
    for key, row in INPUTS.items():
        if key not in settings:
            continue
        value = settings[key]
        if row.put is not None:
            question = row.put(question, value, settings)
        elif isinstance(value, Interval):
            question = with_range(question, key, value)
        elif row.path:
            question = replaced(question, row.path, value)
    stated = {*question.payment.stated, *(key for key in settings if key in _ASSUMABLE)}
    return replaced(question, ("payment", "stated"), tuple(sorted(stated)))


def is_spot_only(question: Question, name: str) -> bool:
    """Whether an input matters on spot only: where nodes fail, saving matters everywhere."""
    row = INPUTS[name]
    return row.on_spot and not (question.payment.mtbf_seconds and row.path[:2] == _SAVES)


def default_of(row: Input) -> Any:
    """The value of an input that is not set; None if the question has no field for it."""
    return _at(Question(), row.path) if row.path else None


def default_text(row: Input) -> str:
    """The default of an input as text; empty if there is none to state."""
    default = default_of(row)
    if default is None or default in (0, "", {}):
        return ""
    return default if isinstance(default, str) else row.form(default, "$")


def value_of(question: Question, name: str) -> float | None:
    """The value of a numeric input; None if it is not stated."""
    value = _at(question, INPUTS[name].path)
    return None if value is None else float(value)


def _at(question: Question, path: tuple[str, ...]) -> Any:
    """The value at a path of the question; None if a step of it is not set."""
    value: Any = question
    for step in path:
        value = None if value is None else getattr(value, step)
    return value


def with_value(question: Question, name: str, value: float) -> Question:
    """The question with one number at another value."""
    return replaced(question, INPUTS[name].path, value)


def with_range(question: Question, name: str, given: Interval) -> Question:
    """The question with a number at the centre of its range, which is kept where it is one."""
    moved = with_value(question, name, given.center)
    ranges = {key: value for key, value in question.ranges.items() if key != name}
    if not given.is_known:
        ranges[name] = given
    return msgspec.structs.replace(moved, ranges=ranges)


def replaced(question: Question, path: tuple[str, ...], value: Any) -> Question:
    """The question with another value at a path."""
    made: Question = _replaced(question, path, value)
    return made


def _replaced(whole: Any, path: tuple[str, ...], value: Any) -> Any:
    step, *rest = path
    inner = getattr(whole, step)
    if rest and step == "preemptions" and inner is None:
        inner = Preemptions(per_second=0.0)
    new = _replaced(inner, tuple(rest), value) if rest else value
    return msgspec.structs.replace(whole, **{step: new})


def schema() -> dict[str, dict[str, Any]]:
    """The JSON schema of every input, by its table in a TOML file and its field there."""
    made: dict[str, dict[str, Any]] = {}
    for row in INPUTS.values():
        table, _, field = row.toml.rpartition(".")
        made.setdefault(table, {})[field] = _schema_of(row)
    return made


def _schema_of(row: Input) -> dict[str, Any]:
    kind = row.kind
    if kind.choices:
        return {"enum": list(kind.choices), "description": row.help}
    types = ["number", "string"] if kind.numeric else ["string", "number", "object"]
    stated = {
        "minimum": kind.least,
        "maximum": kind.most,
        "exclusiveMinimum": kind.above,
        "default": default_of(row),
    }
    known = {name: value for name, value in stated.items() if isinstance(value, int | float | str)}
    return {"type": types, "description": row.help, **known}
