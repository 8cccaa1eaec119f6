"""Findings of a run: those of the examples of the table, and those of small kernels, each with a
legal twin."""

import runpy
import tomllib
from pathlib import Path

import ml_dtypes
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from every import for_all

import neuroncore
from neuroncore.base.findings import rules
from neuroncore.cli.explain import pages

PAGES = pages()
CODES = Path(neuroncore.__file__).parent / "base/codes"
OF_RUNS = [
    code
    for file in ("launch.toml", "record.toml")
    for code in tomllib.loads((CODES / file).read_text("utf-8"))
    if code != "header" and rules()[code].example
]

# codes of findings about a launch, which the test starts
NOWHERE = {code: {False, None} for code in ("GRID_SIZE", "RESULT_ON_CHIP", "WORLD_SIZE")}


def given():
    return np.random.default_rng(0).standard_normal((128, 512)).astype(np.float32)


def findings_of(kernel, *arguments, **options):
    """Return the findings of a launch by code, each with its line in the kernel."""
    found = {}
    for one in neuroncore.run(kernel, *arguments, **options).findings:
        found.setdefault(one.code, one)
    return found


def example(path, text):
    path.write_text(text, "utf-8")
    ran = runpy.run_path(str(path))
    settings = ran.get("settings", {})
    given = [] if "per_rank" in settings else [ran["x"]]
    run = neuroncore.run(ran["kernel"], *given, **settings)
    if "orders" not in ran:
        return run.findings
    found = run.orders(ran["orders"]).finding
    return [] if found is None else [found]


@pytest.mark.parametrize("code", OF_RUNS)
def test_a_finding_is_at_a_marked_line_and_the_twin_has_none(code, tmp_path):
    page, lines = PAGES[code], PAGES[code].bad.splitlines()
    bad = [one for one in example(tmp_path / "bad.py", page.bad) if one.code == code]
    good = [one for one in example(tmp_path / "good.py", page.good) if one.code == code]
    marked = {line[1:] for line in page.diff.splitlines() if line.startswith("-")}
    here = str(tmp_path / "bad.py")
    reported = {one.place and one.place.file == here and lines[one.place.line - 1] for one in bad}
    assert reported & (marked | NOWHERE.get(code, set())) and not good


# --- numbers --------------------------------------------------------------------------------------


@nki.jit
def multiplied(x, factor):
    out, tile = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm), nl.load(x)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=factor)
    nl.store(out, tile)
    return out


@pytest.mark.parametrize(
    ("value", "factor", "said"),
    [
        (2**24 + 1, 1.0, "16777217 becomes 16777216"),
        (5_000_003, 5.0, "25000015 becomes 25000016"),
        (2**24, 4.0, None),  # an integer that float32 represents
        (5_000_000, 2.0, None),
    ],
)
def test_integers_that_float32_cannot_represent_are_reported_with_an_example(value, factor, said):
    found = findings_of(multiplied, np.full((3, 5), value, np.int32), factor).get("INT32_ROUNDED")
    assert (found is None) == (said is None) and (said is None or said in found.message)


@nki.jit
def copied(x, dtype):
    tile = nl.ndarray(x.shape, dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=tile, src=nl.load(x))
    out = nl.ndarray(x.shape, dtype, buffer=nl.shared_hbm)
    nl.store(out, tile)
    return out


@for_all(
    "value, dtype, said",
    [
        (257, nl.bfloat16, "beyond 2^8 that bfloat16 can't represent"),
        (-257, nl.bfloat16, "-257 becomes -256"),
        (2049, nl.float16, "2049 becomes 2048"),
        (17, nl.float8_e4m3, "17 becomes 16"),
        (2**24 + 1, nl.float32, "16777217 becomes 16777216"),
        (258, nl.bfloat16, None),
        (2048, nl.float16, None),
        (70_000, nl.float16, None),  # becomes infinite, which is another finding
        (2**24, nl.float32, None),
        (2**31 - 1, nl.int32, None),
    ],
)
def test_integers_that_a_copy_rounds_are_reported_with_an_example(value, dtype, said):
    found = findings_of(copied, np.full((3, 5), value, np.int32), dtype).get("INT32_ROUNDED")
    assert (found is None) == (said is None) and (said is None or said in found.message)


