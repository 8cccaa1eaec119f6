"""Edits that a programmer can make to a kernel. Each edit comes with the launch that results from
it.

* `edit`: what an edit is; `candidates`: the edits that may help a launch.
* `buffers`: a second buffer for a tile; `transfers`: fewer, larger transfers, and loaded data that
  is kept; `halves`: tiles that are processed in halves; `placement`: other engines, other formats,
  sums in PSUM, fewer barriers.
"""
