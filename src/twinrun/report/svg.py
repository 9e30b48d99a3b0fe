"""Put an SVG of ours into a page: names made unique, colours handed to the page's theme."""

import re
from pathlib import Path
from xml.etree import ElementTree

from markupsafe import Markup

from twinrun.figures.style import GRID, INK, MUTED, PAPER

SVG, XLINK = "{http://www.w3.org/2000/svg}", "{http://www.w3.org/1999/xlink}"
THEME = {INK: "var(--ink)", MUTED: "var(--muted)", GRID: "var(--rule)", PAPER: "var(--paper)"}
_THEMED = re.compile("|".join(THEME))


def inline(path: str | Path, *, number: int) -> Markup:
    """Return the figure as an element of an HTML page.

    Ids are prefixed by the figure's number, since those of a page are one set and a clip path of
    the first figure would cut the second. Size, metadata and style sheet, which would reach the
    whole page, are left out: the page's own style has them.

    Args:
        path: an SVG written by `twinrun.figures`.
        number: unlike that of any other figure of the page.
    """
    root = ElementTree.parse(path).getroot()  # noqa: S314 written by us, by a job of this workflow
    for parent in root.iter():
        for child in list(parent):
            if child.tag in (f"{SVG}metadata", f"{SVG}style", f"{SVG}script"):
                parent.remove(child)
    for element in root.iter():
        element.tag = element.tag.removeprefix(SVG)
        for name, value in list(element.attrib.items()):
            del element.attrib[name]
            element.set(name.replace(XLINK, ""), _value(name, value, f"figure{number}-"))
    for name in ("width", "height"):
        del root.attrib[name]
    root.attrib |= {"role": "img", "aria-labelledby": f"figure{number}-title"}
    title = root.find("title")
    if title is not None:
        title.set("id", f"figure{number}-title")
    return Markup(ElementTree.tostring(root, encoding="unicode"))  # noqa: S704 escaped by the writer


def _value(name: str, value: str, prefix: str) -> str:
    if name == "id":
        return prefix + value
    if name.endswith("href") and value.startswith("#"):
        return f"#{prefix}{value[1:]}"
    if name == "style":
        value = _THEMED.sub(lambda match: THEME[match[0]], value)
    return value.replace("url(#", f"url(#{prefix}")
