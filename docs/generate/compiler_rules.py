"""The rules for what compilers do, with their evidence, for docs/calibration.md."""

from __future__ import annotations

# Assumed compiler behavior, the order it applies to, and its evidence.
RULES = (
    ("each engine and each queue of DMAs executes the first of its next 32 instructions that is "
     "ready; loads are in the order in which the kernel uses them", "scheduled",
     "awslabs/nki-autotune, KevGomes1403/nki-moe-megakernel"),
    ("each engine keeps the order of the source; loads are in the order in which the kernel uses "
     "them; instructions that read nothing run ahead", "standalone",
     "public compile options of nki-library; awslabs/nki-autotune (one kernel without "
     "scheduling)"),
    ("each engine executes the first of its next 128 instructions that is ready, and each queue of "
     "DMAs starts the first of its next 32 transfers that is ready", "compiled",
     "autocomp, robertpare17/asst4-trainium; transfers: allenkchau/trainium-kernel-fusion, also "
     "xaviergonzalez/asst4-trainium2"),
    ("the queue of stores has 16 semaphores, so at most 16 stores are in flight", "compiled",
     "allenkchau/trainium-kernel-fusion, deepashreeKedia/cs149stanfordasst4, "
     "Ericcsr/asst4-trainium, sahiljain01/asst4-trainium, waahm7/asst4-trainium (compiled "
     "programs); rishic3/asst4-trainium2 (transposition)"),
    ("a program whose descriptors are written before it runs ends with waits for its stores, one "
     "after the other; on trn2, each takes 70 ns", "compiled",
     "the five authors of compiled programs in the row above; ichuniq/asst4-trainium, "
     "Yousef02/149-asst4-trainium (compiled programs); the time: "
     "deepashreeKedia/cs149stanfordasst4 (traces), rishic3/asst4-trainium2"),
    ("a load that is repeated happens once if the data fit into SBUF", "compiled",
     "AccelOpt (counters), autocomp"),
    ("sums of the same tiles, operations with constants, and reciprocals are computed once, if "
     "they are repeated in a loop that does not change their operands", "compiled",
     "logs of compilers with the passes LICM and ValueNumbering (dinghongsong/NeuronMM, "
     "KevGomes1403/trainium-model-translation, xanderdunn); aws-neuron-sdk, "
     "Jerry2423/kda-for-trainium, autocomp; against: AccelOpt's M0203"),
    ("a copy that names no engine goes to Vector or Scalar: to the one that would end the copy "
     "first if instructions began in the order of the program; on trn1, copies out of PSUM go to "
     "Scalar",
     "compiled",
     "AccelOpt (counters); copies out of PSUM: allenkchau/trainium-kernel-fusion, "
     "deepashreeKedia/cs149stanfordasst4 (traces on trn2), Jerry2423/kda-for-trainium (counters "
     "of bmm on trn2), waahm7/asst4-trainium, Ericcsr/asst4-trainium, sahiljain01/asst4-trainium "
     "(compiled programs on trn1)"),
    ("multiplications and additions with constants also go to Vector or Scalar: to the one that "
     "would end them first",
     "compiled",
     "AccelOpt (counters of silu, adamw), autocomp (layernorm)"),
    ("on trn2 and trn3, a copy out of PSUM is omitted if the readers of the copy can read PSUM in "
     "no more time",
     "compiled", "allenkchau/trainium-kernel-fusion (profiles; its compiled programs keep a copy "
                 "that completes a tile), AccelOpt; not on trn1: AccelOpt (counters of swiglu)"),
    ("small instructions of all iterations of a parallel loop are merged; the rest of the loop "
     "comes before or after the merged instructions", "compiled",
     "allenkchau/trainium-kernel-fusion (profiles), autocomp (conv1d), "
     "sahiljain01/asst4-trainium (compiled program); not with `skip_middle_end_transformations`. "
     "A loop whose products accumulate is parallel too (the SDK's documentation of affine_range, "
     "autocomp's attention)"),
    ("on trn2, loads and stores of neighboring iterations of a parallel loop are merged, up to "
     "512 KiB",
     "compiled", "allenkchau/trainium-kernel-fusion (compiled programs), logs of compilers with "
                 "the pass VectorizeDMA (dinghongsong/NeuronMM, "
                 "KevGomes1403/trainium-model-translation), Jerry2423/kda-for-trainium; not with "
                 "`skip_middle_end_transformations`: deepashreeKedia/cs149stanfordasst4 "
                 "(compiled programs)"),
    ("products that are added to a tile in PSUM accumulate in this tile if nothing else reads the "
     "products",
     "compiled", "sahiljain01/asst4-trainium (compiled program, by name), Ericcsr/asst4-trainium, "
     "waahm7/asst4-trainium (compiled programs: results of nl.matmul)"),
    ("a copy within SBUF is omitted if its formats are equal, its bytes are next to each other, "
     "and the readers of the copy can read the source of the copy",
     "compiled", "deepashreeKedia/cs149stanfordasst4 (traces), Ericcsr/asst4-trainium, "
                 "sahiljain01/asst4-trainium (compiled programs)"),
    ("copies of transposes in the same bank are merged, up to 512 columns", "compiled",
     "allenkchau/trainium-kernel-fusion, Ericcsr/asst4-trainium, sahiljain01/asst4-trainium, "
     "waahm7/asst4-trainium (compiled programs)"),
    ("32-bit DMA transposes become loads and products", "compiled",
     "Jerry2423/kda-for-trainium (one source)"),
    ("with `--disable-dge`, descriptors are written before the kernel runs", "compiled",
     "AccelOpt, Jerry2423/kda-for-trainium, rishic3/asst4-trainium2"),
    ("without `--disable-dge` on trn2, hardware writes the descriptors of Sync's loads and "
     "Scalar's stores of tensors that the kernel both writes and reads; GpSimd writes all other "
     "descriptors, for one load or store at a time", "compiled",
     "allenkchau/trainium-kernel-fusion (traces), xaviergonzalez/asst4-trainium2"),
    ("the least recently used tile is spilled, and nothing overlaps with the spill", "compiled",
     "AccelOpt (counters), aws-neuron-sdk"),
)  # fmt: skip

RULED = """\

## Assumed compiler behavior

The table lists the rules of `neuroncore/time/` for what compilers do, and the sources that support
each rule. If the table names one source for a rule, there is no other evidence for it.

If only a single row of the table of measurements shows a behavior, the model has no rule for it.
For example, only autocomp's sd_attention#3 shows a fusion of copies. In this variant, the compiler
seems to fuse the copies to bfloat16 with the instructions before these copies: on the device, the
variant takes as long as the variant without copies. The estimate of sd_attention#3 includes the
copies, and is 21 % longer than the measurement.
"""
