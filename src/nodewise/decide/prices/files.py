"""Prices and grid intensities from files: the shipped ones, your own, and those of catalogues.

Each format becomes records; what a format leaves out (above all the date) you must state.
"""

import csv
from collections.abc import Iterator
from datetime import date
from itertools import groupby
from pathlib import Path
from typing import Literal, TypeVar

import msgspec

from nodewise.base.errors import DataError, SpecError
from nodewise.base.units import HOURS_PER_YEAR
from nodewise.decide.energy import Grid
from nodewise.decide.payment.owned import Owned
from nodewise.decide.prices.records import Option, PriceRecord, Tariff, Tier
from nodewise.study.files import read_regular

Format = Literal["toml", "skypilot", "aws", "azure"]
Decoded = TypeVar("Decoded")


def shipped_prices() -> tuple[PriceRecord, ...]:
    """The prices that come along: a hand-picked sample with dates and sources."""
    return tuple(
        PriceRecord(
            value=float(row[column]),
            date=date.fromisoformat(row["date"]),
            source=row["source"],
            cloud=row["cloud"],
            instance=row["instance"],
            region=row["region"],
            option=option,
            accelerator=row["accelerator"],
            accelerator_count=float(row["accelerator_count"] or 0),
            vcpus=_number(row["vcpu"]),
            memory_gib=_number(row["memory_gib"]),
            note=row["note"],
        )
        for row in _shipped("prices.csv")
        for option, column in _SHIPPED_COLUMNS
        if row[column]
    )


_SHIPPED_COLUMNS: tuple[tuple[Option, str], ...] = (
    ("on-demand", "on_demand_usd_per_h"),
    ("spot", "spot_usd_per_h"),
)


def shipped_grids() -> tuple[Grid, ...]:
    """Grams of CO2e for a kWh by country, by region of one cloud, and for the world."""
    return tuple(
        Grid(
            scope=row["scope"],
            code=row["code"],
            name=row["name"],
            grams_per_kwh=float(row["g_co2e_per_kwh"]),
            year=int(row["year"]) if row["year"] else None,
            source=row["source"],
        )
        for row in _shipped("grids.csv")
    )


def shipped_tariffs() -> tuple[Tariff, ...]:
    """Egress prices to the internet by cloud."""
    return tuple(
        Tariff(
            cloud=cloud,
            tiers=tuple(
                Tier(up_to_gb=_number(row["up_to_gb"]), per_gb=float(row["usd_per_gb"]))
                for row in rows
            ),
            date=date.fromisoformat(rows[0]["date"]),
            source=rows[0]["source"],
        )
        for cloud, rows in (
            (cloud, list(group))
            for cloud, group in groupby(_shipped("egress.csv"), key=lambda row: row["cloud"])
        )
    )


def _shipped(name: str) -> Iterator[dict[str, str]]:
    from importlib.resources import files  # also imports tempfile

    text = files("nodewise.decide.prices").joinpath(name).read_text(encoding="utf-8")
    return csv.DictReader(text.splitlines())


def read_prices(path: Path, dated: date | None = None, cloud: str = "") -> tuple[PriceRecord, ...]:
    """The records of a file, by what it is: own TOML, SkyPilot-style CSV, AWS offer, Azure retail.

    `dated` is when the file was fetched, where the format does not say; `cloud` names whose prices
    a CSV holds, otherwise its file name or folder does.
    """
    try:
        content = read_regular(path)
    except OSError as error:
        raise SpecError(
            f"Cannot read {path}: {(error.strerror or 'it fails').lower()}.",
            "Name a file of prices.",
        ) from None
    found = _format_of(path, content)
    if found == "toml":
        return _own(path, content)
    if found == "aws":
        return _aws(path, content)
    if dated is None:
        raise DataError(
            f"{path.name} does not give the date of its prices.",
            "Add the day on which it was fetched, as YYYY-MM-DD.",
        )
    if found == "azure":
        return _azure(path, content, dated)
    return _skypilot(path, content, dated, cloud or _cloud_of(path))


