"""From comparisons and timings to verdicts: key, question, answer, what was measured, evidence."""
