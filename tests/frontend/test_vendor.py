"""Packages that only the vendor ships are imported from a checkout, or can be imported and are
refused when called."""

import importlib
import importlib.util
import sys
from functools import partial
from typing import Any

import numpy as np
import pytest
from every import for_all

import neuroncore
from neuroncore.base.errors import NotEmulated, UsageError

X = np.ones((2, 3), np.float32)

DOUBLED = """
import neuronxcc.nki as nki
import neuronxcc.nki.language as nl

@nki.jit
def {name}(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.multiply(nl.load(x), 2.0))
    return out
"""
TRIPLED = """
import nki
import nki.language as nl

@nki.jit
def tripled(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.multiply(nl.load(x), 3.0))
    return out
"""


def again():
    """Remove all imported modules, and make `import nki` neuroncore's, as in all tests."""
    neuroncore.deactivate()
    neuroncore.activate()


@pytest.fixture(autouse=True)
def active(monkeypatch):
    for name in ("NEURONCORE_WITH", "NEURONCORE_NKILIB", "NEURONCORE_NKI_SAMPLES"):
        monkeypatch.delenv(name, raising=False)
    again()
    yield
    again()
    assert not [name for name in sys.modules if name.partition(".")[0] == "nkilib"]


def written(folder, **files):
    """Write the files of a package, by their names without .py."""
    folder.mkdir(parents=True)
    for name, text in {"__init__": "", **files}.items():
        (folder / f"{name}.py").write_text(text)
    return folder


@pytest.fixture
def samples(tmp_path, monkeypatch):
    kernels = {"attention": DOUBLED.format(name="flash_fwd"), "vision": "x = 1\n"}
    written(tmp_path / "samples/src/nki_samples/reference", **kernels)
    monkeypatch.setenv("NEURONCORE_NKI_SAMPLES", str(tmp_path / "samples"))
    return tmp_path / "samples"


@pytest.fixture
def library(tmp_path):
    written(tmp_path / "library/src/nkilib_src/nkilib")
    written(tmp_path / "library/src/nkilib_src/nkilib/core", triple=TRIPLED)
    return tmp_path / "library"


def home(module):
    return importlib.import_module(module).__file__


def refused(call, *parts):
    """Assert that a use of a missing object is refused at this file's line with these words."""
    with pytest.raises(NotEmulated) as caught:
        call()
    said = str(caught.value)
    assert f"{__file__}:" in said.partition("\n")[0] and "neuroncore.frontend" not in said
    assert all(part in said for part in parts), said


# --- names that are not available -----------------------------------------------------------------


@for_all(
    "module",
    [
        *("neuronxcc.nki._private_kernels.mlp", "neuronxcc.nki._pre_prod_kernels.a.b.c"),
        *("neuronxcc.nki._pre_prod_nkl", "neuronxcc.nki._private.private_api"),
        *("neuronxcc.nki.kernels.attention", "neuronxcc.nki.compiler.backends.neuron"),
        *("neuronxcc.starfish.penguin.ir.ir", "neuronxcc.starfish.support.nothing"),
        *("neuronxcc.nki.collectives", "nki.compiler.kernel_builder"),
        "neuronxcc.nki.distributed.collectives",
        *("nki.compiler._internal._mlir_libs", "nki.framework.torch_xla", "nkilib.core.qkv.qkv"),
    ],
)
def test_a_module_of_the_vendor_has_every_name_and_refuses_calls(module):
    assert importlib.util.find_spec(module) is not None
    imported = importlib.import_module(module)
    assert imported.__name__ == module and "neuroncore" not in repr(imported)
    kernel = imported.any_kernel
    assert imported.any_kernel is kernel
    refused(lambda: kernel(X), f"{module}.any_kernel is not part of neuroncore", "because")
    refused(lambda: kernel[2, 4](X, config=None), f"{module}.any_kernel is not part of neuroncore")


def test_modules_import_as_attributes_too():
    from neuronxcc.nki import _private_kernels, kernels
    from neuronxcc.starfish import penguin

    refused(lambda: _private_kernels.mlp.mlp_isa_kernel(X), "_private_kernels.mlp.mlp_isa_kernel")
    refused(lambda: kernels.attention.flash_fwd(X), "kernels.attention.flash_fwd")
    refused(lambda: penguin.ir(), "neuronxcc.starfish.penguin.ir")


