"""Price records, their checks, egress tiers, and the files they are read from."""

import json
from datetime import date, timedelta

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodewise.base.errors import DataError, NodewiseError, SpecError
from nodewise.decide.prices.files import read_prices, shipped_prices, shipped_tariffs
from nodewise.decide.prices.records import PriceRecord, Tariff, Tier, checks, find, find_tariff

DAY = date(2026, 8, 22)
PRICES = shipped_prices()
TARIFFS = shipped_tariffs()


def record(**changes) -> PriceRecord:
    return PriceRecord(**{"value": 2.1, "date": DAY, "source": "a list", **changes})


def verdicts(*used: PriceRecord, today: date = DAY) -> dict[str, str]:
    return {check.rule: check.verdict for check in checks(used, today, PRICES)}


def test_the_shipped_prices_work_offline():
    node = find(PRICES, "aws:p5.48xlarge")
    assert (node.value, node.region, node.date) == (55.04, "us-east-1", DAY)
    assert find(PRICES, "aws:p5.48xlarge@eu-north-1").value == 58.8928
    assert find(PRICES, "aws:p5.48xlarge", "spot").value == 20.7387
    assert find(PRICES, "m7i.4xlarge").cloud == "aws"
    price = node.price(fixed_per_hour=9.0, startup_seconds=120.0)
    assert (price.per_node_hour, price.fixed_per_hour, price.currency) == (55.04, 9.0, "$")
    assert price.source.startswith("aws:p5.48xlarge@us-east-1 on-demand, 2026-08-22, skypilot")


def test_all_shipped_prices_are_sane_on_their_day():
    for one in PRICES:
        failed = [check for check in checks([one], one.date, PRICES) if check.verdict == "fail"]
        assert not failed


def test_a_record_survives_the_result_file():
    one = find(PRICES, "gcp:a2-highgpu-8g", "spot")
    assert msgspec.json.decode(msgspec.json.encode(one), type=PriceRecord) == one


@pytest.mark.parametrize(
    ("wanted", "option", "said"),
    [("aws:p5.48xlarg", "on-demand", "aws:p5.48xlarge"),
     ("aws:p5.48xlarge@mars", "on-demand", "eu-north-1"),
     ("aws:hpc6a.48xlarge", "spot", "on-demand"), ("nothing", "on-demand", "--price")],
)  # fmt: skip
def test_what_is_not_known_is_said_with_what_is(wanted, option, said):
    with pytest.raises(SpecError) as error:
        find(PRICES, wanted, option)
    assert said in error.value.fix
    assert len(str(error.value).splitlines()) == 2


@pytest.mark.parametrize(
    ("days", "verdict"), [(-1, "fail"), (0, "pass"), (90, "pass"), (91, "fail")]
)
def test_a_price_ages(days, verdict):
    found = verdicts(record(), today=DAY + timedelta(days=days))
    assert found["price date"] == verdict


def test_spot_must_lie_below_on_demand():
    node = {"cloud": "x", "instance": "y", "region": "z"}
    rule = "spot price against on-demand"
    full = record(**node)
    assert verdicts(record(**node, option="spot", value=2.1), full)[rule] == "fail"
    assert verdicts(record(**node, option="spot", value=2.0), full)[rule] == "pass"
    assert verdicts(record(**node, option="spot"))[rule] == "unknown"


@pytest.mark.parametrize(
    ("value", "currency", "verdict"),
    [(0.08, "USD", "fail"), (13.99, "USD", "pass"), (1399, "USD", "fail"), (14, "EUR", "unknown")],
)
def test_the_price_of_an_accelerator_hour(value, currency, verdict):
    node = record(value=value, currency=currency, accelerator="A100", accelerator_count=8)
    assert verdicts(node)["price per accelerator-hour"] == verdict


def test_a_price_by_the_accelerator():
    node = record(value=2.0, unit="accelerator-h", accelerator="H100", accelerator_count=8)
    assert node.price().per_node_hour == 16


@pytest.mark.parametrize(
    "changes", [{"value": -1.0}, {"value": 0.0}, {"value": float("nan")}, {"source": " "},
                {"unit": "accelerator-h"}]
)  # fmt: skip
def test_what_is_no_price(changes):
    with pytest.raises(DataError):
        record(**changes)


