"""Settings from the environment and the command line, and their precedence."""

import json

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

import neuroncore
from neuroncore.base.errors import UsageError
from neuroncore.base.options import Options
from neuroncore.cli import main
from neuroncore.frontend.launch import launch
from neuroncore.frontend.nki.tensor import NkiTensor
from neuroncore.frontend.settings import settings

X = np.full((128, 512), 1 + 2.0**-9, np.float32)  # a quarter of a step above 1 in bfloat16


@nki.jit
def narrowed(x):
    """Return x in bfloat16."""
    out = nl.ndarray(x.shape, nl.bfloat16, buffer=nl.shared_hbm)
    nisa.dma_copy(out, x)
    return out


def under(seed):
    with settings(options=options(seed)):
        return narrowed(X)


def options(seed):
    return Options(stochastic=True, stochastic_seed=seed)


# --- the variables --------------------------------------------------------------------------------

ON, SEEDED = "NEURON_RT_STOCHASTIC_ROUNDING_EN", "NEURON_RT_STOCHASTIC_ROUNDING_SEED"


@pytest.mark.parametrize("value", ["1", "true", "True"])
def test_environment_variables_turn_on_stochastic_rounding(value, monkeypatch):
    monkeypatch.setenv(ON, value)
    assert narrowed(X).tobytes() == under(0).tobytes()
    monkeypatch.setenv(SEEDED, "4294967295")
    assert narrowed(X).tobytes() == under(2**32 - 1).tobytes()


@pytest.mark.parametrize("value", [None, "", "0", "false"])
def test_S8_without_stochastic_rounding_everything_is_rounded_to_nearest_even(value, monkeypatch):
    if value is not None:
        monkeypatch.setenv(ON, value)
    monkeypatch.setenv(SEEDED, "7")
    x = np.random.default_rng(0).standard_normal(X.shape).astype(np.float32)
    assert (narrowed(x) == x.astype("bfloat16")).all()


@pytest.mark.parametrize("value", ["2", "yes", "-1", " 1", "on"])
@pytest.mark.parametrize("variable", [ON, "NKI_PRECISE_FP"])
def test_a_switch_must_be_on_or_off(variable, value, monkeypatch):
    monkeypatch.setenv(variable, value)
    with pytest.raises(UsageError, match=f"{variable} is '{value}'; it must be 0 or 1"):
        narrowed(X)


@pytest.mark.parametrize("value", ["", "x", "-1", "1.5", "4294967296", "0x10", "²"])
def test_a_seed_must_be_a_number_of_32_bits(value, monkeypatch):
    monkeypatch.setenv(ON, "1")
    monkeypatch.setenv(SEEDED, value)
    if not value:
        assert narrowed(X).tobytes() == under(0).tobytes()
        return
    with pytest.raises(UsageError, match=rf"{SEEDED} is '{value}'.*2\^32 - 1"):
        narrowed(X)


def test_options_of_a_launch_take_precedence_over_variables(monkeypatch):
    monkeypatch.setenv(ON, "1")
    monkeypatch.setenv(SEEDED, "3")
    got = launch(narrowed.function, (X,), tensor=NkiTensor, options=options(8)).outputs
    assert got.tobytes() == under(8).tobytes()
    plain = launch(narrowed.function, (X,), tensor=NkiTensor, options=Options()).outputs
    assert (plain == 1).all()


# --- the command line -----------------------------------------------------------------------------

FILE = """
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np

@nki.jit
def narrowed(x):
    out = nl.ndarray(x.shape, nl.bfloat16, buffer=nl.shared_hbm)
    nisa.dma_copy(out, x)
    return out

def inputs(rng):
    return [rng.standard_normal((64, 64)).astype(np.float32)]

def reference(x):
    return x
"""


@pytest.fixture
def error(tmp_path, monkeypatch, capsys):
    """The relative L2 error that `neuroncore run` reports, with these options."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(FILE)

    def found(*words):
        main(["run", "mine.py::narrowed", "--json", "--tol", "1", *words])
        (launch,) = json.loads(capsys.readouterr().out)["launches"]
        return launch["results"][0]["rel_l2"]

    return found


def test_a_profile_can_be_chosen_by_name(error):
    assert error("--numerics", "ideal") == 0
    assert 1e-3 < error() == error("--numerics", "documented") == error("--numerics", "vendor-sim")


def test_a_profile_takes_precedence_over_the_environment(error, monkeypatch):
    monkeypatch.setenv("NKI_PRECISE_FP", "0")
    assert error() == 0 < error("--numerics", "documented")


def test_a_seed_turns_stochastic_rounding_on(error, monkeypatch):
    nearest = error()
    first, again, other = (error("--stochastic-rounding", seed) for seed in "773")
    assert first == again != other and nearest < first < 2 * nearest
    monkeypatch.setenv(ON, "1")
    monkeypatch.setenv(SEEDED, "7")
    assert error() == first and error("--stochastic-rounding", "3") == other
    assert error("--numerics", "documented") == nearest


@pytest.mark.parametrize("wrong, word", [("idael", "ideal"), ("nonsense", "documented")])
def test_an_unknown_profile_is_refused(error, capsys, wrong, word):
    assert main(["run", "mine.py::narrowed", "--numerics", wrong]) == 2
    assert wrong in (said := capsys.readouterr().err) and word in said


def test_an_invalid_variable_is_refused(error, capsys, monkeypatch):
    monkeypatch.setenv(ON, "maybe")
    assert main(["run", "mine.py::narrowed"]) == 2
    assert ON in capsys.readouterr().err


@nki.jit
def unwritten(x):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(out, nl.ndarray(x.shape, x.dtype))
    return out


def test_the_option_in_the_warning_about_uninitialized_memory_exists():
    with pytest.warns(match=r'Options\(uninitialized="zeros"\)'):
        assert np.isnan(unwritten(X)).all()
    chosen = neuroncore.Options(uninitialized="zeros")
    with neuroncore.settings(options=chosen), pytest.warns(match="here they read as 0"):
        assert (unwritten(X) == 0).all()
