"""Write docs/numerics.md: claims about numbers, the tests of each claim, and the options.

python docs/generate/numerics.py
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from neuroncore.base import options
from neuroncore.base.options import PROFILES

DOCS = Path(__file__).parents[1]
PAGE = DOCS / "numerics.md"
TESTS = DOCS.parent / "tests"
RUNNERS = DOCS.parent / "bench/conformance/tests"

HEAD = """\
# Numerics

This page lists every claim about the numbers that kernels compute, with the tests that check the
claim. Then it lists the [options](#options). If a behavior of the device is not published, an
option selects among the possible behaviors, and its text states the reason for the default. To
convert numbers without a kernel, use `neuroncore.numerics` ([formats.md](formats.md)).

`docs/generate/numerics.py` writes this page. A test fails if the page is stale or names a test that
does not exist.
"""

LEVELS = """\

## How close float32 kernels come

The table shows the relative L2 distance between float32 results and float64 results, in units of
1e-7, for kernels of this project. The columns `chain`, `four_pass` and `blas` have results of the
kernel with these values of the options `fp32_matmul` (`chain`, `four_pass`) and `matmul` (`blas`).
The column `numpy` has results of the same formula in numpy's float32.
`python bench/precision_levels.py` prints the table.

On a device, a larger distance was measured: Jerry2423/kda-for-trainium has 28.7 (in the same unit)
for a float32 attention kernel (gqa_full) on trn2. Neither `chain` nor `four_pass` explains this
distance.

| kernel | chain | four_pass | blas | numpy |
| --- | --- | --- | --- | --- |
| attention 1024 x 128 | 6.45 | 6.59 | 6.45 | 5.31 |
| attention 1024 x 128, queries four times as large | 18.30 | 18.56 | 18.30 | 12.63 |
| causal attention 1024 x 128 | 3.88 | 3.95 | 3.88 | 3.73 |
| matmul 512 x 1024 x 512 | 2.11 | 2.23 | 2.11 | 3.41 |"""

# Claims by id. Tests belong to a claim if their name begins with its id, or if they are listed.
CONVERSIONS = {
    "C1": (
        "float32 is rounded to nearest even in narrower floats, with the bits of numpy and "
        "ml_dtypes",
        "numerics.test_numerics_published.test_every_upper_half_of_a_float32_with_sixteen_lower_ones",
        "numerics.test_numerics_published.test_golden_nearest",
        "numerics.test_numerics_published.test_rounding_to_nearest_agrees_with_gfloat",
    ),
    "C2": (
        "each code of each format has the value that ml_dtypes gives it; 4-bit floats and "
        "scales have their published values",
        "numerics.test_codec.test_every_code_is_read_like_in_numpy",
        "numerics.test_packed_formats.test_the_sixteen_numbers_of_four_bits",
        "numerics.test_packed_formats.test_a_scale_is_a_power_of_two_and_ff_is_nan",
    ),
    "C3": (
        "a TF32 number has ten fraction bits, rounded to nearest even, and takes 32 bits in memory",
        "numerics.test_numerics_published.test_tfloat32_is_rounded_to_its_own_steps",
    ),
    "C4": (
        "a number that is half a step or more above the largest number of a format with "
        "infinities becomes infinity; therefore the lowest float32 number becomes minus infinity "
        "in narrower formats with infinities",
        "numerics.test_codec.test_floats_overflow_half_a_step_above_the_largest",
        "isa.test_selection.test_the_fill_value_becomes_infinite_in_formats_with_a_smaller_range",
    ),
    "C5": (
        "there are two formats e4m3. float8_e4m3 reaches 240 and has infinities. float8_e4m3fn "
        "reaches 448 and has no infinities, so larger numbers become NaN or, with the option "
        "`fn_overflow`, 448",
        "numerics.test_codec.test_the_two_kinds_of_e4m3_differ",
        "core.test_options.test_fn_overflow",
    ),
    "C6": (
        "small numbers become subnormal, ties round to even, zeros keep their sign, and a "
        "code that is decoded and encoded again is the same",
        "numerics.test_codec.test_floats_underflow_gradually",
        "numerics.test_codec.test_every_code_survives_reading_and_writing",
    ),
    "C7": (
        "floats are rounded to nearest even in integer formats; numbers outside the range "
        "become the smallest or largest integer, and NaN becomes 0",
        "numerics.test_codec.test_integers_round_to_nearest_even",
        "numerics.test_codec.test_integers_saturate_and_nan_is_0",
        "numerics.test_numerics_published.test_golden_integers",
    ),
    "C8": (
        "an instruction that only copies, such as `tensor_copy`, moves bits if both tiles have the "
        "same format",
        "isa.test_copy.test_a_copy_between_equal_formats_moves_bits",
        "isa.test_copy.test_copies_between_all_pairs_of_formats",
        "isa.test_every_layout.test_operands_may_have_any_layout",
    ),
    "C9": (
        "a 32-bit integer is converted to float32 first, and then to another format",
        "numerics.test_numerics_published.test_golden_wide_integers",
        "isa.test_copy.test_copies_between_all_pairs_of_formats",
    ),
    "C10": (
        "because of C9, a 32-bit integer is rounded twice when it is converted to a narrow float",
        "numerics.test_codec.test_an_integer_is_rounded_twice_on_its_way_to_bfloat16",
        "isa.test_copy.test_copies_between_all_pairs_of_formats",
    ),
    "C11": (
        "DMA converts between formats through float32; it moves bits if the formats are the "
        "same and, in the older API, between int32 and uint32",
        "isa.test_dma.test_every_conversion",
        "isa.test_dma.test_a_transfer_without_conversion_copies_bits",
        "older.test_forms.test_transfers_between_integers_of_32_bits_move_bits",
    ),
    "C12": (
        "unlike in ml_dtypes, 0 as a scale becomes 2^-127 (ml_dtypes: NaN), and NaN as a "
        "4-bit float becomes 6, the largest number (ml_dtypes: -0)",
        "numerics.test_packed_formats.test_scales_are_rounded_to_the_nearest_power",
        "numerics.test_packed_formats.test_four_bits_round_to_even_and_saturate",
    ),
}
STOCHASTIC = {
    "S1": (
        "stochastic rounding reproduces the results that the tests have stored, bit for bit",
        "numerics.test_numerics_published.test_golden_stochastic",
    ),
    "S2": (
        "a magnitude lies between two neighboring numbers of the format. f is its distance from "
        "the lower number, divided by the distance of the two numbers. The magnitude is rounded "
        "up if the 32-bit random word is below 2^32 times f",
        "numerics.test_stochastic.test_the_word_below_which_a_number_goes_up_is_the_exact_fraction",
        "numerics.test_stochastic.test_the_definition_and_the_loops_agree",
        "numerics.test_numerics_published.test_stochastic_rounding_agrees_with_gfloat",
    ),
    "S3": (
        "of many equal numbers, the share f (see S2) is rounded up, without bias. Each number is "
        "rounded independently of the others",
        "numerics.test_stochastic.test_up_as_often_as_the_fraction_and_independently",
    ),
    "S4": (
        "numbers that a format represents exactly never change",
        "numerics.test_stochastic.test_representable_numbers_are_never_changed",
    ),
    "S5": (
        "a number between the largest number of a format and the next step becomes infinity, "
        "or NaN, with a probability that grows with its distance from the largest number",
        "numerics.test_stochastic.test_above_the_largest_a_number_overflows_as_often_as_it_is_beyond",
        "numerics.test_stochastic.test_saturating_formats_never_overflow",
    ),
    "S6": (
        "with the same seed, results have the same bits for any number of threads, and for any "
        "first partition and any layout of the tile; the bits of another seed, core, engine or "
        "instruction are unrelated",
        "numerics.test_stochastic.test_threads_and_their_order_do_not_matter",
        "numerics.test_stochastic.test_any_part_of_a_tile_is_rounded_as_in_the_whole",
        "numerics.test_stochastic.test_words_of_different_streams_are_unrelated",
    ),
    "S7": (
        "the sum on the vendor's page (1024, to which 0.5 is added 2048 times, in float16) "
        "does not stop growing",
        "numerics.test_stochastic.test_long_sums_do_not_stagnate",
    ),
    "S8": (
        "if the option is off, everything is rounded to nearest; if it is on, results in "
        "float32 and integers are still rounded to nearest",
    ),
    "S9": ("the mean of bfloat16 sums in PSUM over many seeds is the float32 sum",),
}
TENSOR = {
    "T1": ("if no addition rounds, sums have the same bits in every format and mode",),
    "T2": ("with the option `chain`, products are added from row 0 to the last row",),
    "T3": ("the products of a tile are added and rounded first; then this sum is added to PSUM",),
    "T4": (
        "without `accumulate`, the first product that writes an element of PSUM overwrites it, "
        "and later products add to it. `accumulate=True` adds to the contents of PSUM; if these "
        "are uninitialized or from another engine, there is a finding",
    ),
    "T5": (
        "fused multiply-adds and separate operations give different bits only for float32 operands",
    ),
    "T6": (
        "from v3 on, transposes move bits (the SDK's guide to Trainium2); 8-bit elements may "
        "be written to a 16-bit format",
    ),
    "T7": (
        "on v2 a transpose is a product with an identity matrix (the SDK's guide to Trainium2), "
        "so NaN and infinities spread, and -0 becomes +0. The parameter is_transpose changes no "
        "result on v2 (nki.isa.nc_matmul)",
    ),
    "T8": (
        "the two operands of a product may both have 32-bit formats, or both narrower formats, "
        "except float8_e4m3fn with float8_e4m3",
    ),
    "T9": ("the mode `double_row` computes a product over 256 rows instead of 128",),
    "T10": ("float32 products, as a chain or in four passes, are as accurate as float32 allows",),
    "T11": ("sums in bfloat16 PSUM are rounded at every step",),
    "T12": ("subnormal operands are used, unless an option flushes them",),
    "T13": (
        "a sum with an uninitialized operand is NaN, even if the operand is multiplied by 0. "
        "Products with an identity matrix, and transposes on v2, are an exception: an "
        "uninitialized element makes only its copy NaN and no other element, because on a device "
        "its value is nearly always finite",
        "core.test_undefined.test_uninitialized_elements_stay_in_their_places",
        "core.test_undefined.test_a_nan_that_was_computed_spreads_where_the_array_multiplies",
        "core.test_undefined.test_a_sum_depends_on_all_its_terms",
    ),
}
VECTOR = {
    "V1": (
        "every operator gives the results of numpy for special values (NaN, infinities, "
        "zeros), with its operands in both orders",
    ),
    "V2": ("nothing is rounded between two operators",),
    "V3": (
        "bit operations have the bits of numpy; shifts are logical, and a shift by the width "
        "or more gives 0",
    ),
    "V4": ("a comparison gives 1 or 0 in every format",),
    "V5": ("32-bit integers are exact on the GpSimd engine, and computed in float32 elsewhere",),
    "V6": ("a scan gives the results of its loop in Python; its state is float32",),
    "V7": (
        "each step of a running reduction has the previous value as its left operand. Reduction "
        "commands reset, load or continue the reduction",
    ),
    "V8": (
        "an accumulator register keeps its value until an instruction that uses the register "
        "overwrites the value. A result may be written to the tile of an operand",
    ),
    "V9": (
        "searches such as max8 treat duplicates, NaN and missing values as documented",
        "core.test_options.test_nan_minmax_of_max8",
    ),
    "V10": ("mean and variance that are computed in pieces agree with float64",),
    "V11": ("iota takes patterns of four axes and negative steps, and wraps around at 32 bits",),
    "V12": (
        "range_select compares positions in float32; its fill value may overflow in narrow formats",
    ),
    "V13": ("shuffles within quadrants of 32 partitions also work in place",),
    "V14": (
        "dropout drops no element, all elements, or the share that the probability states, "
        "and does not scale the rest",
    ),
    "V15": (
        "activation functions are within 0.501 units in the last place and reproduce the "
        "published sine; inputs outside the range of the tables are reported",
        "clause.test_activations.test_results_are_the_nearest_float32_or_almost",
        "clause.test_activations.test_sin_of_9_has_the_published_value",
    ),
    "V16": ("the derivatives of activation functions match these functions",),
    "V17": (
        "gathers, bounds of sequences and positions of nonzero elements are those that numpy "
        "computes",
    ),
    "V18": (
        "operators that only the vendor's simulator has are refused, unless an option allows them",
    ),
}
MICROSCALING = {
    "X1": (
        "the first of several packed elements is in the lowest bits; the scales of a quadrant (32 "
        "rows) are in four of its rows",
    ),
    "X2": ("scales and elements are those of the vendor's reference, by both rules for scales",),
    "X3": ("zeros, the smallest scale and the largest scale are converted correctly",),
    "X4": ("numbers that were quantized before do not change if they are quantized again",),
    "X5": (
        "products agree with numpy's einsum; a NaN scale gives NaN, and scales that cancel do"
        " not overflow",
    ),
    "X6": ("71 of 72 published results of a device are the reference's results, rounded to even",),
}
RANDOM = {
    "R1": (
        "Philox and XORWOW reproduce published numbers",
        "isa.test_random.test_the_published_answers_of_philox",
        "numerics.test_stochastic.test_the_oracle_gives_the_published_answers",
    ),
    "R2": (
        "the same seed gives the same numbers, states can be saved and set, narrow integers "
        "are the low bits, and rand2 is uniform",
        "isa.test_random.test_numbers_depend_only_on_the_state",
        "isa.test_random_uniform.test_the_moments_of_rand2",
    ),
    "R3": (
        "each machine generation accepts the instructions of its documented generators, and "
        "refuses others",
    ),
}
OUTSIDE = {
    "Z1": (
        "nki-library's kernels, compared with its references and tolerances: "
        "`bench/conformance/nki_library.py`, results in [conformance](conformance.md)",
        "bench.conformance.tests.test_nki_library_runner.*",
    ),
}
SERIES = {
    "Conversions": CONVERSIONS,
    "Stochastic rounding": STOCHASTIC,
    "The Tensor engine": TENSOR,
    "The Vector, Scalar and GpSimd engines": VECTOR,
    "Microscaling": MICROSCALING,
    "Random numbers": RANDOM,
    "Third-party tests": OUTSIDE,
}

Names = dict[str, list[str]]  # tests of each module, as `isa.test_copy` for tests/isa/test_copy.py


@cache
def all_tests() -> Names:
    found: Names = {}
    paths = [(path, path.relative_to(TESTS)) for path in sorted(TESTS.rglob("test_*.py"))]
    paths += [(path, path.relative_to(DOCS.parent)) for path in sorted(RUNNERS.glob("test_*.py"))]
    for path, name in paths:
        tree = ast.parse(path.read_text())
        module = ".".join(name.with_suffix("").parts)
        found[module] = [
            node.name
            for node in tree.body
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
        ]
    return found


def tests_of(name: str, others: tuple[str, ...], tests: Names) -> Names:
    """Return the tests of a claim, by module. Raise LookupError for a test that does not exist."""
    found: Names = defaultdict(list)
    for module, functions in tests.items():
        found[module] += [f for f in functions if f.startswith(f"test_{name}_")]
    for other in others:
        module, _, function = other.rpartition(".")
        if module not in tests or (function != "*" and function not in tests[module]):
            raise LookupError(f"{name}: there is no test {other}")
        found[module].append(function)
    found = {module: functions for module, functions in found.items() if functions}
    if not found:
        raise LookupError(f"{name}: there is no test of it")
    return found


def series() -> Iterator[str]:
    tests = all_tests()
    for title, claims in SERIES.items():
        yield f"\n## {title}\n"
        yield "| | claim | tests |\n| --- | --- | --- |"
        for name, (claim, *others) in claims.items():
            cells = [
                f"`{module.replace('.', '/')}.py`: {', '.join(map(plain, functions))}"
                for module, functions in tests_of(name, tuple(others), tests).items()
            ]
            yield f"| {name} | {claim} | {'<br>'.join(cells)} |"


def plain(function: str) -> str:
    """Return the name of a test as words."""
    return re.sub(r"^test_([A-Z]\d+_)?", "", function).replace("_", " ").replace("*", "all")


def fields() -> Iterator[tuple[str, str, str, str]]:
    """Yield the name, type, default and docstring of each option."""
    tree = ast.parse(Path(options.__file__).read_text())
    (members,) = (node.body for node in tree.body if isinstance(node, ast.ClassDef))
    body = [node for node in members if not isinstance(node, ast.FunctionDef)]
    for field, said in zip(body[::2], body[1::2], strict=True):
        assert isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        assert isinstance(said, ast.Expr) and isinstance(said.value, ast.Constant)
        assert field.value is not None
        kind = ast.unparse(field.annotation).removeprefix("Literal")
        text = " ".join(str(said.value.value).split())
        yield field.target.id, kind.strip("[]"), ast.unparse(field.value), text


def choices() -> Iterator[str]:
    yield "\n## Options\n"
    yield (
        "In Python, `neuroncore.Options` has these options. A profile is a set of options: "
        "`neuroncore run --numerics NAME` selects one.\n"
    )
    yield "| profile | differs from the default in |\n| --- | --- |"
    rows = list(fields())
    for name, profile in PROFILES.items():
        changed = [
            f"`{field}={getattr(profile, field)!r}`"
            for field, *_ in rows
            if getattr(profile, field) != getattr(PROFILES["documented"], field)
        ]
        yield f"| {name} | {', '.join(changed) or '-'} |"
    for field, kind, default, text in rows:
        yield f"\n**`{field}`**: {kind.replace(chr(39), '`')}; default `{default}`. {text}"


def page() -> str:
    return "\n".join([HEAD.rstrip(), *series(), LEVELS, *choices()]) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
