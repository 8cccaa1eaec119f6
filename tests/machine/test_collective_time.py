"""The time of collectives: measured times, and times that follow from them."""

import pytest
from every import for_all

from neuroncore.base.errors import UsageError
from neuroncore.machine import instance as instances
from neuroncore.machine.collective_time import SCALED, collective_time

MIB = 1 << 20
TRN2 = instances.find("trn2.48xlarge")
ALL = range(64)


def time(pattern, size, ranks=ALL, name="trn2.48xlarge", lnc=2):
    return collective_time(instances.find(name), lnc, pattern, size, ranks)


def own(name):
    return TRN2.collectives.algorithms[name]


@for_all(
    "size, algorithm, steps",
    [(MIB, "mesh", 2), (MIB + 1, "rdh", 5), (64 * MIB, "rdh", 5), (65 * MIB, "kangaring", 31)],
)
@for_all("pattern", ["gather", "scatter"])
def test_time_is_the_sum_of_launch_steps_and_bytes(pattern, size, algorithm, steps):
    found = time(pattern, size)
    rate = getattr(own(algorithm), f"{pattern}_gigabytes_per_s")
    microseconds = TRN2.collectives.launch_us + steps * own(algorithm).step_us + size / (1e3 * rate)
    assert (found.algorithm, found.steps) == (algorithm, steps)
    assert found.ns == pytest.approx(1e3 * microseconds)


def test_a_reduce_is_a_scatter_and_a_gather_launched_once():
    parts = time("gather", 16 * MIB).ns + time("scatter", 16 * MIB).ns
    whole = time("reduce", 16 * MIB)
    assert whole.ns == pytest.approx(parts - 1e3 * TRN2.collectives.launch_us)
    assert whole.steps == 10


def test_bandwidths_agree_with_nccom_test():
    """nccom-test prints 338.7 and 333.4 GB/s for 1 GiB of all_gather in 3170.14 us."""
    found = time("gather", 1 << 30)._replace(ns=3170.14e3)
    assert found.algorithm_bandwidth == pytest.approx(338.7, abs=0.05)
    assert found.bus_bandwidth == pytest.approx(333.4, abs=0.05)
    reduce = time("reduce", 1 << 30)._replace(ns=6764.41e3)
    assert reduce.bus_bandwidth == pytest.approx(312.5, abs=0.05)
    assert time("shift", MIB).bus_bandwidth == time("shift", MIB).algorithm_bandwidth


@pytest.mark.parametrize(
    ("pattern", "size", "ranks", "name", "lnc"),
    [
        ("gather", MIB // 2, ALL, "trn2.48xlarge", 2),
        ("gather", 4 << 30, ALL, "trn2.48xlarge", 2),
        ("gather", MIB, range(32), "trn2.48xlarge", 2),
        ("gather", MIB, range(64), "trn2.48xlarge", 1),
        ("exchange", MIB, ALL, "trn2.48xlarge", 2),
        ("gather", MIB, ALL, "trn2-ultraserver", 2),
        ("gather", MIB, range(32), "trn1.32xlarge", 1),
    ],
)
def test_estimates_outside_the_table_are_marked(pattern, size, ranks, name, lnc):
    assert time(pattern, size, ranks, name, lnc).basis == SCALED


def test_estimates_within_the_table_are_marked_too():
    for pattern in ("gather", "scatter", "reduce"):
        assert time(pattern, MIB).basis == "fitted to trn2.48xlarge, 64 ranks"


def test_twice_the_links_halve_the_time_of_bytes():
    large = 1 << 30
    launch = 1e3 * (TRN2.collectives.launch_us + 15 * own("kangaring").step_us)
    one = time("gather", large, range(32), "trn1.32xlarge", 1).ns - launch
    two = time("gather", large, range(32), "trn1n.32xlarge", 1).ns - launch
    assert one == pytest.approx(2 * two)


def test_a_row_of_a_torus_has_half_of_its_links():
    size = 1 << 30
    row = time("gather", size, range(16))
    whole = time("gather", size)
    assert row.algorithm == "kangaring" and row.steps == 7
    latency = 1e3 * (TRN2.collectives.launch_us + 7 * own("kangaring").step_us)
    other = 1e3 * (TRN2.collectives.launch_us + 31 * own("kangaring").step_us)
    assert (row.ns - latency) / (whole.ns - other) == pytest.approx(2 * (3 / 4) / (15 / 16))


def test_servers_exchange_their_shares_in_a_ring():
    """256 ranks: 16 chips in each server as before, and a ring of 4 servers over 128 GB/s."""
    size = 1 << 30
    inner, found = time("gather", size), time("gather", size, range(256), "u-trn2x64")
    assert found.algorithm == "kangaring + ring" and found.steps == 31 + 3
    share = own("kangaring").gather_gigabytes_per_s * 15 / 16 / 512
    ring = 3e3 * own("kangaring").step_us + size / 16 * 3 / 4 / (share * 128)
    assert found.ns == pytest.approx(inner.ns + ring)


def test_parts_of_chips_and_other_counts_use_a_ring():
    every_second = range(0, 64, 2)
    assert time("gather", 1 << 30, every_second).algorithm == "ring"
    assert time("gather", 1 << 30, every_second).steps == 31
    assert time("gather", 4 * MIB, range(12), "inf2.24xlarge", 1).algorithm == "kangaring"
    assert time("gather", 64 * MIB, range(512), "u-trn2x64", 1).algorithm == "rdh + ring"


def test_one_chip_has_no_time_for_links():
    found = time("gather", 1 << 20, range(4), "trn2.3xlarge")
    bank = 2900 / 4 / 2
    launch = 1e3 * (TRN2.collectives.launch_us + own("mesh").step_us)
    assert found.ns == pytest.approx(launch + 3 / 4 * (1 << 20) / bank)


def test_an_exchange_sends_each_chip_the_data_for_its_ranks():
    size = 8 * MIB
    found = time("exchange", size)
    share = own("mesh").gather_gigabytes_per_s * 15 / 16 / 512
    taken = 4 * size * 15 / 16
    launch = 1e3 * (TRN2.collectives.launch_us + 2 * own("mesh").step_us)
    assert found.ns == pytest.approx(launch + taken / (share * 512))


def test_more_bytes_never_take_less_time():
    for name, lnc in (("trn2.48xlarge", 2), ("trn2-ultraserver", 1), ("trn1.32xlarge", 1)):
        for pattern in ("exchange", "shift"):
            ranks = range(instances.find(name).ranks(lnc))
            times = [time(pattern, 1 << power, ranks, name, lnc).ns for power in range(10, 31)]
            assert times == sorted(times)


def test_ranks_that_do_not_exist_are_refused():
    with pytest.raises(UsageError, match="has no rank 64"):
        time("gather", MIB, range(65))
