"""Text of docs/calibration.md: known errors of estimates, and behavior in public traces and
compiled programs that the model lacks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Json = dict[str, Any]

# Each known error, the rows that show it, and its reason.
WRONG = (
    (
        "Matrix products of the SDK's tutorial on trn1 take longer than estimated.",
        ("M0337", "M0339", "M0341"),
        """\
  Their measured times are from an older release of the compiler. The estimate of the tutorial's
  last step fits.
""",
    ),
    (
        "On trn1, transfers of 4 bytes for each partition take longer than estimated.",
        ("M0290", "M0291"),
        """\
  The reason is not known. Neither the number of transfers nor the number of rows explains the
  difference:

  * A transfer of 4 bytes for each partition takes 0.32 us if it moves 128 partitions, and 0.36 us
    if it moves one partition.
  * A transfer of 8 bytes for each of 128 partitions takes 0.13 us, and its estimate fits (M0292).

  Only one source shows the slow transfers, and no public trace on trn1 has transfers of 4 bytes for
  each partition. On trn2, where GpSimd writes the descriptors, the estimates fit.
""",
    ),
    (
        "One variant of attention of KevGomes1403/nki-moe-megakernel takes longer than estimated.",
        ("M1435",),
        """\
  The kernel has four similar variants with many small transfers. In the model, a load may start
  before an earlier store, if this store still waits for its data. With this rule, the estimates of
  the other three variants fit.
""",
    ),
    (
        "The baseline of NKIBench's bmm takes less time than estimated.",
        ("M0953", "M0989"),
        """\
  The baseline computes batched float32 products with K = 64. In the model, all of these products
  run at half clock. On the device, about 68 % of them seem to run at full clock.

  * *The model*: the baseline has only eight transposes before every 16 products, and these
    transposes have too few rows to reach full clock. The order in which the compiler issues the
    transposes is not known.
  * *The device*: the share of 68 % follows from published counters of Jerry2423/kda-for-trainium.
    The counters state how long the Tensor engine is active. We compared the baseline's time
    with the time of the variant bmm_v1, which runs at half clock. M0995 has eight transposes before
    every 64 products, and its counters imply full clock for about 11 % of its products.
  * *Another model was tried*: the clock rises after a window in which enough rows stream through
    the array. In the model, the rows of a product that fills at most half of the array, as with
    K = 64, count only while the clock is already full. If these rows also count at half clock, the
    ratio of the baseline does not change, and the ratio of M0996 falls from 0.60 to 0.58.
""",
    ),
    (
        "Five variants of Jerry2423/kda-for-trainium take twice as long as estimated, or longer.",
        ("M1085", "M1087", "M1103", "M1032", "M1094"),
        """\
  The table of measurements doubles every latency of Jerry2423/kda-for-trainium, because the
  profiles of this source show about half of the time that one core needs. For these five variants,
  the latency before doubling seems to be right:

  * For two variants of silu and one variant of a transposed product, the latency before doubling
    fits the estimate, and also the counters of busy engines.
  * For one variant of lora and one variant of swiglu, the counters agree better with the latency
    before doubling than with the doubled latency. The ratios to the latency before doubling are
    0.73 and 0.68.
""",
    ),
    (
        "On trn2, three kernels that multiply matrices and compute an RMS norm take three to four "
        "times as long as estimated.",
        ("M0952", "N0004", "N0005"),
        """\
  A product of these kernels takes 3.7 us, as if its load began only after the previous product had
  ended. The option `--loads single` turns on a rule with this effect, and then the ratios of the
  three kernels are 0.92 to 0.99. The rule is not in use for two reasons:

  * Two authors measured the three kernels, but only AccelOpt published them.
  * With the rule, the estimates of some other kernels of the older API on trn2 become at least 15 %
    longer, and nearly all of them fit worse. For example, the ratio of M1093 is 0.93 without the
    rule and 1.68 with the rule. Only M0996 and M1032 fit better with the rule. The other kernels
    load each tile once, but the three kernels load the same tiles again for each block of rows.
""",
    ),
    (
        "Two variants of mamba take longer than estimated.",
        ("M0203", "M1037"),
        """\
  The compiler repeated loads and products whose results it could have kept. Another release of the
  compiler kept the results (awsdoc/mamba).