@pytest.mark.parametrize(
    ("terabytes", "dollars"), [(0, 0), (9.9, 912), (20, 1792), (50, 4403), (150, 11571)]
)
def test_golden_egress(terabytes, dollars):
    tariff = find_tariff(TARIFFS, "aws")
    assert float(tariff.cost(1024 * terabytes)) == pytest.approx(dollars, abs=0.5)


@given(
    st.sampled_from([tariff.cloud for tariff in TARIFFS]),
    st.lists(st.floats(0, 1e6), min_size=2, max_size=30),
)
def test_more_egress_never_costs_less(cloud, amounts):
    costs = find_tariff(TARIFFS, cloud).cost(np.sort(amounts))
    assert (np.diff(costs) >= -1e-9).all()


@given(st.lists(st.floats(0.1, 1e4), min_size=1, max_size=5), st.floats(0, 1e5), st.floats(0, 1e5))
def test_egress_of_any_tiers_is_monotone_and_continuous(widths, amount, more):
    ends = np.cumsum(widths)
    tiers = [Tier(up_to_gb=float(end), per_gb=0.1 / (at + 1)) for at, end in enumerate(ends)]
    tariff = Tariff(
        cloud="x", tiers=(*tiers, Tier(up_to_gb=None, per_gb=0.01)), date=DAY, source=""
    )
    low, high = tariff.cost([amount, amount + more])
    assert -1e-9 <= high - low <= 0.1 * more + 1e-9


@pytest.mark.parametrize(
    "tiers",
    [
        (),
        (Tier(up_to_gb=1, per_gb=1),),
        (Tier(up_to_gb=2, per_gb=1), Tier(up_to_gb=1, per_gb=1), Tier(up_to_gb=None, per_gb=1)),
        (Tier(up_to_gb=None, per_gb=1), Tier(up_to_gb=None, per_gb=1)),
        (Tier(up_to_gb=None, per_gb=-1),),
    ],
)
def test_tiers_that_are_none(tiers):
    with pytest.raises(DataError):
        Tariff(cloud="x", tiers=tiers, date=DAY, source="")


def test_egress_needs_a_known_cloud_and_an_amount():
    with pytest.raises(SpecError, match="aws, azure, gcp, oci"):
        find_tariff(TARIFFS, "nimbus")
    with pytest.raises(SpecError):
        TARIFFS[0].cost(-1)


OWN = """
[[price]]
value = 3.2
date = 2026-09-01
source = "our contract"
includes = ["node", "support"]
currency = "EUR"
cloud = "ours"
instance = "big"
option = "reserved-1y"
"""


def test_own_prices(tmp_path):
    path = tmp_path / "prices.toml"
    path.write_text(OWN)
    [one] = read_prices(path)
    assert (one.value, one.date, one.includes) == (3.2, date(2026, 9, 1), ("node", "support"))
    assert one.price().currency == "EUR"
    for wrong in (
        OWN.replace("date = 2026-09-01\n", ""),
        OWN.replace("3.2", '"much"'),
        OWN.replace("source", "sauce"),
        OWN.replace("3.2", "-3.2"),
        "[[",
    ):
        path.write_text(wrong)
        with pytest.raises(DataError) as error:
            read_prices(path)
        assert len(str(error.value).splitlines()) == 2
    path.write_text(OWN.replace("date = 2026-09-01\n", ""))
    with pytest.raises(DataError, match="`date`"):
        read_prices(path)


