"""`import torch_xla` imports neuroncore's stand-in while it is active, unless the package is
installed."""

import subprocess
import sys

import pytest

from neuroncore.frontend.alias import PATH

NAMES = ("jax_neuronx", "torch_neuronx", "torch_xla")
ACTIVE = "import neuroncore; neuroncore.activate()\n"
NO_TORCH = "import sys; sys.modules['torch'] = sys.modules['jax'] = None\n"


def python(code, folder, *paths, status=0):
    """Run code in a folder, with some folders on PYTHONPATH, and return its output."""
    environment = {"PYTHONPATH": ":".join(map(str, paths)), "JAX_PLATFORMS": "cpu", "PATH": ""}
    command = [sys.executable, "-P", "-c", code]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == status, done.stdout + done.stderr
    return done


def test_without_activation_stand_ins_do_not_exist(tmp_path):
    code = f"""
import importlib.util, neuroncore
assert not any(map(importlib.util.find_spec, {NAMES}))
"""
    python(code, tmp_path)


@pytest.mark.parametrize("before, paths", [(ACTIVE, ()), ("", (PATH,))], ids=["active", "path"])
def test_stand_ins_import_without_torch_and_jax(before, paths, tmp_path):
    code = f"""
import importlib
for name in {NAMES}:
    assert importlib.import_module(name).__name__ == f"neuroncore.hosts.{{name}}"
"""
    assert python(NO_TORCH + before + code, tmp_path, *paths).stderr == ""


def test_submodules_are_the_same_by_every_import_and_removed_by_deactivation(tmp_path):
    code = """
import torch_xla.core.xla_model as xm
from torch_xla.core import xla_model
from torch_xla import runtime
import torch_xla, torch_xla.runtime as xr, torch_neuronx, torch_neuronx.xla_impl.ops as ops
assert torch_xla.core.xla_model is xm is xla_model and runtime is xr
assert torch_neuronx.nki_jit is ops.nki_jit
assert torch_neuronx.trace(abs, -1)(-1) == 1  # a traced function is the function
neuroncore.deactivate()
assert not [name for name in sys.modules if name.startswith("torch_xla")]
"""
    python(ACTIVE + NO_TORCH + code, tmp_path)


@pytest.mark.parametrize("before", [ACTIVE, ""], ids=["active", "path"])
@pytest.mark.parametrize("kind", ["module", "package"])
def test_an_installed_package_takes_precedence_and_is_reported_once(kind, before, tmp_path):
    home = tmp_path / ("torch_xla.py" if kind == "module" else "torch_xla/__init__.py")
    home.parent.mkdir(exist_ok=True)
    home.write_text("theirs = True\n")
    code = "import torch_xla, torch_xla\nassert torch_xla.theirs\n"
    if kind == "package":
        (home.parent / "core.py").write_text("theirs = True\n")
        code += "import torch_xla.core\nassert torch_xla.core.theirs\n"
    code += "import neuroncore; neuroncore.deactivate(); import sys\n"
    code += "assert sys.modules['torch_xla'] is torch_xla\n"
    said = python(before + code, tmp_path, PATH, tmp_path).stderr
    assert said == f"neuroncore: using the installed torch_xla ({home}), not the stand-in\n"


def test_a_folder_of_that_name_is_not_an_installed_package(tmp_path):
    (tmp_path / "torch_xla").mkdir()
    (tmp_path / "torch_xla" / "notes.txt").write_text("")
    code = "import torch_xla; assert torch_xla.device_count() == 1"
    assert python(NO_TORCH + ACTIVE + code, tmp_path, tmp_path).stderr == ""


def test_a_request_for_a_device_names_the_package_to_install(tmp_path):
    code = "import torch_xla; torch_xla.device()"
    said = python(NO_TORCH + ACTIVE + code, tmp_path, status=1).stderr
    assert "UsageError: torch_xla's device needs torch" in said
    assert "pip install 'neuroncore[torch]'" in said


