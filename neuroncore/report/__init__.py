"""Reports about a run, for people and for programs: functions of a record and its timeline.

Other rooms import these modules from here. Each is loaded at its first use.
"""

from typing import TYPE_CHECKING

from neuroncore.base.lazy import modules

if TYPE_CHECKING:
    from neuroncore.report import arrays as arrays
    from neuroncore.report import difference as difference
    from neuroncore.report import heat_maps as heat_maps
else:
    globals().update(modules(__name__, "arrays", "difference", "heat_maps"))