""",
    ),
    (
        "Estimates are uncertain if tiles do not fit into SBUF.",
        ("M0363", "M0365", "M0367"),
        """\
  The compiler then spills some of the tiles. The model can only guess which tiles the compiler
  spills, and when.
""",
    ),
    (
        "Three variants of a depthwise convolution of autocomp take less time than estimated.",
        ("M0271", "M0272", "M0273"),
        """\
  The compiler must have reduced the number of instructions: each variant has 131,072 instructions
  in its source, each of which computes three elements. The fastest variant takes 3.5 ns for each of
  these instructions, and no engine is that fast.
""",
    ),
    (
        "On trn3, attention of KevGomes1403/nki-moe-megakernel takes less time than estimated.",
        ("M1485", "M1486"),
        """\
  This attention has chains of short Vector instructions, and trn3 seems to execute such chains
  faster than the model does.
""",
    ),
    (
        "On trn1, the baseline of rope takes longer than estimated.",
        ("M0090",),
        """\
  On the device, the copies of half of the partitions seem to stay on Vector, which then limits the
  kernel. The model distributes these copies among several engines. On trn2, the estimates of rope
  fit.
""",
    ),
)

OBSERVED = """
## Observed, but not in the model

Public traces and compiled programs of the older API's compiler show behavior that the model does
not have. For each such behavior, the list below says which authors' programs show it, and what
happened if a rule for it was tried. The model has no rule for a behavior in two cases: only one
author's programs show it, or a rule for it makes the estimates of other authors' kernels worse.

The ratios in the list are estimate divided by measurement, so the best ratio is 1. The list speaks
of these measurements:

* *Traces* are the 26 traces of `bench/traces.csv`. For a trace, the list has the ratio of the
  estimate from the kernel's source.
  * *Attention* is in the ten traces of allenkchau/trainium-kernel-fusion.
  * *Convolutions*, small and large, are in six traces of deepashreeKedia/cs149stanfordasst4.
  * *The transposition* is the trace part1/transpose_1024 of deepashreeKedia/cs149stanfordasst4.
* *Rows* are the kernels in the table of [all kernels](#all-kernels). Their names begin with M or N.

Most ratios in the list were computed before the model had four groups of rules that it has today.
These rules changed the following ratios:

* Neighboring transfers are merged. This rule improved the median ratio of attention from 0.91 to
  0.97, and the number of traces within 10 % from 19 to 21.
* Instructions go to the engine that ends them first. This rule improved the ratio of small
  convolutions in float16 from 0.73 to 0.86, and the number of traces within 20 % from 24 to 26.
* The compiler chooses the engine of an instruction without data in PSUM by costs that it expects:
  one cycle for each column, and 60 more cycles on Vector or 220 on Scalar. This rule improved the
  ratios of small convolutions in float16 from 0.86 to 0.97, the number of traces within 10 % from
  21 to 23, and the median error of traces from 3.6 % to 3.2 %. 88.9 % of the rows are within 20 %
  (88.6 % without the rule). The largest changes of rows on trn1 are those of AccelOpt's silu (0.73
  becomes 0.81), rope (0.69 becomes 0.75) and adamw (1.38 becomes 1.52).
  * The two numbers are from traces of deepashreeKedia/cs149stanfordasst4 on trn2. Compiled programs
    of two other authors on trn1 agree with them. Of the 11,988 copies of rows in a convolution of
    Ericcsr/asst4-trainium, 1,053 are on another engine than in the compiled program, and 1,939
    without the rule. Of the 9,768 copies of rows in a convolution of ewang675/asst4-trainium, it is
    1,933, and 2,249 without the rule.
  * With 160 to 280 in place of 220 cycles, 22 to 24 traces are within 10 %.
* At most 16 stores are in flight, and programs end with waits for their stores. These rules
  together improved the ratio of the transposition from 0.82 to 0.87, and the ratio of M0333 from
  0.90 to 0.93. The ratios of other traces did not change.

The device behaves in these ways, and the model does not:

* **Each tile in PSUM begins a new bank.** Only transposes whose copies are merged share a bank. The
  compiled programs of allenkchau/trainium-kernel-fusion, deepashreeKedia/cs149stanfordasst4 and
  waahm7/asst4-trainium show this.
  * A rule was tried: instructions wait until one of the eight banks is free. The ratio of small
    convolutions improves from 0.73 to 0.79. But two ratios of autocomp's attention on trn1 become
    worse: 1.08 becomes 1.20, and 1.25 becomes 1.56. The transposes of autocomp's attention probably
    share banks in a way that is not known.
* **The Tensor engine executes the longest path first.** If several instructions are ready, it
  executes the instruction with the longest path to the end of the program.
  * This rule was tried with a choice among the next 32 instructions. The median ratio of attention
    improves from 0.91 to 0.94, and the share of rows within 20 % rises from 87.5 % to 87.8 %. But
    the ratio of six of Jerry2423/kda-for-trainium's batched products becomes worse, from 0.98 to
    0.93, and the share of pairs in order falls from 94.4 % to 91.8 %.
* **Vector and Scalar also execute the longest path first.** Therefore, if many instructions wait
  for a tile, the work on this tile comes before copies of finished products out of PSUM. Only
  deepashreeKedia/cs149stanfordasst4 shows this behavior.
  * This rule was tried together with the rule about banks. The ratio of small convolutions improves
    from 0.73 to 0.91, and 21 of 26 traces are within 10 %. But the median error of all rows rises
    from 4.9 % to 5.6 %.
* **The phases of a program process their tiles in another order than in the model.** For example,
  attention of length 1,024 loads the scores of rows 512 to 1,023 before the scores of rows 0 to
  511, and its softmax begins 14 us later than in the model. Only allenkchau/trainium-kernel-fusion
  shows this behavior. No rule was tried.
* **Stores come after other work.** In attention of length 1,024, Scalar copies later tiles before
  it issues the store of a finished tile: a store begins up to 3.7 us after its data are complete.
  In the transposition, GpSimd issues the first store after 14.2 us, when all loads have been
  issued, and begins with the last quarter of the tiles. In the model, a store begins as soon as its
  data are complete, which is after 2.9 us in the transposition. No rule was tried.
* **A program ends with waits for its stores.** The engine that issued the stores waits for each
  store for which no instruction has waited yet. The model has these waits too, but differs from the
  device in two points:
  * On trn1, the waits take no time in the model, because their time is not known. Two times were
    tried. The first is 45 ns, the time from one instruction of GpSimd to the next one in four
    authors' traces. With 45 ns, the ratio of M0291 improves from 0.48 to 0.51, but the ratio of
    M0292 rises from 1.11 to 1.16. The second is 74 ns, the time from the end of the last
    instruction that starts a transfer to the end of the first wait. With 74 ns, the ratio of M0292
    is 1.21.
  * If the device writes the descriptors of a program, the model has no waits at its end. With the
    waits, the ratio of M0321 improves from 0.97 to 1.00, but M0320 rises from 1.00 to 1.03, M0322
    from 1.02 to 1.04, and M0326 from 1.04 to 1.07.
* **At most 16 loads are in flight.** A queue of loads has 16 semaphores, like a queue of stores.
  Compiled programs of five authors show this.
  * This limit was tried in the model. The ratio of the transposition improves from 0.87 to 0.89,
    but the ratio of M0341 falls from 0.53 to 0.47. Also, the SDK's tutorial moves loads out of a
    loop by hand: this makes the product faster on the device, but slower in the model with the
    limit. So the model must load the tiles of such products in another order than the device does.
* **A store completes later if many stores are in flight.** A store usually completes 0.35 us after
  its last byte was moved. In the transposition, in which 16 stores of rows of 512 bytes are in
  flight, a store completes up to 1.6 us after its last byte: the DMA engines move the bytes of a
  store in 174 ns, but a store completes only every 212 ns. In the model, a store takes 194 ns. No
  rule was tried.
* **DMA engines move fewer bytes than most of their packets suggest.** Most packets of 4 KiB take
  159 ns, which is 25.8 GB/s for each engine. But some packets of loads take two to five times as
  long. Therefore engines that work without pauses move 23.0 GB/s if they load, 24.8 GB/s if they
  store, and 23.6 GB/s if they do both. 18 traces on trn2 of allenkchau/trainium-kernel-fusion and
  deepashreeKedia/cs149stanfordasst4 show this. In the model, packets of 4 KiB move at 25.3 GB/s.
  * A bandwidth of 24.1 GB/s was tried in place of 26 GB/s, so that packets of 4 KiB move at 23.5
    GB/s. The ratio of the transposition improves from 0.87 to 0.91, and 22 traces are within 10 %.
    But the median error of the rows rises by 0.5 percentage points. For example, seven ratios of
    Jerry2423/kda-for-trainium's silu, which are between 0.97 and 1.02, become 1.04 to 1.09.