def test_all_names_of_the_device_mean_xla(tmp_path):
    pytest.importorskip("torch")
    code = """
import torch, torch_xla, torch_xla.core.xla_model as xm
assert torch_xla.device() == xm.xla_device() == torch.device("xla:0")
current = torch.neuron.current_device()
assert current == 0 and torch.neuron.device_count() == 1 and torch.neuron.is_available()
assert torch.device(current) == torch.device("neuron", current) == xm.xla_device()
for name in ("xla", "xla:1", "neuron", "neuron:3", "privateuseone:0", current):
    made = torch.zeros(2, device=name)
    kinds = torch.ones(2).to(name), torch.ones(2).to(device=name)
    moved = [*kinds, torch.ones(2).to(torch.device(name))]
    layer, other = torch.nn.Linear(2, 2).to(name), torch.nn.Linear(2, 2).to(device=name)
    kinds = {one.device.type for one in (made, *moved, layer.weight, other.weight)}
    assert kinds == {"xla"}, name
    assert layer(made).is_xla and not layer(made).is_cpu
torch.neuron.set_device(current), torch.neuron.synchronize()
assert torch.zeros(2, device="meta").device.type == "meta"
def script(model: torch.classes.neuron.SPMDModel):
    return model
xm.set_rng_state(3)
assert xm.get_rng_state() == 3
"""
    python(ACTIVE + code, tmp_path)


FIRST_USES = (
    'x = torch.ones(2, 3).to(torch.device("neuron"))',
    'x = torch.ones(2, 3).to("neuron")',
    'x = torch.ones(2, 3, device="neuron")',
    'compiled = torch.compile(torch.neg, backend="neuron"); x = torch.ones(2, 3, device="neuron")',
)
ALONE = """
assert x.device.type == "xla" and torch.neuron.device_count() == 1
import nki, nki.isa as nisa, nki.language as nl
@nki.jit
def copied(x):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(out, x)
    return out
assert copied(x).is_xla and not copied(x.cpu()).is_xla
assert torch.compile(copied, backend="neuron")(x).is_xla
"""


@pytest.mark.parametrize("first", FIRST_USES)
def test_torch_has_the_device_without_another_import(first, tmp_path):
    pytest.importorskip("torch")
    (tmp_path / "program.py").write_text(f"{ACTIVE}import torch\n{first}{ALONE}")
    python("import program", tmp_path, tmp_path)


@pytest.mark.parametrize("reason", ["switched off", "another package adds it"])
def test_torch_is_unchanged(reason, tmp_path):
    pytest.importorskip("torch")
    before = "import os; os.environ['TORCH_DEVICE_BACKEND_AUTOLOAD'] = '0'\n"
    if reason != "switched off":
        before = ""
        (tmp_path / "torch_neuronx.py").write_text("")
    (tmp_path / "program.py").write_text(before + ACTIVE + "import torch; torch.device('neuron')")
    said = python("import program", tmp_path, tmp_path, status=1).stderr
    assert "at start of device string: neuron" in said


def test_a_module_of_the_user_with_the_name_of_torch_is_unchanged(tmp_path):
    (tmp_path / "torch.py").write_text("float32 = 4\n")
    (tmp_path / "program.py").write_text(ACTIVE + "import torch; assert torch.float32 == 4")
    python("import program", tmp_path, tmp_path)


def test_tensors_of_the_cpu_and_of_the_device_do_not_mix(tmp_path):
    pytest.importorskip("torch")
    code = """
import torch, torch_xla.core.xla_model as xm
own = torch.arange(6.0)
there = own.to(xm.xla_device())
there += 1
assert own.tolist() == [0, 1, 2, 3, 4, 5] and own.device.type == "cpu"
assert there[2:].device == (there * own).device == xm.xla_device() == torch.device("xla", 0)
for back in (there.cpu(), there.to("cpu"), there.to(torch.device("cpu"))):
    back[0] = 9
    assert back.device.type == "cpu" and there[0] == 1 and there.device.type == "xla"
assert torch.empty_like(there).device.type == "xla"
assert torch.zeros(2, device=there.device).device.type == "xla"
values, places = torch.sort(there, descending=True)
assert values.is_xla and places.is_xla
model = torch.nn.Linear(2, 2).to("xla").to("cpu")
assert model.weight.device.type == "cpu"
"""
    python(ACTIVE + code, tmp_path)


def test_results_of_kernels_are_on_the_device_of_their_arguments(tmp_path):
    pytest.importorskip("torch")
    code = """
import nki, nki.isa as nisa, nki.language as nl, torch, torch_xla.core.xla_model as xm

@nki.jit
def counted(x):
    tile = nl.ndarray(x.shape, nl.uint32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    out = nl.ndarray(x.shape, nl.uint32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out

x = torch.arange(12, dtype=torch.int32).reshape(2, 6).to(torch.uint32)
assert counted(x).device.type == "cpu"
out = counted(x.to(xm.xla_device()))
assert out.device.type == "xla" and out.dtype == torch.uint32
place = torch.tensor([[5, 0], [1, 1]], device=out.device)
picked = torch.gather(out, 1, place)
assert picked.dtype == torch.uint32 and picked.tolist() == [[5, 0], [7, 7]] and picked.is_xla
"""
    (tmp_path / "program.py").write_text(ACTIVE + code)
    python("import program", tmp_path, tmp_path)


