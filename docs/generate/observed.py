"""Text of docs/calibration.md: known errors of estimates, and behavior in public traces and
compiled programs that the model lacks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Json = dict[str, Any]

# Each known error, its reason, and the rows that show it.
WRONG = (
    (
        "Matrix products of the SDK's tutorial on trn1, except the last step. They were published "
        "with an older compiler.",
        ("M0337", "M0339", "M0341"),
    ),
    (
        "Transfers of 4 bytes, and of a few more, on trn1: the vector additions of CS149's first "
        "steps take about 0.34 us for each transfer, as if one queue wrote their descriptors one "
        "after the other. Only one source shows it. On trn2, where GpSimd writes them, they fit.",
        ("M0290", "M0291"),
    ),
    (
        "One of four similar variants of attention of nki-moe-megakernel with many small "
        "transfers: the other three fit if loads pass stores that wait.",
        ("M1435",),
    ),
    (
        "Batched float32 products with K = 64 of the published baseline: the Tensor engine seems "
        "to run at half clock for longer than the warm-up of the model.",
        ("M0953", "M0989"),
    ),
    (
        "The table doubles every latency of kda-for-trainium, because its profiles show about "
        "half of the time that one core needs. Two variants of silu and one of a transposed "
        "product would fit without doubling, and so would their counters of busy engines. The "
        "counters of two more, of lora and swiglu, agree better with half of the latency in the "
        "table (ratios 0.73 and 0.68).",
        ("M1085", "M1087", "M1103", "M1032", "M1094"),
    ),
    (
        "Products of rows that were normalized before take three to four times as long on trn2, "
        "while variants with the same products and separate buffers are estimated well: 3.7 us "
        "for each product, as if its load began when the previous one had ended. With "
        "`--loads single` they are 1.26 to 1.41.",
        ("M0952", "N0004", "N0005"),
    ),
    (
        "Mamba, where the compiler repeated loads and products that it could have kept; another "
        "release kept them (awsdoc/mamba).",
        ("M0203", "M1037"),
    ),
    (
        "Tiles that do not fit into SBUF, which the compiler spills. The model estimates which "
        "tiles it spills, and when.",
        ("M0363", "M0365", "M0367"),
    ),
    (
        "A depthwise convolution of autocomp: variants with 131,072 instructions on three "
        "elements each. The compiler must have reduced their number: the fastest variant takes "
        "3.5 ns for each, which no engine can do.",
        ("M0271", "M0272", "M0273"),
    ),
    (
        "Attention of nki-moe-megakernel on trn3: chains of short Vector instructions, which seem "
        "to be faster there.",
        ("M1485", "M1486"),
    ),
    (
        "The baseline of rope on trn1, which is bound by the Vector engine: its copies of half of "
        "the partitions, which the model distributes among engines, seem to stay on Vector. On "
        "trn2 they fit.",
        ("M0090",),
    ),
)

OBSERVED = """
## Observed, but not in the model

Public traces and compiled programs of the older API's compiler show more than the model has. These
rules are not in use because only one author shows them, or because with them the estimates of
other authors' kernels are worse. The numbers are estimates over the windows of the 26 traces of
`bench/traces.csv`, or over the measurements below; they are from before neighboring transfers were
merged, with which the median of attention went from 0.91 to 0.97, and 21 windows instead of 19 are
within 10 %, and from before instructions went to the engine that ends them first, with which small
convolutions in float16 went from 0.73 to 0.86, and 26 windows instead of 24 are within 20 %.

* Each tile in PSUM begins a bank; only transposes whose copies are merged share one (compiled
  programs of trainium-kernel-fusion, cs149stanfordasst4 and waahm7). With eight banks to wait for,
  small convolutions go from 0.73 to 0.79, but autocomp's attention on trn1 goes from 1.08 and 1.25
  to 1.20 and 1.56. Its transposes probably share banks in a way that is not known.
* The Tensor engine takes, among instructions that are ready, the one with the longest path to the
  end of the program. Among 32 instructions, the median of attention goes from 0.91 to 0.94, and
  rows within 20 % from 87.5 % to 87.8 %. But six of kda-for-trainium's batched products go from
  0.98 to 0.93, and pairs in order from 94.4 % to 91.8 %.
* Vector and Scalar do the same: work on tiles that many instructions wait for comes before the
  copies out of PSUM of products that are done. Together with banks, small convolutions go from 0.73
  to 0.91, and 21 of 26 windows are within 10 %. Only cs149stanfordasst4 shows it, and the median
  error of all rows goes from 4.9 % to 5.6 %.
* Phases take their tiles in another order: attention of 1,024 loads scores of rows 512 to 1,023
  before those of rows 0 to 511, and its softmax begins 14 us later than here
  (trainium-kernel-fusion only). This rule was not tried.
* A queue has at most 16 transfers in flight, as it has 16 semaphores (all compiled programs, and a
  trace of a transposition). With that rule, no window changes, and no vector addition by more than
  7 %.
* The compiler merges small instructions of four of the eight iterations of attention of 1,024,
  whose products stay in PSUM until they have been read: four iterations fill its eight banks. Here
  all eight are merged, so three instructions are missing (trainium-kernel-fusion only). This rule
  was not tried.
* Transposes on the Tensor engine multiply by an identity matrix, which one more load brings from a
  file in HBM (compiled programs of five authors on trn1 and trn2). It is triggered first or second,
  and there 2.0 to 4.2 us after the begin of the kernel in 12 of 15 traces, and after 4.9 to 5.2 in
  three. Tiles are seldom there sooner, so the model has no time for it.
* Scalar makes 1,817 of the 3,996 copies of 444 columns in a convolution in float16, although each
  takes 462 ns there and 184 on Vector, so it works for 94 % of the time (cs149stanfordasst4 only).
  Here it makes 1,112.
* In a transposition, stores begin after the last load was issued, though their data are there
  before that (cs149stanfordasst4 only). This rule was not tried.
"""


def wrong(rows: Sequence[Json]) -> str:
    """Return the known errors with the ratios of their rows, and the rows without a reason."""
    ratio = {r["id"]: f"{r['id']} {r['ratio']:.2f}" for r in rows}
    shown = ((text, ", ".join(ratio[i] for i in ids if i in ratio)) for text, ids in WRONG)
    lines = (f"* {text} Estimate over measurement: {of_them}.\n" for text, of_them in shown)
    listed = {i for _, ids in WRONG for i in ids}
    rest = [r for r in rows if r["id"] not in listed and not 0.75 <= r["ratio"] <= 4 / 3]
    others = ", ".join(ratio[r["id"]] for r in rest) or "none"
    return f"{''.join(lines)}* Not explained, and outside 0.75 to 1.33: {others}.\n"
