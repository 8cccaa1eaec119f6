"""What is likely wrong with a kernel: found in its source, and in the record of its run.

* `check` puts both together: `neuroncore check` and `neuroncore.check` are it.
* `static` reads the file and all that it calls, and executes nothing of it: `modules` finds files
  and what names mean, `kernels` which functions the device runs, `names` what names in those are
  bound to, `values` what expressions are, and `walk` goes through them; `nodes` and `syntax` are
  what stands in a tree. Rules are in `subset`, `dynamic`, `purity`, `signatures`, `calls` and
  `older`; names and parameters of each release, and known issues, are data in `api/`.
* `execution` runs a file in a process of its own, with limits of time and memory.
* `recorded` reads what a launch left behind: its record and its schedule.
* `codes/` is the table of codes, a row each; `neuroncore.findings` reads it, and has `Finding`.

Modules that read the source import neither numpy nor anything that does, so that a check of a file
is done before those would be loaded.
"""