@nki.jit
def tripled(x, turns, columns):
    out, tile = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm), nl.load(x)
    part = tile[:, 0:columns]
    for _ in range(turns):
        nisa.tensor_scalar(dst=part, data=part, op0=nl.multiply, operand0=3.0)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=0.0)  # all of it
    nl.store(out, tile)
    return out


@pytest.mark.parametrize("columns", [2, 5])
@pytest.mark.parametrize(("turns", "becomes"), [(15, None), (16, "43046721 becomes 43046720")])
def test_growing_integers_are_reported_in_the_iteration_that_rounds_them(turns, becomes, columns):
    """The bound of a tile is dropped when its numbers grow: 3^15 < 2^24 < 3^16."""
    found = findings_of(tripled, np.ones((3, 5), np.int32), turns, columns).get("INT32_ROUNDED")
    assert (found is None) == (becomes is None) and (becomes is None or becomes in found.message)


@nki.jit
def aliased(x):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    one = nl.ndarray(x.shape, nl.int32, buffer=nl.sbuf, address=(0, 0))
    two = nl.ndarray(x.shape, nl.int32, buffer=nl.sbuf, address=(0, 0))
    for step in range(2):
        nisa.tensor_scalar(dst=one, data=one if step else nl.load(x), op0=nl.add, operand0=step)
        nisa.memset(dst=two, value=2**24 + 1)
    nl.store(out, one)
    return out


def test_integers_written_through_an_alias_are_seen():
    assert "INT32_ROUNDED" in findings_of(aliased, np.ones((3, 5), np.int32))


@nki.jit
def kept_bits(x):
    out, tile = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm), nl.load(x)
    nisa.tensor_copy(dst=tile, src=tile)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.bitwise_xor, operand0=12345)
    nl.store(out, tile)
    return out


def test_moving_the_bits_of_integers_has_no_finding():
    assert "INT32_ROUNDED" not in findings_of(kept_bits, np.full((3, 5), 2**31 - 1, np.int32))


@for_all("form", ["float16", "float8_e4m3", "float8_e5m2"])
@for_all("factor", [1.0, 1e6])
def test_overflow_of_narrow_floats(form, factor):
    x = np.ones((3, 5), getattr(ml_dtypes, form, np.float16))
    assert ("OVERFLOW" in findings_of(multiplied, x, factor)) == (factor > 1)


def test_an_infinite_input_is_not_an_overflow():
    assert "OVERFLOW" not in findings_of(multiplied, np.full((3, 5), np.inf, np.float16), 2.0)


@nki.jit
def transposed(x):
    out = nl.ndarray(x.shape[::-1], x.dtype, buffer=nl.shared_hbm)
    turned = nl.ndarray(x.shape[::-1], x.dtype, buffer=nl.psum)
    nisa.nc_transpose(dst=turned, data=nl.load(x))
    nl.store(out, nl.copy(turned))
    return out


@pytest.mark.parametrize(
    ("value", "target", "codes"),
    [(np.inf, "trn1", ["TRANSPOSED_NAN"]), (1.0, "trn1", []), (np.inf, "trn2", [])],
)
def test_transposes_of_nan_and_infinity_are_reported(value, target, codes):
    x = np.ones((33, 7), np.float32)
    x[4, 2] = value
    assert [code for code in findings_of(transposed, x, target=target) if "NAN" in code] == codes


# --- memory ---------------------------------------------------------------------------------------


@nki.jit
def held(x, count, columns):
    out, tiles = nl.ndarray((128, 8), nl.float32, buffer=nl.shared_hbm), []
    for i in range(count):
        tiles.append(nl.full((128, columns), i, nl.float32, name="big"))
    total = nl.zeros((128, 8), nl.float32)
    for tile in tiles:
        nisa.tensor_tensor(dst=total, data1=total, data2=tile[:, 0:8], op=nl.add)
    nl.store(out, total)
    return out