def read_owned(path: Path) -> Owned:
    """An owned node from a TOML file: its fields are those of `ownership.Owned`."""
    fix = f"Write capital = 350000 and what else applies: {', '.join(Owned.__struct_fields__)}."
    try:
        return msgspec.toml.decode(read_regular(path), type=Owned, strict=True)
    except OSError as error:
        reason = (error.strerror or "it fails").lower()
        raise SpecError(f"Cannot read {path}: {reason}.", "Name a file of an owned node.") from None
    except SpecError:
        raise
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise SpecError(f"{path.name}: {error}.", fix) from None


def _format_of(path: Path, content: bytes) -> Format:
    if path.suffix == ".toml":
        return "toml"
    if path.suffix == ".csv":
        return "skypilot"
    if b'"Items"' in content:
        return "azure"
    if b'"priceDimensions"' in content:
        return "aws"
    raise DataError(
        f"{path.name} is not a known price file.",
        "Give own prices as .toml, a SkyPilot-style catalogue as .csv, an AWS offer file or an "
        "answer of Azure's retail prices as .json.",
    )


class _OwnFile(msgspec.Struct, forbid_unknown_fields=True):
    price: tuple[PriceRecord, ...]


def _own(path: Path, content: bytes) -> tuple[PriceRecord, ...]:
    fix = (
        'Write tables [[price]] with value = 2.10, date = 2026-08-22, source = "where it was read".'
    )
    try:
        return msgspec.toml.decode(content, type=_OwnFile).price
    except DataError:
        raise
    except UnicodeDecodeError:
        raise DataError(f"{path.name} is not text.", fix) from None
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise DataError(f"{path.name}: {error}.", fix) from None


def _skypilot(path: Path, content: bytes, dated: date, cloud: str) -> tuple[PriceRecord, ...]:
    """Rows of a SkyPilot-style catalogue; its columns come in another order for each cloud.

    Rows without an instance are accelerators that are priced apart: they are added to no node here.
    """
    try:
        rows = list(csv.DictReader(content.decode("utf-8", "replace").splitlines(), restval=""))
    except csv.Error as error:
        raise DataError(f"{path.name} is not CSV: {error}.", "Fetch the file again.") from None
    missing = {"InstanceType", "Region", "Price"} - set(rows[0] if rows else {})
    if missing:
        raise DataError(
            f"{path.name} has no column {', '.join(sorted(missing))}.",
            "Give a catalogue with InstanceType, Region, Price and SpotPrice.",
        )
    records = []
    columns: tuple[tuple[Option, str], ...] = (("on-demand", "Price"), ("spot", "SpotPrice"))
    for line, row in enumerate(rows, start=2):
        for option, column in columns:
            try:
                value = _number(row.get(column))
                count = _number(row.get("AcceleratorCount")) or 0.0
                vcpus, memory = _number(row.get("vCPUs")), _number(row.get("MemoryGiB"))
            except ValueError:
                raise DataError(
                    f"Row {line} of {path.name} has a price or a count that is not a number.",
                    "Correct the row or leave it out.",
                ) from None
            if row["InstanceType"] and value and value > 0:
                records.append(
                    PriceRecord(
                        value=value,
                        date=dated,
                        source=path.name,
                        cloud=cloud,
                        instance=row["InstanceType"],
                        region=row["Region"],
                        zone=row.get("AvailabilityZone") or "",
                        option=option,
                        accelerator=row.get("AcceleratorName") or "",
                        accelerator_count=count,
                        vcpus=vcpus,
                        memory_gib=memory,
                    )
                )
    return tuple(records)


def _cloud_of(path: Path) -> str:
    """`aws.csv`, or `catalogs/v8/aws/vms.csv`."""
    return (path.parent.name if path.stem in ("vms", "catalog") else path.stem).lower()


class _AwsRate(msgspec.Struct, rename="camel"):
    unit: str = ""
    price_per_unit: dict[str, str] = {}


class _AwsTerm(msgspec.Struct, rename="camel"):
    price_dimensions: dict[str, _AwsRate] = {}


class _AwsTerms(msgspec.Struct, rename="pascal"):
    on_demand: dict[str, dict[str, _AwsTerm]] = {}


class _AwsProduct(msgspec.Struct):
    attributes: dict[str, str] = {}


class _AwsOffer(msgspec.Struct, rename="camel"):
    products: dict[str, _AwsProduct]
    terms: _AwsTerms
    publication_date: str = ""


