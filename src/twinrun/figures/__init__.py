"""Tables and weights of runs, comparisons and timings -> SVG figures, one function a figure.

`pairs` draws where two runs differ, `training` what a run learned, `timings` what it cost,
`datasets` what it was trained on; `style` holds what they share. Text stays text: a figure can be
searched, read aloud and restyled by the page it stands in. The same input gives the same bytes.
"""
