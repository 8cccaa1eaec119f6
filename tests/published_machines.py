"""Published figures of each machine (architecture guides of the SDK), to compare with its file."""

from typing import NamedTuple


class Published(NamedTuple):
    """Clocks in GHz, peaks in TFLOPS of one core, SBUF and PSUM in KiB per partition, a core's HBM
    in GiB and GB/s, its stack in GiB, and GB/s of a DMA engine. Measured figures have a comment. A
    machine has the features of generation `features_of`: its own generation, unless the file copies
    an older machine."""

    generation: int
    features_of: int
    other_names: tuple[str, ...]
    clocks: dict[str, float]
    peaks: dict[str, float]
    sbuf: int
    hbm: int
    stack: int
    bandwidth: float
    dma: float
    psum: int = 16


PUBLISHED = {
    "trn1": Published(
        generation=2,
        features_of=2,
        other_names=("gen2", "inf2", "trn1n"),
        clocks={"tensor": 2.8, "vector": 1.12, "scalar": 1.4, "gpsimd": 1.4},
        peaks={"bfloat16": 92, "float16": 92, "float32": 23},
        sbuf=192,
        hbm=16,
        stack=16,
        bandwidth=410,
        dma=18.1,
    ),
    "trn2": Published(
        generation=3,
        features_of=3,
        other_names=("gen3", "trn2n"),
        clocks={"tensor": 2.4, "vector": 0.96, "scalar": 1.2, "gpsimd": 1.2},
        peaks={"bfloat16": 79, "float16": 79, "float32": 20},
        sbuf=224,
        hbm=12,
        stack=24,
        bandwidth=362.5,
        dma=26,  # measured; 27.2 is published
    ),
    "trn3": Published(
        generation=4,
        features_of=4,
        other_names=("gen4", "trn3pre"),
        clocks={"tensor": 2.4, "vector": 1.2, "scalar": 1.2, "gpsimd": 1.2},
        peaks={"bfloat16": 79, "float16": 79, "float32": 20},
        sbuf=256,
        hbm=18,
        stack=36,
        bandwidth=612.5,
        dma=38.4,
    ),
}


def since(generation: int) -> tuple[str, ...]:
    """The machines with the features of that generation or a later one."""
    return tuple(name for name, row in PUBLISHED.items() if row.features_of >= generation)
