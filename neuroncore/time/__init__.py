"""The schedule: from a program and a machine to a timeline and its bottleneck.

Names in this package call the bottleneck the bound. A call is an instruction with its shapes,
formats and operators, but without its data. Many instructions of a program may make the same call.

* `compiled`: the program after the device's compiler: the instructions that remain, and their
  engines. Related modules are `residency` (loads that are left out), `copies` (copies that are left
  out or merged), `policy` (the rules of the compiler), and `costs` and `queues` (the costs of
  calls).
* `schedule`: makes timelines of compiled programs. `prepare` computes their dependencies and costs,
  `timeline` is the result, and `syncs` finds where cores wait for each other.
* `verdict`, `path`, `lines` and `flow`: the bound of a run, and which instruction waits for which.
  `worlds`: the bound of several ranks.
* `changes`, `variation`, `alternatives` and `edits/`: schedules of changed launches, and edits that
  a programmer can make.
* `loops/`: the loops of these modules, which numba compiles to machine code."""
