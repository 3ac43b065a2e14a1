"""The definitions that the site prints: one row a letter, route, reason, evidence word and tier, one anchor each."""

from __future__ import annotations

from dataclasses import dataclass

from neuron_ops.op_tests.records import Evidence, FallbackReason, Route, Status


@dataclass(frozen=True, slots=True)
class Word:
    """One term of the legend.

    `anchor` is the fragment on /statuses, `css` the suffix of the colour class, `label` one to three words,
    `definition` what it says, `limits` what it does not say.
    """

    value: str
    anchor: str
    label: str
    definition: str
    limits: str = ""
    css: str = ""


STATUSES: dict[str, Word] = {
    word.value: word
    for word in (
        Word(
            Status.NATIVE, "native", "native pass",
            "The call ran on the target as itself: by the operator's own kernel there, or by PyTorch's composite "
            "kernel with every part native, and all outputs of every tested case agreed with the CPU reference "
            "within tolerance.",
            "Anything about speed, about samples that were not tried, or about other dtypes.", "N",
        ),
        Word(
            Status.TRANSLATED, "translated", "translated pass",
            "All outputs agreed with the reference and all work stayed on the target, but other operators did it: "
            "a decomposition or one of our verified translators. The operators used are listed.",
            "That each piece is fast.", "D",
        ),
        Word(
            Status.FALLBACK, "cpu-fallback", "CPU fallback",
            "All outputs agreed with the reference, but the host CPU computed at least a part of the call. The "
            "reason is shown. Never counted as supported.",
            "What the device itself can do.", "C",
        ),
        Word(
            Status.WRONG, "wrong", "wrong result",
            "The call ended without an error, and an output was outside tolerance or had another dtype, shape, "
            "aliasing or placement of NaN and infinity than the reference, or an input was changed that must not "
            "be.",
            "That it is always wrong: the cases are listed one by one.", "W",
        ),
        Word(
            Status.UNSUPPORTED, "unsupported", "unsupported",
            "The target refused the call before running it and said that the operator, the overload, the dtype or "
            "the shape is not supported.",
            "That it stays so in later versions.", "U",
        ),
        Word(
            Status.ERROR, "error", "error",
            "The call raised anything else: a failed compilation, a failure at run time, no memory. The first line "
            "is shown.",
            "Whose fault it is.", "E",
        ),
        Word(
            Status.CRASH, "crash", "crash",
            "The process that made the call died, or the device had to be reset.",
            "Whether a second try would end the same way.", "E",
        ),
        Word(
            Status.TIMEOUT, "timeout", "timeout",
            "The call had not ended when its time limit passed.",
            "That it never ends.", "E",
        ),
        Word(
            Status.UNTESTED, "untested", "untested",
            "There is no valid result. Skipped cases are untested too, and carry their reason. Untested cells stay "
            "in every denominator and are never a pass.",
            "Anything about the target.", "none",
        ),
        Word(
            Status.NOT_APPLICABLE, "not-applicable", "not applicable",
            "The CPU reference itself refuses this operator with this dtype, so there is nothing to compare with. "
            "The cell is taken out of the denominator.",
            "Anything about the target.", "na",
        ),
    )
}  # fmt: skip

ROUTES: dict[str, Word] = {
    word.value: word
    for word in (
        Word(
            Route.NATIVE, "route-native", "native",
            "The target's own kernel did the work. “Native through composite” means that PyTorch's composite "
            "kernel split the call and every part was native; the parts are listed.",
        ),
        Word(
            Route.TRANSLATED, "route-translated", "translated",
            "At least one part was replaced by a translator or a decomposition, and every part stayed on the "
            "target.",
        ),
        Word(Route.FALLBACK, "route-fallback", "CPU fallback", "At least one part was computed by the host CPU."),
    )
}  # fmt: skip

REASONS: dict[str, Word] = {
    word.value: word
    for word in (
        Word(
            FallbackReason.UNIMPLEMENTED, "reason-unimplemented", "unimplemented",
            "The target registers no kernel for the operator, so PyTorch hands the call to the CPU.",
        ),
        Word(
            FallbackReason.FAILED, "reason-failed-on-device", "failed on device",
            "The target tried, failed, and its software repeated the call on the CPU.",
        ),
        Word(
            FallbackReason.HOST, "reason-runs-on-the-host", "registered but runs on the host",
            "The target registers the operator, and what it registers copies the tensors to the CPU and computes "
            "there.",
        ),
    )
}  # fmt: skip

EVIDENCE: dict[str, Word] = {
    word.value: word
    for word in (
        Word(Evidence.HARDWARE, "hardware", "measured on hardware", "The cases ran on an AWS Trainium device."),
        Word(
            Evidence.SIMULATED, "simulated", "simulated",
            "Dispatched on the simulated neuron device, which carries the operator set that the vendor's source of "
            "April 2026 registers; values come from CPU kernels. It predicts how an operator would be served, it says "
            "nothing of device numerics, speed or memory.",
        ),
        Word(
            Evidence.DECLARED, "declared", "declared",
            "A statement of the vendor, not run by us. Never a pass in any number.",
            "That the call works.",
        ),
    )
}  # fmt: skip

TIERS: dict[str, Word] = {
    word.value: word
    for word in (
        Word(
            "T1", "tier-1", "no composite kernel",
            "PyTorch has no kernel that builds this overload from others, so a target must implement it, translate "
            "it or leave it to the CPU. These are the hard core of the denominator D_key.",
        ),
        Word(
            "T2", "tier-2", "composite if unregistered",
            "The overload reaches the target's dispatch key, but where the target registers nothing, a composite "
            "kernel of PyTorch runs and calls simpler overloads. Part of D_key.",
        ),
        Word(
            "T3", "tier-3", "always decomposed",
            "PyTorch splits the overload above autograd, so the target normally never sees its name, only its "
            "parts. Part of D_all, not of D_key.",
        ),
    )
}  # fmt: skip

MARKS: dict[str, str] = {Evidence.SIMULATED: "~", Evidence.DECLARED: "()"}
"""What a cell shows beside its letter; a cell measured on hardware carries no mark."""


def status_word(value: str) -> Word:
    """Return the definition of one letter; raises KeyError for anything that is no letter."""
    return STATUSES[value]


def status_from_text(text: str) -> str | None:
    """Return the letter for a letter, label or anchor in any case (`native` → N, `-` → untested), or None."""
    plain = text.strip().casefold()
    if plain in {"-", "none"}:
        return Status.UNTESTED.value
    if plain == "fallback":
        return Status.FALLBACK.value
    for value, word in STATUSES.items():
        if plain in {value.casefold(), word.label.casefold(), word.anchor}:
            return value
    return None
