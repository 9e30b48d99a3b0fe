"""An SVG that was drawn, read back."""

from xml.etree import ElementTree

SVG = "{http://www.w3.org/2000/svg}"


class Drawing:
    """An SVG that was read back."""

    def __init__(self, path):
        self.bytes = path.read_bytes()
        self.root = ElementTree.fromstring(self.bytes)  # noqa: S314 our own
        self.texts = ["".join(text.itertext()) for text in self.root.iter(f"{SVG}text")]
        self.text = "\n".join(self.texts)

    def filled(self, colour, tag="path"):
        return [
            element
            for element in self.root.iter(SVG + tag)
            if f"fill: {colour}" in element.get("style", "")
        ]

    def line_lengths(self, colour):
        """Count the points of each line of a colour."""
        paths = [path for path in self.root.iter(f"{SVG}path") if path.get("d")]
        lines = [path for path in paths if f"stroke: {colour}" in path.get("style", "")]
        return [1 + path.get("d").count("L") for path in lines]

    def marks(self, identity):
        """Give the marks of the line with an id."""
        (line,) = (group for group in self.root.iter(f"{SVG}g") if group.get("id") == identity)
        return list(line.iter(f"{SVG}use"))

    def points(self, identity):
        """Give where the marks of a line stand, (across, down)."""
        return [(float(mark.get("x")), float(mark.get("y"))) for mark in self.marks(identity)]

    def ticks(self, identity):
        """Give the ids of the ticks of the axes with an id, grid lines included."""
        (axes,) = (group for group in self.root.iter(f"{SVG}g") if group.get("id") == identity)
        ids = [element.get("id", "") for element in axes.iter()]
        return [name for name in ids if name.startswith(("xtick", "ytick"))]

    def numbers_across(self):
        """Give the texts of all ticks along the x axes."""
        ticks = [g for g in self.root.iter(f"{SVG}g") if g.get("id", "").startswith("xtick")]
        return ["".join(text.itertext()) for g in ticks for text in g.iter(f"{SVG}text")]

    def ids(self):
        return {element.get("id") for element in self.root.iter()}
