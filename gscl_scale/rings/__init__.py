"""Who is how far: priorities, ring samples, ring statistics; arrays in, arrays out."""

from gscl_scale.rings.exact import exact_rings
from gscl_scale.rings.pagerank import pagerank
from gscl_scale.rings.priorities import Priorities, draw_priorities
from gscl_scale.rings.profile import ring_profile
from gscl_scale.rings.sample import Lists, RingSample, wanted

__all__ = [
    "Lists",
    "Priorities",
    "RingSample",
    "draw_priorities",
    "exact_rings",
    "pagerank",
    "ring_profile",
    "wanted",
]
