"""The schedule: from a program and a machine to a timeline and its bottleneck.

* `compiled`: what the device's compiler leaves of a program: which instructions, on which engines,
  what is loaded once (`residency`), which copies are written in place (`copies`), what it may do
  (`policy`), and what it costs (`costs`, `queues`).
* `schedule`: the timeline of compiled programs, from what `prepare` makes of their dependencies and
  costs; `timeline` is what it gives, `meetings` where ranks wait for each other.
* `verdict`, `path`, `lines` and `flow`: what bounds a run, and who waits for whom; `worlds`: the
  same of several ranks.
* `changes`, `variation`, `alternatives` and `edits/`: schedules of what might be, and changes that
  a programmer can make.
* `loops/`: the compiled loops of all of these.
"""
