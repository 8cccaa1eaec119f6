"""Machines as data: cores, chips, instances, and the links between them.

* `Machine` and `load`: one core and its numbers, from `isa/machines/<name>.toml`.
* `world`: the numbers of ranks and cores of a launch.
* `chip`, `instance` and `topology`: chips, instances and their links; `collective_time` estimates
  how long cores need to communicate, and `runtime` has the limits of the runtime. These modules are
  loaded at their first use.
"""

from typing import TYPE_CHECKING

from neuroncore.base.lazy import modules
from neuroncore.machine.facts import Fact as Fact
from neuroncore.machine.facts import FactReader as FactReader
from neuroncore.machine.facts import isa as isa
from neuroncore.machine.machine import Dma as Dma
from neuroncore.machine.machine import Fixed as Fixed
from neuroncore.machine.machine import Hbm as Hbm
from neuroncore.machine.machine import Limits as Limits
from neuroncore.machine.machine import Machine as Machine
from neuroncore.machine.machine import Psum as Psum
from neuroncore.machine.machine import ReplayTimes as ReplayTimes
from neuroncore.machine.machine import Sbuf as Sbuf
from neuroncore.machine.machine import aliases as aliases
from neuroncore.machine.machine import api_number as api_number
from neuroncore.machine.machine import api_versions as api_versions
from neuroncore.machine.machine import having as having
from neuroncore.machine.machine import load as load
from neuroncore.machine.machine import names as names
from neuroncore.machine.machine import parse as parse

if TYPE_CHECKING:
    from neuroncore.machine import chip as chip
    from neuroncore.machine import collective_time as collective_time
    from neuroncore.machine import instance as instance
    from neuroncore.machine import runtime as runtime
else:
    globals().update(modules(__name__, "chip collective_time instance runtime"))