* **Scalar copies 16-bit data out of PSUM as half as many 32-bit elements.** So 128 columns take 103
  ns instead of 157 ns. Four convolutions in float16 of deepashreeKedia/cs149stanfordasst4 show
  this. In the model, only Vector copies in this way.
  * A rule was tried: Scalar also copies in this way. The ratios of small convolutions in float16
    fall from 0.86 to 0.74 and 0.77. The reason is that the device's compiler divides the copies
    between the two engines less evenly than the model does.
* **Neighboring rows move as one row.** In a rope of Jerry2423/kda-for-trainium on trn2, variants
  with tiles of 128, 256 and 512 columns take equally long (M1081, M1080, M1079). So the compiler
  seems to merge transfers of neighboring iterations, and to move neighboring rows as one row. In
  the model, transfers of loops with more than 512 iterations are not merged, and a row of a merged
  transfer costs as much as any other row. Only Jerry2423/kda-for-trainium shows this behavior.
  * A rule was tried: loops of any length are merged, and neighboring rows cost as much as one row.
    The ratio of M1081 changes from 1.15 to 0.96, and the ratio of M1080 from 1.06 to 0.97. But the
    ratio of M1082 changes from 0.99 to 0.91, and the ratio of M1079 from 0.99 to 0.96. One more
    pair is in order.
* **The compiler merges the small instructions of only four of eight iterations.** This happens in
  attention of length 1,024. The products of an iteration stay in PSUM until they have been read,
  and the products of four iterations fill the eight banks of PSUM. The model merges all eight
  iterations, so it has three instructions fewer than the device. Only
  allenkchau/trainium-kernel-fusion shows this behavior. No rule was tried.
* **The identity matrix is loaded from HBM.** Transposes on the Tensor engine multiply by an
  identity matrix. In compiled programs of five authors on trn1 and trn2, one additional load copies
  this matrix from HBM. The model leaves out the time of this load, because the tiles that are
  transposed seldom arrive sooner than the identity matrix.
  * The load is the first or the second load that starts. In 12 of 15 traces, the identity matrix
    arrives 2.0 to 4.2 us after the beginning of the kernel. In the other three traces, it arrives
    4.9 to 5.2 us after the beginning.
* **The compiler divides copies between Vector and Scalar by a rule that is not known.** Two kernels
  show that it is not the rule of the model:
  * In a convolution in float16, Scalar makes 1,817 of the 3,996 copies of 444 columns, although
    each copy takes 462 ns on Scalar and 184 ns on Vector. Scalar is therefore busy for 94 % of the
    time. In the model, Scalar makes 1,112 of these copies.
  * In M0987, a batched product of Jerry2423/kda-for-trainium, Scalar makes about half of the
    copies. The counters of M0987 imply this: Vector is busy for 20 % of the time, and Scalar for
    14 %. In the model, Scalar makes nearly all of these copies.

  Two other rules were tried in the model:
  * With the first rule, a copy goes to the engine that has been free the longest. Then the counters
    of M0987 fit, 88.9 % of the rows are within 20 %, and the median error of all rows falls by 0.2
    %. But the ratio of small convolutions in float16 falls from 0.86 to 0.82.
  * The second rule is the first rule with one change: the compiler expects a copy to take the same
    time on both engines. With the second rule, the ratio of small convolutions rises to 0.88, but
    the ratios of large convolutions rise from 0.86 and 1.01 to 1.17 and 1.16.
