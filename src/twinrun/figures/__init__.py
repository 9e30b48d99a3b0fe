"""Tables and weights of runs, comparisons and timings -> SVG figures, one function a figure.

Most modules bear the name of what they draw. `pairs` draws where two runs differ, `growth` how
they diverge, `training` what a run learned, `timings` what it cost; `style` holds what they share.
Text stays text: a figure can be searched, read aloud and restyled by the page it stands in. The
same input gives the same bytes.
"""
