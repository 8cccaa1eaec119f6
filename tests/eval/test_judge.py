"""The judge on records that are made in this process."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from candidates import HEAD, HONEST, LOOP, inputs, kernel, spec, times
from ml_dtypes import bfloat16

import neuroncore
from neuroncore.base.errors import UsageError
from neuroncore.base.options import Options
from neuroncore.eval import Spec, answers, child, comparison, examination, judge, rank
from neuroncore.eval.refusals import Refused


def answered(source, wanted, options=None):
    """Return the records of a candidate for a specification, or its error."""
    those = judge.cases(wanted)
    asked = wanted if options is None else replace(wanted, options=options)
    task = child.Task.of(asked, [case.public for case in those])
    with neuroncore.activated():
        content = bytes(answers.ISOLATION.size) + child.answer(source, task, ())
    return judge.judged(answers.records(content), wanted, those)


def code(source, **changed):
    found = answered(source, spec(**changed))
    return found["error"] and found["error"]["code"]


def test_the_documented_candidate_passes_the_documented_specification():
    page = Path(__file__).parents[2] / "docs" / "eval.md"
    source, candidate, *_ = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    names = {}
    exec(source, names)
    found = answered(candidate, replace(names["SPEC"], secret=1))
    assert found["passed"] and len(found["shapes"]) == 2, found["error"]


def test_limits_of_a_specification_are_enforced():
    product = kernel(
        """
n = a.shape[1]
p = nl.ndarray((n, n), nl.float32, buffer=nl.psum)
x = nl.ndarray((128, n), nl.bfloat16, buffer=nl.sbuf)
nisa.tensor_copy(dst=x, src=load(a[0:128]))
nisa.nc_matmul(dst=p, stationary=x, moving=x)
return sums(a, b)"""
    )
    assert code(product) == "NARROW"
    assert code(product, narrow=("float32", "bfloat16")) is None
    halves = spec(adapt=lambda given: [one.astype(bfloat16) for one in given])
    assert answered(product, halves)["error"]["code"] == "WRONG_DTYPE"  # the limit of results
    constant = kernel("nl.shared_constant(np.ones((128, 64), np.float32))\nreturn sums(a, b)")
    assert code(constant) is None
    assert code(HONEST, target="trn3") is None
    assert code(HONEST, target="gen3") is None  # an alias of trn2
    assert code(HONEST, order="compiled") == "WRONG_ORDER"
    assert code(HONEST, cores=2) == "WRONG_CORES"


def test_a_loop_on_the_device_is_refused_unless_the_specification_allows_it():
    assert answered(LOOP, times())["error"]["code"] == "DYNAMIC"


def older(count, columns, at_once):
    """Return the sum of `count` tiles of ones in SBUF. All tiles are made first; with `at_once`,
    the last instruction has two of them as operands."""
    return f"""
import neuronxcc.nki as nki, neuronxcc.nki.language as nl, numpy as np

@nki.jit
def kernel(a, b):
    out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
    kept = [nl.ndarray((128, {columns}), np.float32, buffer=nl.sbuf) for _ in range({count})]
    for n, one in enumerate(kept):
        one[...] = nl.full((128, {columns}), n, np.float32)
    total = nl.load(a[0:128])
    for one in kept:
        total[...] = nl.add(total, one[:, 0:64])
    if {at_once}:
        kept[0][...] = nl.add(kept[0], kept[1])
    total[...] = nl.add(total, kept[0][:, 0:64])
    nl.store(out, total)
    return out"""


@pytest.mark.parametrize(
    ("count", "columns", "at_once", "refused"),
    [(2, 4096, True, None), (8, 12000, False, None), (2, 30000, True, "CAPACITY")],
)
def test_tiles_that_do_not_fit_are_spilled_one_by_one(count, columns, at_once, refused):
    def reference(a, b):
        first = 1 if at_once else 0
        return a + np.float32(sum(range(count)) + first)

    wanted = spec(order="compiled", shapes=[(128, 64)], hidden_shapes=(), seeds=1)
    made = answered(older(count, columns, at_once), replace(wanted, reference=reference))
    assert (made["error"] and made["error"]["code"]) == refused, made["error"]
    if refused is None:
        found = made["shapes"][0]
        assert ("CAPACITY" in found["findings"]) == (found["summary"]["spill_save_bytes"] > 0)


@pytest.mark.parametrize(
    ("atol", "error"), [(1.0, None), (0.5, "WRONG_RESULT")]
)  # one element has an error below 1, which is small relative to the largest element
def test_elements_may_be_as_far_from_the_reference_as_numpy_allclose_lets_them(atol, error):
    def reference(a, b):
        made = 2 * a + b
        made[0, 0] += 0.75
        return made

    wanted = spec(tol=0.1, largest_error=0.0, allclose=(0.0, atol))
    made = answered(HONEST, replace(wanted, reference=reference))["error"]
    assert (made and made["code"]) == error, made
    if made:
        assert "elements differ by more than 0.5 + 0 * |reference|" in made["message"]


def test_constants_that_take_part_are_counted():
    source = kernel(
        """