def test_torch_compile_calls_kernels_unchanged(tmp_path):
    pytest.importorskip("torch")
    code = """
import nki, nki.language as nl, torch
from torch_neuronx import nki_op, wrap_nki

@nki.jit
def added(a, b):
    out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.add(nl.load(a), nl.load(b)))
    return out

@nki_op("neuroncore_tests::added", mutates_args={})
def operator(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return wrap_nki(added)(a, b)

x = torch.ones(4, 3)
for call in (added, operator):
    assert (torch.compile(lambda x: call(x, x) * x, backend="aot_eager")(x) == 2).all()
    there = torch.compile(lambda x: call(x, x) * x, backend="neuron")(x.to("neuron"))
    assert there.is_xla and (there == 2).all()
whole = torch.compile(lambda x: operator(x, x) * x, backend="neuron", fullgraph=True)
assert (whole(x) == 2).all()
"""
    (tmp_path / "program.py").write_text(ACTIVE + code)
    python("import program", tmp_path, tmp_path)


def test_a_missing_function_of_the_native_backend_is_refused(tmp_path):
    pytest.importorskip("torch")
    said = python(ACTIVE + "import torch, torch_xla; torch.neuron.stats()", tmp_path, status=1)
    assert "torch.neuron.stats is not part of neuroncore" in said.stderr


def test_a_world_of_one(tmp_path):
    code = """
import torch_xla, torch_xla.core.xla_model as xm, torch_xla.runtime as xr
seen = []
xm.mark_step(); xm.wait_device_ops(); torch_xla.sync()
xm.add_step_closure(seen.append, args=(1,))
with torch_xla.step(), torch_xla.compile():
    seen.append(torch_xla.compile(abs)(-2))
assert seen == [1, 2]
assert (xr.world_size(), xr.global_ordinal(), xm.get_ordinal(), xm.xrt_world_size()) == (1, 0, 0, 1)
assert xm.is_master_ordinal() and xm.xla_device_hw("cpu") == xr.device_type() == "CPU"
xm.master_print("printed", end="")
"""
    assert python(NO_TORCH + ACTIVE + code, tmp_path).stdout == "printed"


def test_other_names_of_the_packages_exist_and_are_refused_when_called(tmp_path):
    code = """
import jax_neuronx.experimental, torch_neuronx, torch_xla, torch_xla.core.xla_model as xm
import torch_xla.debug.metrics, torch_xla.distributed.xla_backend, torch_xla.distributed.spmd
from torch_neuronx.xla_impl.ops import RmsNorm, TopK, xla_hlo_call
from torch_neuronx.experimental import profiler
from torch_xla.distributed.zero_redundancy_optimizer import ZeroRedundancyOptimizer
from neuroncore.base.errors import NotEmulated

class Derived(RmsNorm):
    pass

@xla_hlo_call
def built(x):
    return x

for name, use in {
    "torch_neuronx.xla_impl.ops.RmsNorm.apply": RmsNorm.apply,
    "torch_xla.core.xla_model.all_reduce": xm.all_reduce,
    "torch_xla.debug.metrics.metrics_report": torch_xla.debug.metrics.metrics_report,
    "torch_xla.launch": torch_xla.launch,
    "torch_xla.distributed.spmd.mark_sharding": torch_xla.distributed.spmd.mark_sharding,
    "torch_neuronx.experimental.profiler.profile": profiler.profile,
    "torch_neuronx.xla_impl.base.xla_hlo_call": built,
    "jax_neuronx.experimental.debug_callback": jax_neuronx.experimental.debug_callback,
}.items():
    try:
        use(1)
    except NotEmulated as refused:
        said = str(refused)
        assert f"{name} is not part of neuroncore" in said, said
        assert f"{name.partition('.')[0]} is not installed, and neuroncore" in said, said
    else:
        raise AssertionError(name)
"""
    python(NO_TORCH + ACTIVE + code, tmp_path)


def test_names_that_an_installed_package_lacks_are_not_added(tmp_path):
    (tmp_path / "torch_xla").mkdir()
    (tmp_path / "torch_xla" / "__init__.py").write_text("")
    code = "import importlib.util, torch_xla\n"
    code += "assert importlib.util.find_spec('torch_xla.distributed') is None\n"
    code += "assert not hasattr(torch_xla, 'device')"
    said = python(ACTIVE + code, tmp_path, tmp_path).stderr
    assert said.count("\n") == 1