def test_names_that_a_module_of_neuroncore_lacks_are_refused_too():
    from neuronxcc.starfish.support.dtype import as_native_type, bfloat16

    assert np.dtype(bfloat16).itemsize == 2
    refused(lambda: as_native_type(X), "neuronxcc.starfish.support.dtype.as_native_type")


def test_a_missing_kernel_can_be_decorated():
    import neuronxcc.nki as older
    import nki
    from neuronxcc.nki._private_kernels.attention import attention_isa_kernel
    from neuronxcc.nki.language import nc
    from nkilib.core.qkv.qkv import qkv
    from torch_neuronx.xla_impl.ops import nki_jit

    for decorated in (
        older.jit()(attention_isa_kernel),
        older.jit(attention_isa_kernel, mode="torchxla"),
        older.trace(attention_isa_kernel),
        older.baremetal(attention_isa_kernel),
        older.benchmark(warmup=1)(attention_isa_kernel),
        partial(older.simulate_kernel, attention_isa_kernel),
        nki_jit()(attention_isa_kernel),
        nki_jit(attention_isa_kernel)[(nc(2),)],
    ):
        refused(
            lambda made=decorated: made(X),
            "attention_isa_kernel is not part of neuroncore",
            "not public",
        )
    for decorated in (nki.jit(qkv), nki.jit(platform_target="trn2")(qkv), nki.jit(qkv)[2]):
        refused(lambda made=decorated: made(X), "nkilib.core.qkv.qkv.qkv", "--with nkilib=")


def test_a_function_with_a_missing_decorator_is_refused_when_called():
    from neuronxcc.nki._private.private_api import traced

    @traced
    def function(x):
        return x

    refused(
        lambda: function(X), "neuronxcc.nki._private.private_api.traced is not part of neuroncore"
    )
    refused(lambda: traced(function, 2), "private_api.traced is not part of neuroncore")


def test_other_kernels_of_the_file_run():
    import neuronxcc.nki as nki
    import neuronxcc.nki.language as nl
    from neuronxcc.nki._private_kernels.mlp import mlp_isa_kernel

    @nki.jit
    def doubled(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.multiply(nl.load(x), 2.0))
        return out

    @nki.jit
    def calling(x):
        return mlp_isa_kernel(x)

    assert (doubled(X) == 2).all()
    refused(lambda: calling(X), "mlp_isa_kernel is not part of neuroncore")
    assert (doubled(X) == 2).all()


def test_classes_are_enumerations_bases_annotations_and_defaults():
    from neuronxcc.nki._pre_prod_kernels import ActFnType, NormType
    from neuronxcc.nki._pre_prod_kernels.blockwise_mm import SkipMode

    table = {ActFnType.SiLU: 1, ActFnType.GELU: 2, NormType.SiLU: 3}
    assert table[ActFnType.SiLU] == 1 and len(table) == 3
    assert ActFnType.SiLU is ActFnType.SiLU and ActFnType.SiLU != ActFnType.GELU
    assert not isinstance(3, NormType) and not issubclass(int, NormType)
    assert getattr(NormType, "__members__", None) is None

    class Mine(NormType):
        def __init__(self, x):
            super().__init__(x)

    def function(skip: Any = SkipMode(False, False), kind: list[NormType] = []):  # noqa: B006, B008
        return skip

    assert isinstance(function(), SkipMode) and isinstance(Mine(1), NormType)
    refused(
        lambda: function().skip_token, "blockwise_mm.SkipMode.skip_token is not part of neuroncore"
    )
    refused(lambda: Mine(1).norm, "_pre_prod_kernels.NormType.norm is not part of neuroncore")
    refused(lambda: Mine(1)(X), "_pre_prod_kernels.NormType is not part of neuroncore")
    refused(lambda: SkipMode(1) * 2, "SkipMode")
    refused(lambda: list(NormType), "NormType")


def test_names_that_the_api_has_elsewhere_are_aliases():
    from neuronxcc.nki.compiler.backends.neuron.dimensions import VNC
    from neuronxcc.nki.language import nc
    from neuronxcc.starfish.penguin.targets.nki.private_api import vnc

    assert vnc is nc and VNC is nc


