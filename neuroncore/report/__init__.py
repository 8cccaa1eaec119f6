"""Reports about a run, for people and for programs.

Most reports are made from a timeline: the recorded instructions of a core and their estimated
times. Other packages import these modules from here. Each module is loaded at its first use."""

from typing import TYPE_CHECKING

from neuroncore.base.lazy import modules

if TYPE_CHECKING:
    from neuroncore.report import arrays as arrays
    from neuroncore.report import collectives as collectives
    from neuroncore.report import compare as compare
    from neuroncore.report import difference as difference
    from neuroncore.report import heat_maps as heat_maps
    from neuroncore.report import listing as listing
    from neuroncore.report import perfetto as perfetto
    from neuroncore.report import precision as precision
    from neuroncore.report import why as why
else:
    _names = "arrays collectives compare difference heat_maps listing perfetto precision why"
    globals().update(modules(__name__, _names))
