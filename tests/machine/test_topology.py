"""The graphs of the instances: neighbors, distances, rings."""

import pytest

from neuroncore.base.errors import UsageError
from neuroncore.machine import instance as instances

GRAY = (0, 1, 3, 2)


def topology(name):
    return instances.find(name).topology


def one_bit_apart(a, b):
    return (a ^ b).bit_count() == 1


def test_a_torus_of_4_by_4_is_the_4_cube():
    torus = topology("trn2.48xlarge")
    label = [GRAY[chip // 4] << 2 | GRAY[chip % 4] for chip in range(16)]
    assert len(torus.links()) == 32 == 16 * 4 // 2
    assert all(one_bit_apart(label[a], label[b]) for a, b in torus.links())
    for a in range(16):
        for b in range(16):
            assert torus.distance(a, b) == (label[a] ^ label[b]).bit_count()


def test_a_torus_of_4_by_4_by_4_is_the_6_cube():
    torus = topology("u-trn2x64")
    label = [
        GRAY[chip // 16] << 4 | GRAY[chip // 4 % 4] << 2 | GRAY[chip % 4] for chip in range(64)
    ]
    assert len(torus.links()) == 192 == 64 * 6 // 2
    assert all(one_bit_apart(label[a], label[b]) for a, b in torus.links())


def test_neighbors_agree_with_the_driver():
    torus = topology("trn1.32xlarge")
    # device: neighbors, as the driver of Trainium2 lists them, in order
    listed = {0: [1, 3, 4, 12], 5: [1, 4, 6, 9], 10: [6, 9, 11, 14], 15: [3, 11, 12, 14]}
    assert {chip: torus.neighbors(chip) for chip in listed} == listed
    assert topology("inf2.48xlarge").neighbors(0) == [1, 11]
    assert topology("inf2.24xlarge").neighbors(0) == [1]
    assert topology("trn2.3xlarge").neighbors(0) == []
    assert topology("trn3-gen2-ultraserver").neighbors(3) == [75]


@pytest.mark.parametrize(
    ("name", "diameter", "mean"),
    [
        ("trn1.32xlarge", 4, 2.133),
        ("trn2.48xlarge", 4, 2.133),
        ("trn2-ultraserver", 6, 3.048),
        ("inf2.48xlarge", 6, 3.273),
        ("inf2.24xlarge", 5, 7 / 3),
    ],
)
def test_distances_between_chips(name, diameter, mean):
    apart = topology(name).distances()
    assert max(apart) == diameter
    assert sum(apart) / len(apart) == pytest.approx(mean, abs=5e-4)


@pytest.mark.parametrize("name", ["trn2.48xlarge", "trn2-ultraserver", "inf2.24xlarge"])
def test_distances_agree_with_a_search(name):
    graph = topology(name)
    far = {0: 0}
    wave = [0]
    for chip in wave:
        for other in graph.neighbors(chip):
            if other not in far:
                far[other] = far[chip] + 1
                wave.append(other)
    assert far == {chip: graph.distance(0, chip) for chip in range(graph.chips)}


def test_two_models_of_switches_are_available():
    racks = topology("trn3-gen2-ultraserver")
    assert racks.coordinates(77) == (1, 1, 1) and racks.chip_at((1, 1, 1)) == 77
    assert [racks.distance(0, chip, "analyst") for chip in (0, 3, 4, 72)] == [0, 1, 3, 4]
    assert [racks.distance(0, chip, "vendor") for chip in (3, 4, 72)] == [1, 1, 1]


def test_a_chip_that_does_not_exist_is_refused():
    with pytest.raises(UsageError, match="no chip 16: the chips are 0 to 15"):
        topology("trn2.48xlarge").neighbors(16)