def test_names_of_other_packages_mean_what_neuroncore_has():
    import libtorch_neuronx_lite
    import neuron_dtypes
    import nki.language as nl
    from libtorch_neuronx_lite.nki.nki_hop import wrap_nki
    from torch_neuronx.nki_hop import wrap_nki as usual

    assert wrap_nki is usual
    third = neuron_dtypes.static_cast(X / 3, nl.bfloat16)
    assert third.dtype == nl.bfloat16 and third.shape == X.shape
    refused(lambda: libtorch_neuronx_lite.compiled(X), "neuroncore's replacement has only")
    refused(lambda: neuron_dtypes.finfo(nl.bfloat16), "neuron_dtypes.finfo is not part")


def test_the_target_of_the_compiler_is_the_machine_of_the_launch():
    import nki.compiler.target as target

    with neuroncore.settings(target="trn3"):
        assert target.resolve_target() == target._detect_target() == "trn3"
    refused(
        lambda: target.list_targets(), "nki.compiler.target.list_targets is not part of neuroncore"
    )


def test_refusals_name_the_public_alternative():
    import neuronxcc.nki.kernels as kernels
    import nkilib.core.mlp.mlp as mlp

    clone = "git clone https://github.com/aws-neuron/nki-samples && git -C nki-samples checkout"
    refused(lambda: kernels.flash_fwd(X), clone, "neuroncore run --with nki-samples=nki-samples")
    refused(lambda: kernels.attention.flash_attn_bwd[1, 2](X), "NEURONCORE_NKI_SAMPLES=nki-samples")
    refused(lambda: kernels.rmsnorm_quant.rmsnorm_quant.any_kernel(X), clone)
    refused(lambda: kernels.attention.attention_isa_kernel(X), "whose source is not public")
    refused(lambda: kernels.cumsum.cumsum(X), "whose source is not public")
    refused(lambda: mlp.mlp(X), "git clone https://github.com/aws-neuron/nki-library;")


# --- names that are wrong -------------------------------------------------------------------------


@for_all(
    "line, said",
    [
        ("from nki.isa import tensor_scaler", "'tensor_scaler' from 'nki.isa'; did you mean"),
        ("from nki import nothing", "cannot import name 'nothing' from 'nki'"),
        ("from nki.typing import nothing", "cannot import name 'nothing' from 'nki.typing'"),
        ("from nki.compiler import nothing", "cannot import name 'nothing' from 'nki.compiler'"),
        ("from neuronxcc import nothing", "cannot import name 'nothing' from 'neuronxcc'"),
        ("from neuronxcc.nki import nothing", "cannot import name 'nothing' from 'neuronxcc.nki'"),
        ("import nki.nothing", "No module named 'nki.nothing'"),
        ("import neuronxcc.nothing.x", "No module named 'neuronxcc.nothing'"),
        ("import nki; nki.nothing", "nki has no 'nothing'"),
        ("import neuronxcc.nki; neuronxcc.nki.nothing", "neuronxcc.nki has no 'nothing'"),
        ("import nki.typing; nki.typing.nothing", "nki.typing has no 'nothing'"),
        ("import neuronxcc; neuronxcc.nothing", "neuronxcc has no 'nothing'"),
    ],
)
def test_names_that_do_not_exist_are_reported_by_the_users_import_path(line, said):
    with pytest.raises((ImportError, AttributeError)) as caught:
        exec(line, {})
    assert said in str(caught.value) and "neuroncore" not in str(caught.value)
    assert "neuroncore" not in str(caught.value.name)


# --- checkouts ------------------------------------------------------------------------------------


def test_kernels_are_imported_from_a_checkout_of_nki_samples(samples):
    from neuronxcc.nki import kernels
    from neuronxcc.nki.kernels import flash_fwd
    from neuronxcc.nki.kernels.attention import attention_isa_kernel
    from neuronxcc.nki.kernels.attention import flash_fwd as same
    from neuronxcc.nki.kernels.cumsum import cumsum
    from neuronxcc.nki.kernels.vision import x

    assert flash_fwd is same is kernels.attention.flash_fwd and x == 1
    assert (flash_fwd(X) == 2).all()
    assert kernels.__file__ == str(samples / "src/nki_samples/reference/__init__.py")
    refused(lambda: attention_isa_kernel(X), "attention_isa_kernel", "whose source is not public")
    refused(lambda: cumsum(X), "neuronxcc.nki.kernels.cumsum.cumsum", "not public")