out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
nisa.dma_copy(dst=out, src=nl.shared_constant(np.zeros(a.shape, np.float32)))
return sums(a, b)"""
    )
    assert code(source, constants=100) == "CONSTANTS"
    assert code(source) is None


def test_a_simulated_operator_is_refused():
    source = kernel(
        """
x = load(a[0:128])
nisa.tensor_tensor(dst=x, data1=x, data2=x, op=nl.divide)
return sums(a, b)"""
    )
    found = answered(source, spec(), Options(simulator_operators=True))
    assert found["error"]["code"] in ("NO_SUCH_OPERATOR", "RECORD_REFUSED")


def test_families_apply_only_to_hidden_inputs():
    wanted = spec(families=("usual", "large", "constant"), seeds=3)
    public, *_ = judge.cases(wanted)
    assert np.array_equal(public.public[0], inputs(0, (128, 64))[0])
    usual, large, constant = (one.arguments[0] for one in public.hidden)
    assert np.abs(large).max() > 20 * np.abs(usual).max()
    assert np.ptp(constant) == 0


def test_hidden_seeds_are_drawn():
    public = spec(secret=None)
    with pytest.raises(UsageError, match="need a secret"):
        public.hidden_seeds((128, 64))
    drawn, other = public.with_secret(), public.with_secret()
    assert drawn.hidden_seeds((128, 64)) != other.hidden_seeds((128, 64))
    assert drawn.with_secret() == drawn
    assert public.fingerprint() != spec(secret=5).fingerprint() != spec(secret=6).fingerprint()


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        (lambda a, b: a / 0 + b, "gives NaN or infinity"),
        (lambda a, b: 1.0, "returns float, not an array"),
        (lambda a: a, "fails: TypeError"),
    ],
)
@pytest.mark.filterwarnings("ignore:divide by zero")
def test_an_invalid_reference_is_refused(reference, said):
    with pytest.raises(UsageError, match=said):
        judge.cases(Spec(reference, inputs, [(128, 8)], name="axpb", secret=0))


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"shapes": []}, "at least one shape"),
        ({"seeds": 0}, "one hidden seed or more"),
        ({"families": ("huge",)}, "there is no family 'huge'; families are usual, large"),
        ({"tol": -1.0}, "must be 0 or more"),
    ],
)
def test_an_impossible_specification_is_refused(changed, said):
    with pytest.raises(UsageError, match=said):
        spec(**changed)


def test_results_of_another_shape_or_format_are_refused():
    want = np.ones((2, 3), np.float32)
    for got, expected in (
        (np.ones((3, 2), np.float32), "WRONG_RESULT"),
        (np.ones((2, 3), np.float16), "WRONG_DTYPE"),
        (3.0, "WRONG_RESULT"),
        ((want, want), "WRONG_RESULT"),
    ):
        with pytest.raises(Refused) as refused:
            comparison.errors(got, spec(), [want])
        assert refused.value.code == expected


def test_a_reference_may_have_formats_of_8_bytes():
    want = np.array([[3, 4]])
    comparison.errors(want.astype(np.int32), spec(), [want])
    with pytest.raises(Refused, match="int16"):
        comparison.errors(want.astype(np.int16), spec(), [want])


def test_a_result_may_be_a_part_of_a_tensor():
    part = kernel("out = sums(a, b)\nreturn out[:, 0:16]")
    wanted = Spec(lambda a, b: (2 * a + b)[:, :16], inputs, [(128, 64)], tol=1e-6, secret=0)
    assert answered(part, wanted)["passed"]


def test_ranking_reports_candidates_that_cannot_be_distinguished():
    def verdict(name, latency, passed=True):
        shape = {"latency_us": latency, "busy_ns": {"Vector": 1000 * latency}}
        return {"candidate": name, "passed": passed, "latency_us": latency, "shapes": [shape]}

    found = rank(
        [verdict("c", 30.0), verdict("a", 10.0), verdict("b", 10.01), verdict("x", 1, False)]
    )
    assert [(one["place"], one["candidate"]) for one in found] == [(1, "a"), (1, "b"), (3, "c")]
    assert found[1]["faster"] > 0.8 > found[0]["faster"] and found[2]["faster"] is None


REGISTERS = f"""{HEAD}
@nki.jit
def kernel(x, n):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    t, c = load(x[0:64]), load(n)
    r = nisa.register_alloc()
    nisa.register_load(r, c)
    for _ in nl.dynamic_range(r):
        nisa.dma_copy(dst=t, src=x[nl.ds(r, 64), :])
    nisa.dma_copy(dst=out[0:64], src=t)
    nisa.dma_copy(dst=out[64:128], src=t)
    return out
"""


@pytest.mark.parametrize("dropped", [None, "_edges", "_decisions"])
def test_a_record_waits_for_its_registers(dropped):
    with neuroncore.activated():
        names = {}
        exec(
            compile(REGISTERS, "k.py", "exec"),
            names,
        )
        given = np.ones((128, 4), np.float32), np.array([[3]], np.int32)
        (program,) = neuroncore.run(names["kernel"], *given).record.programs
    if dropped is not None:
        kept = getattr(program, dropped)
        assert len(kept)
        del kept[:]
    assert examination.waits_for_registers(program) is (dropped is None)
