"""How far chance alone may have moved a figure: the same figure of windows drawn again and again."""

import math
import random
from collections.abc import Callable, Sequence
from typing import TypeVar

from bench.figures import percentile

_DRAWS = 300
_SEED = 7
ANYWHERE = (0.0, math.inf)
"""Where a figure may lie of which there are fewer than `_FEW` windows."""
_FEW = 3
_ASIDE = 0.025
"""The share of draws that is left out at either end."""

Window = TypeVar("Window")


def between(windows: Sequence[Window], figure: Callable[[Sequence[Window]], float]) -> tuple[float, float]:
    """Where the figure lies 95 times of 100.

    Whole windows are drawn, not calls: what disturbs one call disturbs its neighbours, too.
    """
    if len(windows) < _FEW:
        return ANYWHERE
    dice = random.Random(_SEED)
    drawn = sorted(figure(dice.choices(windows, k=len(windows))) for _ in range(_DRAWS))
    return percentile(drawn, _ASIDE), percentile(drawn, 1 - _ASIDE)
