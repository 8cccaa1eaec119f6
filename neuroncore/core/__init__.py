"""Cores, which check, execute and record instructions, and the launch of several cores together.

The definitions of the instructions in isa/ (the clauses) import these modules from here. Each
module is loaded at its first use."""

from typing import TYPE_CHECKING

from neuroncore.base.lazy import modules

if TYPE_CHECKING:
    from neuroncore.core import collectives as collectives
    from neuroncore.core import engines as engines
    from neuroncore.core import indirection as indirection
    from neuroncore.core import replica_groups as replica_groups
    from neuroncore.core import sums as sums
else:
    globals().update(modules(__name__, "collectives engines indirection replica_groups sums"))
