"""Text of docs/calibration.md: behavior in public traces and compiled programs that the model
lacks."""

OBSERVED = """
## Observed, but not in the model

Public traces and compiled programs of the older API's compiler show more than the model has. These
rules are not in use because only one author shows them, or because with them the estimates of
other authors' kernels are worse. The numbers are estimates over the windows of the 26 traces of
`bench/traces.csv`, or over the measurements below.

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
* Loads and stores of neighboring tiles are merged, up to 512 KiB each: two tiles of scores, four
  or eight of results. In trainium-kernel-fusion only; compiled convolutions of three other authors
  have nearly one store for each tile. This rule was not tried.
* A queue has at most 16 transfers in flight, as it has 16 semaphores (all compiled programs, and a
  trace of a transposition). With that rule, no window changes, and no vector addition by more than
  7 %.
* In a transposition, stores begin after the last load was issued, though their data are there
  before that (cs149stanfordasst4 only). This rule was not tried.
"""
