"""The building blocks of the instruction definitions in isa/ (clauses): operands, shapes, rules,
arithmetic, costs."""

from typing import TYPE_CHECKING

from neuroncore.base.lazy import modules

if TYPE_CHECKING:
    from neuroncore.clause import product as product
else:
    globals().update(modules(__name__, "product"))