* **The compiler expects costs of instructions with data in PSUM, too.** These costs are not known.
  Two sets of costs were tried in the model, before it had expected costs of instructions without
  data in PSUM. In both sets, an instruction takes one cycle for each column, plus a fixed number of
  cycles.
  * In the first set, the fixed number is 60 on Vector and 220 on Scalar, also for data in PSUM.
    Then the ratio of M1145 improves from 0.86 to 0.95, but all copies out of PSUM go to Vector: 64
    in the transposition, and 16 in attention of length 1,024 in float32. On the device, all 64
    copies of the transposition and 26 of 34 copies of attention are on Scalar.
  * In the second set, the fixed number on Vector is 60 for data in SBUF and 120 for data in PSUM.
    On Scalar it is 300 for data in SBUF and 120 for data in PSUM. Then 3 to 4 % of the instructions
    of large convolutions are on the wrong engine, instead of 19 %, and the ratios of large
    convolutions are 0.93 and 0.99. But the ratios of small convolutions in float16 fall from 0.86
    to 0.73, because the order of the program is wrong in the model (next item).
* **Each engine executes its instructions in a fixed order.** In the model, an engine starts the
  first of its next 128 instructions that is ready. The difference matters, for example, in a small
  convolution: on the device, Vector copies 15 inputs of the next tile before it reads a finished
  product in PSUM. Meanwhile, the Tensor engine waits 4 us for the bank of this product, and then
  runs at half clock. In the model, the Tensor engine does not wait. Two rules were tried.
  * With the first rule, Vector starts the first of its next 16 instructions that is ready. Then the
    ratios of small convolutions in float16 are 0.92 and 0.94, 23 traces are within 10 %, and all
    are within 20 %. But two ratios of autocomp become worse: M0257 rises from 1.16 to 1.32, and
    M0273 from 1.81 to 2.63. Only 88.2 % of the rows are within 20 %.
  * If the limit of 16 instructions of the first rule also applies to Scalar, the seven ratios of
    autocomp's sd_attention rise by 0.12 to 0.19. If the second set of costs above is also used, the
    ratios of small convolutions are 0.81 and 0.84, and the ratios of large convolutions are 0.93
    and 0.99.
  * With the second rule, the compiler fixes the order of the whole program, and all engines keep
    it. To find the next instruction, the compiler looks at the next 8 instructions of the program,
    and takes the one that can begin first. Then 22 traces are within 10 %, all traces are within 20
    %, and the median error of traces falls from 3.6 % to 3.2 %. But only 80.8 % of the rows are
    within 20 %. For mamba kernels whose tiles are spilled, the estimates are 1.9 to 2.3 times the
    measured time. For seven of autocomp's attention kernels, they are 1.4 to 1.7 times the measured
    time.
  * Two changes of the second rule do not help. With 32 instead of 8 instructions, the ratio of
    attention of length 1,024 falls from 0.84 to 0.76. If the compiler also counts the eight banks
    of PSUM when it fixes the order, the ratios of attention, convolutions and the transposition
    change by at most 0.01.
* **On trn1, the compiler omits a copy out of PSUM whose only reader is an addition.** It does so
  even if the copy converts to 16 bits: Vector then adds the product in PSUM to the sum in SBUF.
  Only ewang675/asst4-trainium shows this behavior, in four compiled programs with 1,998 such
  additions each. For trn1, the model omits no copy out of PSUM, because the counters of AccelOpt's
  swiglu show that the compiler kept these copies. In the four programs, the model therefore has
  1,998 instructions too many on Scalar. No rule was tried.
* **On trn1, the compiler omits some copies of rows in float16.** In some kernels, neighboring
  iterations copy rows of one tile into another tile, which only a product reads. Without the
  copies, the product reads the rows where they are, by an access pattern with two steps. In the
  model, all of these copies stay, because the compiler's rule is not known:
  * In float16, convolutions of ewang675/asst4-trainium and Ericcsr/asst4-trainium have no such
    copies. In float32, they have 3,996 and 7,992 copies of 444 columns (eight compiled programs).
  * On trn2, a later release of the compiler keeps such copies in float16 too
    (deepashreeKedia/cs149stanfordasst4).
* **Vector makes other copies within SBUF than in the model.** In the four float32 convolutions of
  the previous item, Vector makes 21 to 31 % of the copies within SBUF. In the model of the
  convolution without pooling of ewang675/asst4-trainium, Vector makes 222 of the 3,996 large copies
  (942 on the device), and copies 24 of 1,776 smaller rows (517 on the device).
