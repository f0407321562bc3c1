"""Drills: one thing goes wrong on purpose, and a promise is seen to be kept. `make drill` lists them."""

from collections.abc import Mapping
from typing import Final

from rehearsal.drills import capacity, create_fails, scale_down
from rehearsal.drills.drill import Drill

_ALL: Final = (create_fails.DRILL, capacity.DRILL, scale_down.DRILL)
DRILLS: Final[Mapping[str, Drill]] = {drill.name: drill for drill in _ALL}
"""By name, in the order in which they are listed. A further drill is a module of this package and a word here."""