@pytest.mark.parametrize(("count", "fits"), [(2, True), (3, False)])
def test_a_tile_that_does_not_fit_is_named_with_the_tiles_in_memory(count, fits):
    found = findings_of(held, given(), count, 20_000).get("CAPACITY")
    assert (found is None) == fits
    if found is not None:
        assert found.place.line == held.__wrapped__.__code__.co_firstlineno + 4
        assert "does not fit is big of test_recorded.py:" in found.message
        assert "3 x big of test_recorded.py:" in found.message


@nki.jit
def in_place_by_an_alias(x):
    """Another tensor at the same bytes changes them, so no data is lost."""
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    a = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf, address=(0, 0))
    b = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf, address=(0, 0))
    nisa.dma_copy(dst=a, src=x)
    nisa.tensor_scalar(dst=b, data=b, op0=nl.add, operand0=1.0)
    nisa.dma_copy(dst=out, src=a)
    return out


@nki.jit
def over_its_end(x):
    """The instruction reads the tensor that it writes over, but not where it writes."""
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    a = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf, address=(0, 0))
    b = nl.ndarray(x.shape, nl.bfloat16, buffer=nl.sbuf, address=(0, 1536))
    nisa.dma_copy(dst=a, src=x)
    nisa.activation(dst=b, op=nl.exp, data=a)
    nisa.tensor_tensor(dst=a, data1=a, data2=b, op=nl.add)
    nisa.dma_copy(dst=out, src=a)
    return out


def test_a_partial_overlap_of_source_and_destination_is_reported():
    assert "OVERLAPPING_ADDRESSES" in findings_of(over_its_end, given())


@nki.jit
def after_its_end(x):
    out = nl.ndarray((2, *x.shape), x.dtype, buffer=nl.shared_hbm)
    for i in range(2):
        tile = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf, address=(0, 512 * i))
        nisa.dma_copy(dst=tile, src=x)
        nisa.dma_copy(dst=out[i], src=tile)
    return out


@pytest.mark.parametrize("kernel", [in_place_by_an_alias, after_its_end])
def test_reusing_addresses_has_no_finding(kernel):
    assert "OVERLAPPING_ADDRESSES" not in findings_of(kernel, given())


@nki.jit
def copied_within(x, dst, src):
    """Copy rows and columns of a tensor to other rows and columns of it, on the chip and in HBM."""
    out, tile = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm), nl.load(x)
    nisa.dma_copy(dst=tile[dst], src=tile[src])
    nisa.dma_copy(dst=out, src=tile)
    nisa.dma_copy(dst=out[dst], src=out[src])
    return out


ROWS = slice(None)


@pytest.mark.parametrize(
    ("dst", "src"),
    [
        ((slice(1, 128), ROWS), (slice(0, 127), ROWS)),
        ((ROWS, slice(0, 500)), (ROWS, slice(12, 512))),
        ((ROWS, slice(1, 8, 2)), (ROWS, slice(3, 10, 2))),
    ],
)
def test_a_dma_to_bytes_of_its_source_is_reported(dst, src):
    launch = neuroncore.run(copied_within, given(), dst, src)
    lines = [f.place.line for f in launch.findings if f.code == "OVERLAPPING_COPY"]
    begin = copied_within.function.__code__.co_firstlineno
    assert lines == [begin + 4, begin + 6]


@pytest.mark.parametrize(
    ("dst", "src"),
    [
        ((slice(64, 128), ROWS), (slice(0, 64), ROWS)),  # side by side
        ((ROWS, slice(0, 512, 2)), (ROWS, slice(1, 512, 2))),  # between each other
        ((ROWS, slice(1, 3)), (ROWS, slice(0, 8, 4))),  # contiguous, and between the elements read
        ((slice(0, 127), ROWS), (slice(0, 127), ROWS)),  # each element onto itself
    ],
)
def test_a_dma_to_other_bytes_of_a_tensor_has_no_finding(dst, src):
    assert "OVERLAPPING_COPY" not in findings_of(copied_within, given(), dst, src)


