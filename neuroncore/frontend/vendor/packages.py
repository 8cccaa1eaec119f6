"""Which packages only the vendor ships, and where their source is, if that is public."""

from __future__ import annotations

from dataclasses import field

from neuroncore.base.structs import dataclass


@dataclass(frozen=True)
class Repository:
    """A public repository in which the source of a package is."""

    name: str  # in `--with NAME=FOLDER`
    url: str
    places: tuple[str, ...]  # the package's folder, in one release or another
    holds: tuple[str, ...]  # what is in that folder in every release
    commit: str = ""  # the last that has it, where later ones don't

    @property
    def variable(self) -> str:
        """The environment's name of a checkout."""
        return "NEURONCORE_" + self.name.upper().replace("-", "_")

    @property
    def folder(self) -> str:
        """The name that `git clone` gives a checkout."""
        return self.url.rpartition("/")[2]

    @property
    def advice(self) -> str:
        """How to have the package."""
        older = f" && git -C {self.folder} checkout {self.commit}" if self.commit else ""
        return (
            f"git clone {self.url}{older}; then neuroncore run --with {self.name}={self.folder}, "
            f"or {self.variable}={self.folder}"
        )


# src/nkilib_standalone is the name in its first release (2.27), src/nkilib_src in 2.28 and 2.29.
NKI_LIBRARY = Repository(
    "nkilib",
    "https://github.com/aws-neuron/nki-library",
    ("src/nkilib_src/nkilib", "src/nkilib_standalone/nkilib"),
    ("__init__.py", "core"),
)
# src/reference is of SDK 2.20. The README calls the folder the source code of
# neuronxcc.nki.kernels; the commit after 8370e11 (January 2026) removed it.
NKI_SAMPLES = Repository(
    "nki-samples",
    "https://github.com/aws-neuron/nki-samples",
    ("src/nki_samples/reference", "src/reference"),
    ("__init__.py", "attention.py"),
    commit="8370e11",
)
REPOSITORIES = {one.name: one for one in (NKI_LIBRARY, NKI_SAMPLES)}


@dataclass(frozen=True)
class Package:
    """A package that only the vendor ships."""

    name: str
    because: str  # what it is, and why it isn't here
    repository: Repository | None = None
    public: dict[str, tuple[str, ...]] = field(default_factory=dict)  # of each module; () is all
    stand_in: bool = False  # whether a package of ours stands in for it

    @property
    def is_whole(self) -> bool:
        """True if all of its source is public."""
        return self.repository is not None and not self.public

    def is_public(self, path: str) -> bool:
        """Return whether the repository has the object at a path in the package, such as
        attention.flash_fwd, or a member of it."""
        first, *rest = path.split(".")
        names = self.public.get(first)
        if names is None:
            return self.is_whole or first in self.exports
        return not names or not rest or rest[0] in names

    @property
    def exports(self) -> dict[str, str]:
        """The names that can be imported from the package itself, and the module of each."""
        return {name: module for module, names in self.public.items() for name in names}


CLOSED = "it is part of neuronx-cc, the vendor's compiler, whose source is not public"
KERNELS = {
    "allocated_attention": ("allocated_fused_self_attn_for_SD_small_head_size",),
    "allocated_fused_linear": ("allocated_fused_rms_norm_qkv",),
    "attention": (
        *("FlashConfig", "flash_attn_bwd", "flash_fwd"),
        "fused_self_attn_for_SD_small_head_size",
    ),
    "double_row_matmul": ("quantized_double_row_matmul",),
    "rmsnorm_quant": (),  # a package: all of it
    "tutorial": ("add_kernel_nx8x128x512",),
    "util": (),
    "vision": (
        *("adaptive_avg_pool2d_kernel", "resize_nearest_fixed_dma_kernel"),
        "select_and_scatter_kernel",
    ),
}
RANKS = "use neuronxcc.nki.nccl, or today's nki.collectives"
COMPILER = "it compiles a program for a device; here kernels run directly"
FRAMEWORKS = ("jax_neuronx", "torch_neuronx", "torch_xla")
LAUNCHING = (
    "{} is not installed, and neuroncore's replacement has only what launching kernels needs"
)
STAGES = ("_internal", "backends", "driver", "frontend", "kernel_builder", "ncc_driver", "target")
PACKAGES = (
    Package("nkilib", "nki-library is a separate, public package", NKI_LIBRARY),
    Package("neuronxcc.nki.kernels", CLOSED, NKI_SAMPLES, KERNELS),
    Package("neuronxcc.nki._private_kernels", CLOSED),
    Package("neuronxcc.nki._pre_prod_kernels", CLOSED),
    Package("neuronxcc.nki._pre_prod_nkl", CLOSED),
    Package("neuronxcc.nki._private", CLOSED),
    Package("neuronxcc.nki.compiler.backends", CLOSED),
    Package("neuronxcc.nki.collectives", RANKS),
    Package("neuronxcc.starfish", CLOSED),
    *(Package(f"nki.compiler.{name}", COMPILER) for name in STAGES),
    Package("libneuronxla", COMPILER),
    *(Package(name, LAUNCHING.format(name), stand_in=True) for name in FRAMEWORKS),
    Package("torch.classes.neuron", LAUNCHING.format("torch_neuronx")),
)


# What the API has under another name: for launches of the same kernel, releases of NeuronX
# Distributed Inference say grid = (vnc(n),) or (nc(n),); NeuronX Distributed says VNC(2).
SAME = {
    "neuronxcc.nki.compiler.backends.neuron.dimensions.VNC": ("neuronxcc.nki.language", "nc"),
    "neuronxcc.starfish.penguin.targets.nki.private_api.vnc": ("neuronxcc.nki.language", "nc"),
    "neuronxcc.nki._private.private_api.cc_div": ("neuronxcc.nki.nccl.collectives", "cc_div"),
}


def holding(module: str) -> Package | None:
    """The package that a module is of, or is."""
    return next((p for p in PACKAGES if f"{module}.".startswith(f"{p.name}.")), None)