* **Stores do not keep the order of the program.** Two kernels show this:
  * In the transposition, stores begin only after the last load was issued, although their data are
    available earlier. Later iterations of the outer loop come first: the first stores write tiles
    48 to 50, then 56 to 63, 51 to 55, 40 to 47, 32 to 39, and so on.
  * In attention of length 1,024, the scores of tiles 0 and 1 are stored first, then the scores of
    tiles 4 to 7, and then the scores of tiles 2 and 3. The next phase loads tiles 4 to 7 first, and
    then tiles 0 to 3.

  A rule was tried: a store waits while a load is ready. The ratio of the transposition stays 0.87,
  also with at most 16 loads in flight, because loads alone keep the DMA engines of the model busy.
  On the device, each DMA engine moves bytes for 23.8 us (24.8 in the model), but is idle for 3.4 us
  between elements. With the rule, the ratio of M1078 rises from 1.01 to 1.19. A rule for the order
  of iterations was not tried.

## Rules on request

Only a single source reports each of these rules, so all of them are off by default. The options
`--assume` and `--loads` ([estimates.md](estimates.md)) turn them on. The table has the figures of
all kernels with each rule.

| rule | estimates that change | median error | within 20 % |
| --- | ---: | ---: | ---: |
| none | 0 | 4.5% | 88.6% |
| `--assume slices` | 6 | 4.5% | 88.6% |
| `--assume copies-in-turn` | 41 | 4.8% | 86.3% |
| `--assume slow-strides` | 95 | 5.8% | 79.3% |
| `--assume loop-drains` | 0 | 4.5% | 88.6% |

* `slices`: a slice of a tile frees its space before the whole tile is dead. No estimate of today's
  API changes, and six of the older API change by at most 1 %. The rule matters for kernels that
  fill SBUF with tiles of many slices.
* `copies-in-turn`: copies out of PSUM wait behind long work on their engine, as baselines of
  AccelOpt seem to show. With this rule, the median ratio of autocomp's sd_attention rises from 1.05
  to 1.77, and the median ratio of allenkchau/trainium-kernel-fusion's baseline attention from 0.99
  to 1.11.
* `slow-strides`: a DMA is half as fast if the rows of its partitions are a power of two bytes
  apart. The repository sample-spectral-dns-on-aws-neuron reports this for NKI 0.6 on trn1.
  * Five sources contradict this rule. With the rule, these ratios rise:
    * M0240 (autocomp, trn1) from 1.01 to 1.83
    * M1079 (Jerry2423/kda-for-trainium) from 0.99 to 1.92
    * M0372 (the SDK) from 1.00 to 1.56
    * M1108 (awslabs/nki-autotune) from 1.00 to 1.46
    * M0333 (a transposition of rishic3/asst4-trainium2) from 0.90 to 1.33
  * Lonny154/Matmul-Inspector, the only source of the table with NKI 0.6 on trn1, neither shows the
    rule nor contradicts it: its ratios change by at most 5 %.
* `loop-drains`: if the device runs a loop, each iteration ends with a wait for all DMA queues. The
  repository sample-spectral-dns-on-aws-neuron reports this too, and that a tile then takes 11.9 us
  instead of 3.2 us. As far as is known, no kernel in the table of measurements has a loop that the
  device runs.
* `--loads single` and `--loads limited` change estimates of the older API. With `--loads single`,
  76.3 % of these estimates are within 20 %, and with `--loads limited` 85.3 %, instead of 86.7 %.
"""


def wrong(rows: Sequence[Json]) -> str:
    """Return the known errors with the ratios of their rows, and the rows without a reason."""
    ratio = {r["id"]: f"{r['id']} {r['ratio']:.2f}" for r in rows}
    shown = (
        (what, ", ".join(ratio[i] for i in ids if i in ratio), why) for what, ids, why in WRONG
    )
    lines = (f"* **{what}** Estimate over measurement: {of}.\n\n{why}" for what, of, why in shown)
    listed = {i for _, ids, _ in WRONG for i in ids}
    rest = [r for r in rows if r["id"] not in listed and not 0.75 <= r["ratio"] <= 4 / 3]
    others = ", ".join(ratio[r["id"]] for r in rest) or "none"
    unknown = "These ratios are outside 0.75 to 1.33, and the reason is not known"
    return f"{''.join(lines)}* **{unknown}:** {others}.\n"
