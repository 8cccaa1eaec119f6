"""Actions of an operator that the device would refuse, or that are undefined there."""

from __future__ import annotations

from typing import NamedTuple

from neuroncore.base.errors import NeuronError


class Reason(NamedTuple):
    """The reason of a fault, and a hint."""

    because: str
    hint: str


# By the codes of headers/neuroncore/*.h; the rules are from the SDK's custom-ops-ref-guide.rst.
REASONS = {
    "COHERENCE": Reason(
        "streams keep data in TCM and are not coherent with other accessors of the tensor",
        "close the write stream first, or set_accessor_coherence_policy() of the tensor",
    ),
    "CRASH": Reason("the process of the operator ended", "read its output"),
    "DTYPE_RULE": Reason(
        "data of one format are meaningless in another format",
        "use the format of the tensor",
    ),
    "MULTICORE": Reason(
        "element accessors, streams and returned tensors belong to one core",
        "use tcm_accessor() and write to get_dst_tensor(), or build with multicore=False",
    ),
    "OUTPUT_NOT_WRITTEN": Reason(
        "elements that no core writes keep the previous contents of memory",
        "write all of it, or begin with torch::zeros",
    ),
    "OUT_OF_BOUNDS": Reason(
        "the device does not check: it reads or overwrites adjacent memory",
        "stay within the tensor and the buffer: the last part may have a different size",
    ),
    "RACE": Reason(
        "cores are not synchronized, so the order of their writes is undefined",
        "give each core a separate part of the result",
    ),
    "SHAPE_FUNCTION": Reason(
        "a shape function runs on the host before the data exist",
        "use only sizes(), dim() and numel() of tensors",
    ),
    "SHAPE_MISMATCH": Reason(
        "the compiler allocates the result according to the shape function, and nothing is "
        "broadcast",
        "give both the same sizes and format",
    ),
    "STREAM": Reason(
        "a stream has as many elements as its tensor, until it is closed",
        "count the elements that are read and written",
    ),
    "TCM_FREE": Reason(
        "the state of the device's allocator becomes invalid",
        "free each pointer from tcm_malloc once",
    ),
    "TCM_LEAK": Reason(
        "there are 16 KiB of TCM for buffers, and 4 KiB of them for each stream",
        "tcm_free each buffer",
    ),
    "TIME_LIMIT": Reason("the operator did not end", "look for an endless loop"),
}


class Told(NamedTuple):
    """A finding: the event, the core, and the line of C++, if known."""

    code: str
    core: int
    file: str
    line: int
    statement: str

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}: " if self.line else ""
        reason = REASONS[self.code]
        return "\n".join(
            [
                f"{where}[{self.code}] {self.statement} (core {self.core})",
                f"  because   {reason.because}",
                f"  hint      {reason.hint}",
            ]
        )


class CustomOpFault(NeuronError, ValueError):
    """An operator was stopped; `told` has the event and its place."""

    def __init__(self, told: Told, printed: str = "") -> None:
        super().__init__(told, printed)
        self.told, self.printed = told, printed

    def __str__(self) -> str:
        tail = f"\n  printed   {self.printed[-500:].rstrip()}" if self.printed.strip() else ""
        return f"{self.told}{tail}"


class CustomOpWarning(UserWarning):
    """An action of an operator that may be intended."""
