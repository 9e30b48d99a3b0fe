"""From comparisons and timings to verdicts: question, answer, what was measured, evidence."""
