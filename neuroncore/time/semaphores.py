"""Waits for stores at the end of programs of the older API's compiler.

At the end of such a program, the engine that issued the stores waits for some of them, one after
the other: for each store for which no instruction has waited. The model has these waits only if the
descriptors of DMAs exist before the kernel runs. If the device writes the descriptors, three of the
four latencies measured in xaviergonzalez/asst4-trainium2 leave no time for such waits.

Evidence: compiled programs in seven repositories, on trn1 and trn2, have the waits
(`docs/calibration.md` names the repositories). In traces, attention has 1 wait and a transposition
has 64, as in the model; convolutions have at most 3 more or fewer than in the model. The time of a
wait comes from traces of deepashreeKedia/cs149stanfordasst4. The transposition of
rishic3/asst4-trainium2 takes as long as the one in these traces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from neuroncore.time.loops.work import Work
from neuroncore.time.queues import STORES

if TYPE_CHECKING:
    from neuroncore.time.compiled import Compiled

Array = npt.NDArray[Any]


def final_stores(compiled: Compiled, work: Work) -> Array:
    """Return the stores for which no instruction waits. `work` includes the waits for space."""
    stores: Array = np.flatnonzero((work.queue == STORES) & work.moves)
    if not len(stores):
        return stores
    waited = np.zeros(len(work.queue) + 1, np.bool_)  # the last entry is for -1
    waited[compiled.flow.needs] = True
    waited[work.previous[:, STORES]] = True
    members = np.flatnonzero(compiled.heads >= 0)
    heads = compiled.heads[members[waited[members]]]
    waited[heads] = True  # the head of merged stores moves all bytes
    unwaited: Array = stores[~waited[stores]]
    return unwaited


def complete_last_store(
    stores: Array, wait_ns: float, begin: Array, busy: Array, end: Array
) -> None:
    """Delay the end of the last store until its engine has waited for each of `stores`.

    `wait_ns`: the nanoseconds of each wait
    `begin`, `busy`, `end`: the nanoseconds of each instruction

    Nothing else is delayed, because no instruction waits for these stores."""
    if not wait_ns:
        return
    stores = stores[np.argsort(begin[stores], kind="stable")]
    last, later = stores[-1], np.arange(len(stores))[::-1]  # waits that follow each store's wait
    issued_ns = begin[last] + busy[last]
    complete_ns = max(issued_ns + len(stores) * wait_ns, (end[stores] + later * wait_ns).max())
    end[last] = max(end[last], complete_ns)
