"""docs/ agrees with the code."""

import re
import tomllib
from pathlib import Path

import pytest
from accepted import instructions, module

from neuroncore.base.options import Options
from neuroncore.frontend.vendor import PACKAGES, REPOSITORIES
from neuroncore.report import estimate

numerics = module("numerics")
calibration = module("calibration")
check = module("check")
noise = module("noise")


def test_the_table_of_instructions_and_formats_is_current():
    page = instructions.PAGE.read_text()
    assert instructions.page() == page, "run docs/generate/instructions.py"


def test_the_table_of_numerics_is_current():
    assert numerics.page() == numerics.PAGE.read_text(), "run docs/generate/numerics.py"


def test_the_table_of_codes_is_current():
    assert check.page() == check.PAGE.read_text(), "run docs/generate/check.py"


def test_every_claim_about_numbers_has_a_test():
    named = [name for claims in numerics.SERIES.values() for name in claims]
    counts = {"C": 12, "S": 9, "T": 13, "V": 18, "X": 6, "R": 3, "Z": 1}
    assert named == [f"{letter}{i + 1}" for letter, n in counts.items() for i in range(n)]


@pytest.mark.parametrize("other", ["test_codec.test_nothing_of_the_kind", "test_nowhere.*"])
def test_a_missing_test_is_found(other):
    with pytest.raises(LookupError, match=f"C1: there is no test {other.replace('*', '.')}"):
        numerics.tests_of("C1", (other,), numerics.all_tests())
    with pytest.raises(LookupError, match="C99: there is no test of it"):
        numerics.tests_of("C99", (), numerics.all_tests())


def test_the_page_of_names_has_every_package_and_variable():
    page = Path("docs/names.md").read_text()
    for package in PACKAGES:
        assert package.name in page or f"`.{package.name.rpartition('.')[2]}`" in page, package.name
    for repository in REPOSITORIES.values():
        assert repository.url in page and repository.variable in page
        assert repository.commit in page


def test_the_modules_that_the_glossary_names_exist():
    named = re.findall(r"`([\w/]+(?:/|\.py))`", Path("docs/glossary.md").read_text())
    missing = [m for m in named if not any((Path(at) / m).exists() for at in (".", "neuroncore"))]
    assert len(named) > 20 and not missing


def test_every_option_is_explained():
    explained = {name: text for name, _, _, text in numerics.fields()}
    assert list(explained) == list(Options.__dataclass_fields__)
    assert all(text.endswith(".") and len(text) > 40 for text in explained.values())


def test_the_readme_has_the_figures_on_the_calibration_page():
    line = re.search(r"^\| cross-validation: .*$", calibration.PAGE.read_text(), re.MULTILINE)
    error, within, pairs, _, covered, _ = (text.strip() for text in line[0].split("|")[3:-1])
    trust = Path("README.md").read_text().partition("**Time.**")[2]
    for figure in (error, within, pairs, covered):
        assert figure.replace("%", " %") in trust


def timed(*times):
    """Rows of one chain with these measurements and estimates."""
    names = "kernel", "measured_us", "estimated_us"
    return [{"id": str(k), "chain": "c", **dict(zip(names, row, strict=True))}
            for k, row in enumerate(times)]  # fmt: skip


def test_measurements_with_equal_estimates_count_as_repeated():
    rows = timed(("a", 100, 90), ("a", 102, 90), ("a", 300, 280), ("b", 200, 90))
    assert list(noise.repeated(rows)) == pytest.approx([0.02])


def test_estimates_decide_the_order_of_close_measurements():
    rows = timed(("a", 100.0, 3.0), ("b", 101.0, 2.0), ("c", 102.5, 1.0))
    assert [noise.loosely(rows, alike) for alike in (0.0, 0.02, 0.05)] == [-1.0, -0.5, 1.0]


def test_each_pair_in_wrong_order_is_counted_for_one_kernel():
    rows = timed(("a", 100, 90), *((name, 200 + 30 * k, 10 + k) for k, name in enumerate("bcde")))
    wrong = [pair for pair, right in noise.pairs(rows) if not right]
    assert list(noise.often(wrong)) == [("0 a", 4)]


def test_the_calibration_page_has_the_ranges_that_are_reported():
    rows = re.findall(
        r"^\| ([\w, ]+) \| ([\d.]+) \| ([\d.]+) \| (\d+) \| (\d+) \|$",
        calibration.PAGE.read_text(),
        re.MULTILINE,
    )
    told = {name: (float(low), float(high), *map(int, counts)) for name, low, high, *counts in rows}
    stated = tomllib.loads(estimate.FILE.read_text())["range"]
    assert set(told) == {r["of"] for r in stated}, "run docs/generate/calibration.py"
    for r in stated:
        wanted = r["low"], r["high"], r["points"], r["sources"]
        assert told[r["of"]] == pytest.approx(wanted, abs=0.011), "run docs/generate/calibration.py"