_AWS_PLAIN = {
    "operatingSystem": "Linux",
    "tenancy": "Shared",
    "capacitystatus": "Used",
    "preInstalledSw": "NA",
}


def _aws(path: Path, content: bytes) -> tuple[PriceRecord, ...]:
    """On-demand Linux nodes of an offer file; it names its own date of publication."""
    offer = _json(path, content, _AwsOffer)
    try:
        dated = date.fromisoformat(offer.publication_date[:10])
    except ValueError:
        raise DataError(
            f"{path.name} has no date of publication.", "Fetch the file again."
        ) from None
    nodes = {
        sku: product.attributes
        for sku, product in offer.products.items()
        if "instanceType" in product.attributes
        and all(product.attributes.get(name, value) == value for name, value in _AWS_PLAIN.items())
    }
    hourly = (
        (told, _amount(rate.price_per_unit.get("USD", "")))
        for sku, told in nodes.items()
        for term in offer.terms.on_demand.get(sku, {}).values()
        for rate in term.price_dimensions.values()
        if rate.unit == "Hrs"
    )
    return tuple(
        PriceRecord(
            value=value,
            date=dated,
            source=f"AWS offer file {path.name}",
            cloud="aws",
            instance=told["instanceType"],
            region=told.get("regionCode", ""),
            accelerator_count=_amount(told.get("gpu", "")) or 0.0,
            vcpus=_amount(told.get("vcpu", "")),
            memory_gib=_amount(told.get("memory", "")),
        )
        for told, value in hourly
        if value
    )


class _AzureItem(msgspec.Struct, rename="camel"):
    retail_price: float
    currency_code: str = "USD"
    tier_minimum_units: float = 0.0
    arm_region_name: str = ""
    arm_sku_name: str = ""
    product_name: str = ""
    sku_name: str = ""
    unit_of_measure: str = ""
    type: str = ""
    reservation_term: str = ""

    @property
    def option(self) -> Option | None:
        """How it is paid; nothing for other than plain Linux nodes by the hour or by term."""
        plain = self.arm_sku_name and self.unit_of_measure == "1 Hour" and self.retail_price > 0
        # only the name of the product tells Windows; later tiers are discounts
        if not plain or "Windows" in self.product_name or self.tier_minimum_units:
            return None
        if self.type == "Reservation":
            terms: dict[str, Option] = {"1 Year": "reserved-1y", "3 Years": "reserved-3y"}
            return terms.get(self.reservation_term)
        if self.type != "Consumption" or "Low Priority" in self.sku_name:
            return None
        return "spot" if self.sku_name.endswith("Spot") else "on-demand"


class _AzureAnswer(msgspec.Struct, rename="pascal"):
    items: tuple[_AzureItem, ...]
    next_page_link: str | None = None


_TERM_HOURS: dict[Option, float] = {
    "reserved-1y": HOURS_PER_YEAR,
    "reserved-3y": 3 * HOURS_PER_YEAR,
}


def _azure(path: Path, content: bytes, dated: date) -> tuple[PriceRecord, ...]:
    """Linux nodes of an answer of Azure's retail prices."""
    answer = _json(path, content, _AzureAnswer)
    return tuple(
        PriceRecord(
            value=item.retail_price / _TERM_HOURS.get(option, 1.0),  # a term is priced as a whole
            date=dated,
            source=f"Azure retail prices, {path.name}",
            currency=item.currency_code,
            cloud="azure",
            instance=item.arm_sku_name,
            region=item.arm_region_name,
            option=option,
            note="from one page of more" if answer.next_page_link else "",
        )
        for item in answer.items
        if (option := item.option) is not None
    )


def _json(path: Path, content: bytes, kind: type[Decoded]) -> Decoded:
    try:
        return msgspec.json.decode(content, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise DataError(f"{path.name}: {error}.", "Fetch the file again.") from None


def _number(text: str | None) -> float | None:
    return float(text) if text else None


def _amount(text: str) -> float | None:
    """`2,048 GiB` as AWS writes it; nothing for `NA`."""
    number = text.removesuffix(" GiB").replace(",", "")
    return float(number) if number.replace(".", "", 1).isdecimal() else None
