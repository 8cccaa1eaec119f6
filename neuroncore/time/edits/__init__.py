"""Changes that a programmer can make to a kernel, each as the launch that it would lead to.

* `edit`: what an edit is; `candidates`: those that may help a launch.
* `buffers`: another buffer for a tile; `transfers`: fewer, larger transfers, and loads that are
  kept; `placement`: other engines, other formats, sums in PSUM, fewer barriers.
"""
