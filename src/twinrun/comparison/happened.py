"""Whether what a variant asks for happened in a run: stopped and resumed, compiled.

What did not happen cannot be called equal: the bits are those of a training that nothing was
changed in.

A process that a variant ends at its `stop` leaves four kinds of runs: the training never came to
that point and ended whole; it was stopped, and its checkpoint refused, so that the second process
trained from the beginning; it was resumed and broke off; it was resumed and finished. Only the
last ends in bits that say something about resuming.
"""

from twinrun.run_files import variant_of
from twinrun.run_records import RunManifest


def why_not_resumed(manifest: RunManifest) -> str | None:
    """Say why a run that was to be stopped and resumed was not.

    Returns:
        None of a run that was resumed, that broke off when it was, or that was not to be stopped.
    """
    stop = variant_of(manifest).stop
    if stop == "none" or manifest["resumed_at"]:
        return None
    if not manifest["was_stopped"]:
        if stop in ("before_validation", "after_validation"):
            return "the training has no validation"
        return "the training never comes to this point"
    if manifest["not_resumed"] is not None:
        return f"the checkpoint was refused: {manifest['not_resumed']}"
    # Its checkpoint was taken, and loading it broke off: that is a result, not a missing stop.
    return None


def what_did_not_happen(manifest: RunManifest) -> str | None:
    """Say what the variant asks for and the finished run did not do; None if it did everything."""
    compilation = manifest["compilation"]
    # By torch's own counter: that something was to be compiled proves nothing.
    is_compiled = compilation is not None and compilation["compilations"] > 0
    if variant_of(manifest).compile != "none" and not is_compiled:
        return "nothing was compiled"
    return why_not_resumed(manifest)
