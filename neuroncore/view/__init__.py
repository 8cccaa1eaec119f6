"""One HTML file that shows a run: the time, source line and bytes of every instruction.

Other rooms import these modules from here. Each is loaded at its first use.
"""

from typing import TYPE_CHECKING

from neuroncore.base.lazy import modules

if TYPE_CHECKING:
    from neuroncore.view import card as card
    from neuroncore.view import document as document
    from neuroncore.view import page as page
    from neuroncore.view import server as server
else:
    globals().update(modules(__name__, "card document page server"))
