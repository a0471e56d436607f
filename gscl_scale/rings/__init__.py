"""Who is how far: priorities, ring samples, ring statistics; arrays in, arrays out."""

from gscl_scale.rings.choice import Choice, choose_engine, expected_lists
from gscl_scale.rings.complete import complete
from gscl_scale.rings.exact import exact_rings, independent_rings
from gscl_scale.rings.growth import RowChanges, growth_of_last_ring
from gscl_scale.rings.level import NEAR_PER_WIDTH, Level, head_words, near_words
from gscl_scale.rings.marks import forget_marks
from gscl_scale.rings.pagerank import pagerank
from gscl_scale.rings.priorities import Priorities, draw_priorities
from gscl_scale.rings.profile import ring_profile
from gscl_scale.rings.read import read_rings
from gscl_scale.rings.sample import Lists, RingSample, rename_nodes, replace_rows, wanted
from gscl_scale.rings.sketch import first_level, level_zero, next_level

__all__ = [
    "NEAR_PER_WIDTH",
    "Choice",
    "Level",
    "Lists",
    "Priorities",
    "RingSample",
    "RowChanges",
    "choose_engine",
    "complete",
    "draw_priorities",
    "exact_rings",
    "expected_lists",
    "first_level",
    "forget_marks",
    "growth_of_last_ring",
    "head_words",
    "independent_rings",
    "level_zero",
    "near_words",
    "next_level",
    "pagerank",
    "read_rings",
    "rename_nodes",
    "replace_rows",
    "ring_profile",
    "wanted",
]
