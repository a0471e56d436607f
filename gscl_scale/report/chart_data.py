"""The values of a chart for whoever points at it or reads it by keys: places in its picture, and words."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes

from gscl_scale.report.html import Html, element

_POINTS_PER_INCH = 72  # the unit of an SVG picture by matplotlib


@dataclass(frozen=True)
class Line:
    """Values of one line: its places on both axes, and what to show of each; `colour` is one of CSS."""

    name: str
    colour: str
    at: Sequence[float]
    values: Sequence[float]
    words: Sequence[str]


def readable(axes: Axes, picture: Html, lines: Sequence[Line], words: Callable[[float], str]) -> Html:
    """The picture of the axes, drawn already, with its values for `page.js`; `words` names a place on the x axis."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    per_pixel = _POINTS_PER_INCH / figure.dpi
    wide, high = (float(inches) * _POINTS_PER_INCH for inches in figure.get_size_inches())
    frame = axes.get_window_extent()
    at = sorted({place for line in lines for place in line.at})

    def place(x: float, y: float) -> tuple[float, float]:
        right, up = axes.transData.transform((x, y)) * per_pixel
        return round(float(right), 1), round(high - float(up), 1)

    series = []
    for line in lines:
        known = dict(zip(line.at, zip(line.values, line.words, strict=True), strict=True))
        heights = [place(x, known[x][0])[1] if x in known else None for x in at]
        series.append(
            {"name": line.name, "colour": line.colour, "y": heights,
             "values": [known[x][1] if x in known else "" for x in at]}
        )  # fmt: skip
    data = {
        "size": [round(wide, 1), round(high, 1)],
        "box": [round(float(edge), 1) for edge in (
            frame.x0 * per_pixel, high - frame.y1 * per_pixel, frame.x1 * per_pixel, high - frame.y0 * per_pixel
        )],
        "at": [words(x) for x in at],
        "x": [place(x, 0)[0] for x in at],
        "series": series,
    }  # fmt: skip
    return element("div", picture, class_="chart", data_chart=json.dumps(data, separators=(",", ":")))
