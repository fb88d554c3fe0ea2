"""Prices and bills."""

from __future__ import annotations

import pytest

from stoker.cost.bill import Bill, find_machines, show_usd, spot_saving
from stoker.cost.offer_file import OfferFileInvalid, read_offer_file
from stoker.cost.price import (
    BUILT_IN,
    Price,
    PriceTableInvalid,
    find_price,
    read_prices,
    write_prices,
)

# The form of AWS's file: lines about itself, then a table. Figures of the test's own.
OFFER = """"FormatVersion","v1.0"
"Disclaimer","This pricing list is for informational purposes only."
"Publication Date","2026-10-01T00:03:13Z"
"Version","20261001000313"
"OfferCode","AmazonSageMaker"
"SKU","TermType","Unit","PricePerUnit","Currency","Region Code","usageType","Instance Type"
"A","OnDemand","Hrs","1.5000000000","USD","eu-north-1","EUN1-Train:ml.g5.xlarge",""
"B","OnDemand","Hrs","0.5","USD","eu-north-1","EUN1-TrSpt:ml.g5.xlarge",""
"C","OnDemand","Hrs","9.9","USD","eu-north-1","EUN1-Host:ml.g5.xlarge","ml.g5.xlarge"
"D","Reserved","Hrs","0.9","USD","eu-north-1","EUN1-Train:ml.g5.2xlarge",""
"E","OnDemand","GB-Mo","0.14","USD","eu-north-1","EUN1-Train:VolumeUsage.gp2",""
"F","OnDemand","Hrs","","USD","eu-north-1","EUN1-Train:ml.g5.4xlarge",""
"G","OnDemand","Hrs","-1","USD","eu-north-1","EUN1-Train:ml.g5.8xlarge",""
"H","OnDemand","Hrs","nan","USD","eu-north-1","EUN1-Train:ml.g5.12xlarge",""
"""


def test_only_training_on_demand_is_read_from_the_offer_file():
    (price,) = read_offer_file(OFFER.splitlines(), name="index.csv")
    assert (price.region, price.instance_type) == ("eu-north-1", "ml.g5.xlarge")
    assert (price.usd_per_hour, price.published) == (1.5, "2026-10-01")
    assert "20261001000313" in price.source


HEAD = "region,instance_type,usd_per_hour,published,source\n"


@pytest.mark.parametrize(
    "content",
    [
        b"\xff\xfe",
        b"a,b\n1,2\n",
        f"{HEAD}us-east-1\n".encode(),
        f"{HEAD}us-east-1,ml.m5.large,much,2026,x\n".encode(),
        f"{HEAD}us-east-1,ml.m5.large,inf,2026,x\n".encode(),
        f"{HEAD}us-east-1,ml.m5.large,1,2026,{'x' * 200_000}\n".encode(),
    ],
    ids=["bytes", "columns", "short", "text", "infinite", "long"],
)
def test_a_damaged_table_is_named_with_its_fix(tmp_path, content):
    table = tmp_path / "prices.csv"
    table.write_bytes(content)
    with pytest.raises(PriceTableInvalid, match=r"prices.csv is not a table of prices"):
        read_prices([table])


def test_a_table_cannot_write_to_the_terminal(tmp_path):
    table = tmp_path / "prices.csv"
    table.write_text(f"{HEAD}r,t,1,2026,\x1b[31mred\n")
    assert read_prices([table])[0].source == "[31mred"


@pytest.mark.parametrize("text", ["", "{}", "a,b\nc,d\n", "\0\0"])
def test_another_file_is_refused_with_the_address_of_the_right_one(text):
    with pytest.raises(OfferFileInvalid, match=r"AmazonSageMaker/current/REGION/index.csv"):
        list(read_offer_file(text.splitlines(), name="x"))


def test_the_built_in_table_has_a_date_and_a_source_for_each_figure():
    prices = read_prices([BUILT_IN])
    assert len(prices) == BUILT_IN.read_text().count("\n") - 1  # no type twice
    assert all(price.published and price.source and price.usd_per_hour > 0 for price in prices)


def test_a_price_that_no_table_has_gives_no_figure():
    assert find_price("ml.p99.xlarge", "us-east-1", tables=[BUILT_IN]) is None
    assert find_price("ml.m5.xlarge", "us-gov-west-1", tables=[BUILT_IN]) is None
    machines = find_machines(
        {"ml.m5.xlarge": 1, "ml.p99.xlarge": 1}, "us-east-1", tables=[BUILT_IN]
    )
    assert machines.missing == ["ml.p99.xlarge"]
    assert machines.cost_of(3600) is None


def test_the_users_table_wins_and_keeps_what_an_update_does_not_name(tmp_path):
    table = tmp_path / "folder" / "prices.csv"
    old = Price(region="r", instance_type="ml.a", usd_per_hour=1, published="2020", source="s")
    other = Price(region="r", instance_type="ml.b", usd_per_hour=2, published="2020", source="s")
    new = Price(region="r", instance_type="ml.a", usd_per_hour=3, published="2021", source="s, t")
    write_prices([old, other], table)
    write_prices([new], table)
    assert read_prices([table]) == [new, other]
    assert find_price("ml.a", "r", tables=[table, BUILT_IN]) == new


def test_a_bill_counts_every_instance_and_shows_what_spot_saved():
    machines = find_machines({"ml.m5.xlarge": 4}, "us-east-1", tables=[BUILT_IN])
    bill = Bill(
        machines=machines, training_seconds=3600, billable_seconds=900, warm_pool_seconds=1800
    )
    assert bill.usd == pytest.approx(0.23)
    assert bill.warm_pool_usd == pytest.approx(0.46)
    assert bill.spot_saving == 0.75
    assert spot_saving(0, 0) == 0
    assert show_usd(0.23) == "$0.23"


@pytest.mark.functional
def test_the_command_reads_aws_price_list_and_shows_its_date(tmp_path):
    from tests.cli.conftest import Cli

    cli = Cli(tmp_path, tmp_path / "platform")
    home = {"HOME": str(tmp_path)}
    (tmp_path / "index.csv").write_text(OFFER)
    done = cli.run("prices", "update", "index.csv", **home)
    assert done.returncode == 0, done.stderr
    shown = cli.run("prices", "ls", "ml.g5.xlarge", "--region", "eu-north-1", **home).stdout
    assert "$1.5/h" in shown
    assert "2026-10-01" in shown
    unknown = cli.run("prices", "ls", "ml.g5.xlargee", **home)
    assert unknown.returncode == 2
    assert "ml.g5.xlarge" in unknown.stderr