def test_a_catalogue_is_read_by_the_names_of_its_columns(tmp_path):
    folder = tmp_path / "aws"
    folder.mkdir()
    path = folder / "vms.csv"
    path.write_text(
        "SpotPrice,InstanceType,vCPUs,MemoryGiB,AcceleratorName,AcceleratorCount,Region,Price,"
        "AvailabilityZone\n"
        "1.5,p3.2xlarge,8,61,V100,1,us-east-1,3.06,use1-az1\n"
        ",m5.large,2,8,,,us-east-1,0.096,use1-az1\n"
        "0.9,,,,A100,1,us-east-1,2.0,\n"
    )
    spot, plain = (find(read_prices(path, DAY), "aws:p3.2xlarge", o) for o in ("spot", "on-demand"))
    assert (spot.value, plain.value, spot.zone) == (1.5, 3.06, "use1-az1")
    assert (spot.accelerator, spot.accelerator_count) == ("V100", 1)
    assert spot.name == "aws:p3.2xlarge@use1-az1"
    assert find([spot, plain], "aws:p3.2xlarge@use1-az1").value == 3.06
    assert len(read_prices(path, DAY)) == 3
    with pytest.raises(DataError, match="the date of its prices"):
        read_prices(path)
    path.write_text("InstanceType,Region\na,b\n")
    with pytest.raises(DataError, match="no column Price"):
        read_prices(path, DAY)
    path.write_text("InstanceType,Region,Price\na,b,much\n")
    with pytest.raises(DataError, match="Row 2"):
        read_prices(path, DAY)


def test_an_offer_file_of_aws(tmp_path):
    linux = {
        "instanceType": "p5.48xlarge",
        "regionCode": "us-east-1",
        "operatingSystem": "Linux",
        "tenancy": "Shared",
        "capacitystatus": "Used",
        "preInstalledSw": "NA",
        "vcpu": "192",
        "memory": "2,048 GiB",
        "gpu": "8",
    }
    windows = {**linux, "operatingSystem": "Windows"}
    unused = {**linux, "capacitystatus": "UnusedCapacityReservation"}

    def term(usd):
        rate = {"unit": "Hrs", "pricePerUnit": {"USD": usd}}
        return {"code": {"priceDimensions": {"rate": rate}}}

    offer = {
        "publicationDate": "2026-08-20T10:00:00Z",
        "products": {
            sku: {"attributes": told}
            for sku, told in (("A", linux), ("B", windows), ("C", unused), ("D", {}))
        },
        "terms": {"OnDemand": {sku: term("55.0400000000") for sku in "ABCD"}},
    }
    path = tmp_path / "index.json"
    path.write_text(json.dumps(offer))
    [one] = read_prices(path)
    assert (one.value, one.date, one.region) == (55.04, date(2026, 8, 20), "us-east-1")
    assert (one.accelerator_count, one.vcpus, one.memory_gib) == (8, 192, 2048)
    path.write_text(json.dumps({**offer, "publicationDate": "soon"}))
    with pytest.raises(DataError, match="date of publication"):
        read_prices(path)


def test_retail_prices_of_azure(tmp_path):
    item = {
        "currencyCode": "USD",
        "retailPrice": 3.6,
        "tierMinimumUnits": 0.0,
        "armRegionName": "eastus",
        "armSkuName": "Standard_HB120rs_v3",
        "productName": "Virtual Machines HBrsv3 Series",
        "skuName": "HB120rs_v3",
        "unitOfMeasure": "1 Hour",
        "type": "Consumption",
    }
    items = [
        item,
        {**item, "skuName": "HB120rs_v3 Spot", "retailPrice": 0.396},
        {**item, "skuName": "HB120rs_v3 Low Priority", "retailPrice": 0.72},
        {**item, "productName": "Virtual Machines HBrsv3 Series Windows", "retailPrice": 5.0},
        {**item, "type": "Reservation", "reservationTerm": "1 Year", "retailPrice": 8760.0},
        {**item, "type": "DevTestConsumption"},
        {**item, "unitOfMeasure": "1 GB"},
    ]
    path = tmp_path / "azure.json"
    path.write_text(json.dumps({"Items": items, "NextPageLink": None}))
    found = {one.option: one.value for one in read_prices(path, DAY)}
    assert found == {"on-demand": 3.6, "spot": 0.396, "reserved-1y": 1.0}
    with pytest.raises(DataError, match="the date of its prices"):
        read_prices(path)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.json", "{}"),
        ("a.json", '{"Items"'),
        ("a.json", '{"Items": [1]}'),
        ("b.json", '{"products": [], "priceDimensions": 1}'),
        ("none.csv", None),
    ],
)
def test_files_that_are_no_prices(tmp_path, name, content):
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(NodewiseError) as error:
        read_prices(tmp_path / name, DAY)
    assert len(str(error.value).splitlines()) == 2
