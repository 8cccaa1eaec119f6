"""What an operator did that the device would refuse, or that has no meaning there."""

from __future__ import annotations

from typing import NamedTuple

from neuroncore.base.errors import NeuronError


class Reason(NamedTuple):
    """Why the device says so, and how to put it right."""

    because: str
    hint: str


# By the codes of headers/neuroncore/*.h; the rules are those of the SDK's custom-ops-ref-guide.rst.
REASONS = {
    "COHERENCE": Reason(
        "streams keep data in TCM and are not coherent with other accessors of the tensor",
        "close the write stream first, or set_accessor_coherence_policy() of the tensor",
    ),
    "CRASH": Reason("the process of the operator ended by itself", "look at what it printed"),
    "DTYPE_RULE": Reason(
        "data of one format read as another have no meaning",
        "name the tensor's own format",
    ),
    "MULTICORE": Reason(
        "element accessors, streams and returned tensors are those of one core",
        "use tcm_accessor() and write get_dst_tensor(), or build with multicore=False",
    ),
    "OUTPUT_NOT_WRITTEN": Reason(
        "what no core writes of the result is whatever memory held",
        "write all of it, or begin with torch::zeros",
    ),
    "OUT_OF_BOUNDS": Reason(
        "the device doesn't look: it reads or overwrites what lies beside",
        "stay within the tensor and the buffer: the last share of a core may be another size",
    ),
    "RACE": Reason(
        "cores are not synchronised: which one is last is not known",
        "give each core a part of the result of its own",
    ),
    "SHAPE_FUNCTION": Reason(
        "a shape function runs on the host before there are data",
        "ask tensors for sizes(), dim() and numel() only",
    ),
    "SHAPE_MISMATCH": Reason(
        "the compiler has laid the result out as the shape function says, and nothing is broadcast",
        "give both the same sizes and format",
    ),
    "STREAM": Reason(
        "a stream has as many elements as its tensor, until it is closed",
        "count what is read and written",
    ),
    "TCM_FREE": Reason(
        "the device's allocator is left in disorder", "free once what tcm_malloc gave"
    ),
    "TCM_LEAK": Reason(
        "there are 16 KiB of TCM for buffers, and 4 KiB of them for each stream",
        "tcm_free each buffer",
    ),
    "TIME_LIMIT": Reason("the operator did not end", "look for a loop that doesn't"),
}


class Told(NamedTuple):
    """One finding: what happened on which core, and the line of C++ that it comes from if it has
    one."""

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
    """An operator was ended at what it did; `told` says what and where."""

    def __init__(self, told: Told, printed: str = "") -> None:
        super().__init__(told, printed)
        self.told, self.printed = told, printed

    def __str__(self) -> str:
        tail = f"\n  printed   {self.printed[-500:].rstrip()}" if self.printed.strip() else ""
        return f"{self.told}{tail}"


class CustomOpWarning(UserWarning):
    """What an operator did that may be meant."""