def test_the_folder_may_be_the_checkout_a_parent_or_a_subfolder(samples, monkeypatch):
    kernels = str(samples / "src/nki_samples/reference/__init__.py")
    for inner in ("", "src", "src/nki_samples", "src/nki_samples/reference"):
        monkeypatch.setenv("NEURONCORE_NKI_SAMPLES", str(samples / inner))
        again()
        assert hasattr(importlib.import_module("neuronxcc.nki.kernels.attention"), "flash_fwd")
        assert home("neuronxcc.nki.kernels") == kernels
    (samples / "test").mkdir()
    monkeypatch.setenv("NEURONCORE_NKI_SAMPLES", str(samples / "test"))
    again()
    assert home("neuronxcc.nki.kernels") == kernels


def test_deactivation_removes_a_checkout(samples, monkeypatch):
    from neuronxcc.nki import kernels

    monkeypatch.delenv("NEURONCORE_NKI_SAMPLES")
    again()
    from neuronxcc.nki import kernels as others

    assert others is not kernels
    refused(
        lambda: others.flash_fwd(X), "neuronxcc.nki.kernels.flash_fwd is not part of neuroncore"
    )


def test_nkilib_is_imported_from_a_checkout_of_nki_library(library, monkeypatch):
    monkeypatch.setenv("NEURONCORE_NKILIB", str(library))
    from nkilib.core.triple import tripled

    assert (tripled(X) == 3).all()
    with pytest.raises(ImportError, match="cannot import name 'nothing'"):
        from nkilib.core.triple import nothing  # noqa: F401
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'nkilib\.core\.nothing'"):
        importlib.import_module("nkilib.core.nothing")


def test_an_installed_nkilib_takes_precedence_over_the_variable_but_not_over_with(
    library, tmp_path, monkeypatch, capsys
):
    monkeypatch.syspath_prepend(tmp_path / "site")
    written(tmp_path / "site/nkilib", theirs="")
    importlib.invalidate_caches()
    assert importlib.import_module("nkilib.theirs")
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("nkilib.core")
    forget("nkilib")
    assert not capsys.readouterr().err
    monkeypatch.setenv("NEURONCORE_NKILIB", str(library))
    assert importlib.import_module("nkilib.theirs")
    assert f"not the checkout of NEURONCORE_NKILIB={library}" in capsys.readouterr().err
    forget("nkilib")
    monkeypatch.setenv("NEURONCORE_WITH", f"nkilib={library}")
    assert importlib.import_module("nkilib.core.triple")
    assert not capsys.readouterr().err


def forget(root):
    for name in [n for n in sys.modules if n.partition(".")[0] == root]:
        del sys.modules[name]


def test_a_wrong_folder_is_refused_with_the_expected_files_and_a_guess(
    samples, library, tmp_path, monkeypatch
):
    (tmp_path / "empty").mkdir()
    written(tmp_path / "later/src/nki_samples/tutorials")
    written(tmp_path / "other", one="", two="")
    for folder, said in (
        (tmp_path / "nowhere", "there is no such folder"),
        (tmp_path / "other/one.py", "a file"),
        (tmp_path / "empty", "an empty folder"),
        (tmp_path / "other", "a folder with __init__.py, one.py, two.py"),
        (library, "what seems to be a checkout of https://github.com/aws-neuron/nki-library"),
        (tmp_path / "later", f"git -C {tmp_path / 'later'} checkout"),
    ):
        monkeypatch.setenv("NEURONCORE_NKI_SAMPLES", str(folder))
        with pytest.raises(UsageError) as caught:
            importlib.import_module("neuronxcc.nki.kernels.attention")
        lines = str(caught.value).splitlines()
        assert lines[0] == f"NEURONCORE_NKI_SAMPLES={folder}"
        assert "src/nki_samples/reference" in lines[1] and any(said in line for line in lines)
    importlib.import_module("neuronxcc.nki._private_kernels")  # others need no checkout