@nki.jit
def large_blocks_of_rows(x):
    """Between the rows of the destination are those of the source. There are too many bytes to
    compare each."""
    out = nl.ndarray((2, 1024, 2, 16), x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=x)
    nisa.dma_copy(dst=out[:, :, 1, :], src=out[:, :, 0, :])
    return out


@nki.jit
def many_columns(x):
    """Each pair of columns is disjoint, but there are many pairs."""
    out = nl.ndarray((64, 64, 64), x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=x)
    for i in range(0, 64, 2):
        nisa.dma_copy(dst=out[:, :, i + 1 : i + 2], src=out[:, :, i : i + 1])
        nisa.dma_copy(dst=out[:, i + 1 : i + 2, 0:60], src=out[:, i : i + 1, 0:60])
    return out


@nki.jit
def row_of_an_index(x):
    """The index is 5, so row 5 is copied to row 0."""
    out = nl.ndarray((64, 1024), x.dtype, buffer=nl.shared_hbm)
    index = nl.ndarray((1, 1), nl.int32, buffer=nl.sbuf)
    nisa.dma_copy(dst=out, src=x)
    nisa.memset(index, 5)
    row = out.ap([[1024, 1], [1, 1024]], scalar_offset=index, indirect_dim=0)
    nisa.dma_copy(dst=out[0:1], src=row)
    return out


@nki.jit
def first_row_to_all(x):
    """The first row is copied onto itself and to all other rows."""
    out = nl.ndarray((64, 1024), x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=x)
    nisa.dma_copy(dst=out, src=out.ap([[0, 64], [1, 1024]]))
    return out


@for_all(
    ("kernel", "shape"),
    [
        (large_blocks_of_rows, (2, 1024, 2, 16)),
        (many_columns, (64, 64, 64)),
        (row_of_an_index, (64, 1024)),
        (first_row_to_all, (64, 1024)),
    ],
)
def test_a_dma_is_only_reported_if_its_operands_certainly_overlap(kernel, shape):
    assert "OVERLAPPING_COPY" not in findings_of(kernel, np.zeros(shape, np.float32))


@nki.jit
def tiles_of_one_address(x):
    """Each iteration has a separate tile at the address, and its first product begins a sum."""
    out, tile = nl.ndarray((2, 128, 512), x.dtype, buffer=nl.shared_hbm), nl.load(x)
    for i in range(2):
        sums = nl.ndarray((128, 512), nl.float32, buffer=nl.psum, address=(0, 0))
        for _ in range(2):
            nisa.nc_matmul(dst=sums, stationary=tile[:, 0:128], moving=tile)
        nl.store(out[i], nl.copy(sums))
    return out


def test_sums_in_tiles_at_one_address_have_no_finding():
    assert "SUM_GOES_ON" not in findings_of(tiles_of_one_address, given())


# --- advice ---------------------------------------------------------------------------------------


def test_advice_is_not_a_warning():
    severities = {one.severity for one in findings_of(multiplied, given()[:3, :5], 2.0).values()}
    assert severities <= {"advice"}


@nki.jit
def bounds_and_a_register(ids):
    tile, register = nl.load(ids), nisa.register_alloc()
    bounds = nl.ndarray((1, 2, ids.shape[1]), ids.dtype)
    nisa.sequence_bounds(bounds, tile)
    nisa.register_load(register, tile[0:1, 0:1])
    nisa.register_store(bounds[0:1, 1, 3:4], register)
    out = nl.ndarray(bounds.shape, ids.dtype, buffer=nl.shared_hbm)
    nl.store(out, bounds)
    return out


@pytest.mark.parametrize("columns", [7, 512])
def test_an_instruction_that_takes_one_partition_does_not_waste_lanes(columns):
    assert "FEW_LANES" not in findings_of(bounds_and_a_register, np.ones((1, columns), np.int32))
