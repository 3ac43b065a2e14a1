"""Decides which operators there are, which of them count, and why the others do not."""

from __future__ import annotations

import collections
import functools
import importlib.resources
import re
import tomllib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from neuron_ops.op_tests.records import BadInput, Denominators, Operator

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
_has_computed_kernel = torch._C._dispatch_has_computed_kernel_for_dispatch_key


@dataclass(frozen=True, slots=True)
class Exclusion:
    """One rule of data/exclusions.toml: a reason and what it matches."""

    reason: str
    why: str
    match: tuple[str, ...] = ()
    schema: str | None = None
    no_tensor: bool = False
    no_cpu_kernel: bool = False


@functools.cache
def _data() -> tuple[tuple[Exclusion, ...], Mapping[str, str]]:
    text = importlib.resources.files("neuron_ops.op_tests").joinpath("data/exclusions.toml").read_text("utf-8")
    data = tomllib.loads(text)
    rules = tuple(Exclusion(**{**rule, "match": tuple(rule.get("match", ()))}) for rule in data["rule"])
    return rules, data["privateuse1"]


def exclusion_rules() -> tuple[Exclusion, ...]:
    """Return the rules in the order in which they are tried."""
    return _data()[0]


def privateuse1_entry_points() -> Mapping[str, str]:
    """Return overloads that PyTorch calls for PrivateUse1 devices only, each with the public overload above it."""
    return _data()[1]


def resolve(name: str) -> torch._ops.OpOverload:
    """Return the overload named like ``aten.add.Tensor``; raises BadInput when the installed torch has no such overload."""
    namespace, _, rest = name.partition(".")
    packet, _, overload = rest.rpartition(".")
    try:
        found = getattr(getattr(getattr(torch.ops, namespace), packet), overload)
    except (AttributeError, RuntimeError):
        found = None
    if not isinstance(found, torch._ops.OpOverload):
        raise BadInput(
            f"no operator overload {name!r} in torch {torch.__version__}; expected a name like aten.add.Tensor, see `neuron-ops ops list`"
        )
    return found


def _kind(schema: torch._C.FunctionSchema) -> str:
    writes = [a for a in schema.arguments if a.alias_info is not None and a.alias_info.is_write]
    if not writes:
        return "functional"
    if any(a.is_out for a in schema.arguments):
        return "out"
    packet = schema.name.partition("::")[2]
    inplace = packet.endswith("_") or (packet.startswith("__i") and packet.endswith("__"))
    return "inplace" if inplace else "mutable"


def _tier(qualified: str) -> str:
    """Return T3 for composite implicit, T2 for composite explicit, T1 for what must be native, translated or fall back."""
    if _has_kernel(qualified, "CompositeImplicitAutograd"):
        return "T3"
    explicit = ("CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional")
    return "T2" if any(_has_kernel(qualified, key) for key in explicit) else "T1"


_FAMILIES: tuple[tuple[str, str], ...] = (
    ("foreach", r"^_foreach_"),
    ("optimizer", r"^_fused_(sgd|adam|adagrad)|^_amp_"),
    ("attention", r"attention|multi_head|transformer_encoder|_transform_bias_rescale"),
    ("convolution", r"conv|^col2im|^im2col"),
    ("normalization", r"norm(_|$)|^renorm|norm_backward|batch_norm|layer_norm|_weight_norm"),
    ("pooling", r"pool|unpool"),
    ("recurrent", r"lstm|gru|rnn_|_thnn|packed"),
    ("fft", r"fft|^stft|^istft"),
    ("linear algebra", r"linalg|cholesky|^qr$|svd|^lu_|lu_|^ormqr|geqrf|orgqr|triangular_solve|lstsq|slogdet|logdet|^det$|inverse|matrix_|pinverse|householder"),
    ("matmul", r"mm(_|$)|bmm|matmul|^dot$|^vdot$|^mv$|^addmv|^addr|linear(_|$)|^inner$|^outer$|^ger$|einsum|tensordot|^baddbmm|bilinear$"),
    ("loss", r"loss|cross_entropy|kl_div|^ctc"),
    ("embedding", r"embedding"),
    ("upsampling", r"upsample|grid_sampl|affine_grid|pixel_(un)?shuffle|channel_shuffle"),
    ("random", r"rand|normal_|^normal|uniform|bernoulli|multinomial|dropout|exponential|geometric|cauchy|poisson|binomial|dirichlet|gamma_?$|log_normal"),
    ("activation", r"relu|gelu|silu|mish|sigmoid|softplus|softmax|elu|hardtanh|hardswish|threshold|glu|softshrink|hardshrink|tanh_backward|log_sigmoid"),
    ("reduction", r"^(sum|mean|prod|amax|amin|aminmax|max|min|std|var|all|any|nansum|nanmean|logsumexp|argmax|argmin|median|nanmedian|mode|count_nonzero|norm|dist)(_|$)|var_mean|std_mean|quantile"),
    ("scan and sort", r"^_?cum|cummax|cummin|logcumsumexp|sort|topk|kthvalue|unique|searchsorted|bucketize|histc|histogram|bincount"),
    ("index", r"index|gather|scatter|take|masked|put_?$|nonzero|where|select_backward|isin"),
    ("factory", r"^(empty|zeros|ones|full|arange|range|linspace|logspace|eye|tril_indices|triu_indices|scalar_tensor|new_)|_window|_like$|^complex$|^polar$|vander"),
    ("view and copy", r"view|reshape|^expand|permute|transpose|^t_?$|squeeze|slice|select|split|chunk|unbind|unfold|diagonal|alias|as_strided|detach|^clone|copy|^cat|stack|^flip|roll|rot90|repeat|tile|^pad|_pad|movedim|swap|flatten|narrow|resize|set_|^to$|_to_copy|contiguous|lift|block_diag|cartesian|combinations|meshgrid|trace|tril|triu|^diag"),
    ("special function", r"^special_|gamma|erf|^i0|polygamma|bessel|zeta|^sinc"),
)  # fmt: skip


def _family(packet: str) -> str:
    """Return the first family whose pattern the operator's name matches; elementwise is what is left."""
    return next((family for family, pattern in _FAMILIES if re.search(pattern, packet)), "elementwise")


@functools.cache
def _packets() -> Mapping[str, tuple[str, ...]]:
    """Return for each operator name, trailing underscore dropped, its overloads that no generator wrote."""
    found = collections.defaultdict(list)
    for qualified in torch._C._dispatch_get_all_op_names():
        if qualified.startswith("aten::") and torch.Tag.generated not in _overload(qualified).tags:
            found[qualified[6:].partition(".")[0].rstrip("_")].append(qualified)
    return {name: tuple(overloads) for name, overloads in found.items()}


def _overload(qualified: str) -> torch._ops.OpOverload:
    packet, _, overload = qualified.removeprefix("aten::").partition(".")
    found: torch._ops.OpOverload = getattr(getattr(torch.ops.aten, packet), overload or "default")
    return found


def _lacks_cpu_kernel(qualified: str, generated: bool) -> bool:
    if not _has_computed_kernel(qualified, "CPU"):
        return True
    if not generated or _has_kernel(qualified, "CPU"):
        return False
    # A generated variant only calls its base: it can run where one of the bases can.
    bases = _packets().get(qualified.removeprefix("aten::").partition(".")[0].rstrip("_"), ())
    return bool(bases) and not any(_has_computed_kernel(base, "CPU") for base in bases)


def _takes_or_returns_tensor(schema: torch._C.FunctionSchema) -> bool:
    return any("Tensor" in str(item.type) for item in (*schema.arguments, *schema.returns))


def _excluded(qualified: str, op: torch._ops.OpOverload) -> str | None:
    packet = qualified.removeprefix("aten::").partition(".")[0]
    for rule in exclusion_rules():
        if (
            (rule.no_tensor and not _takes_or_returns_tensor(op._schema))
            or any(re.search(pattern, packet) for pattern in rule.match)
            or (rule.schema is not None and rule.schema in str(op._schema))
            or (rule.no_cpu_kernel and _lacks_cpu_kernel(qualified, torch.Tag.generated in op.tags))
        ):
            return rule.reason
    return None


@functools.cache
def operators() -> tuple[Operator, ...]:
    """Return every ATen overload of the dispatcher, sorted by name, with its tier and the reason where it is excluded."""
    # TorchScript-only schemas are not in the dispatcher, so _jit_get_all_schemas is not the census.
    found = []
    for qualified in torch._C._dispatch_get_all_op_names():
        if not qualified.startswith("aten::"):
            continue
        op = _overload(qualified)
        packet = qualified[6:].partition(".")[0]
        tags = tuple(sorted(str(tag).rpartition(".")[2] for tag in op.tags))
        found.append(
            Operator(
                str(op),
                str(op._schema),
                tags,
                _family(packet),
                _kind(op._schema),
                _tier(qualified),
                _excluded(qualified, op),
            )
        )
    return tuple(sorted(found, key=lambda operator: operator.name))


@functools.cache
def by_name() -> Mapping[str, Operator]:
    """Return the operators keyed by name."""
    return {operator.name: operator for operator in operators()}


def denominators() -> Denominators:
    """Return the counts of the installed torch: D_all, D_key = T1 + T2, T1, and each exclusion's count."""
    counted = [operator for operator in operators() if operator.excluded is None]
    tiers = collections.Counter(operator.tier for operator in counted)
    excluded = collections.Counter(operator.excluded for operator in operators() if operator.excluded is not None)
    return Denominators(
        torch=torch.__version__.partition("+")[0],
        registered=len(operators()),
        d_all=len(counted),
        d_key=tiers["T1"] + tiers["T2"],
        t1=tiers["T1"],
        excluded=dict(excluded.most_common()),
    )


def select(patterns: Sequence[str]) -> tuple[Operator, ...]:
    """Return the counted operators (and the PrivateUse1 entry points) that the patterns name, sorted by name.

    A pattern is ``core``, ``all``, ``T1``…``T3``, an operator (``add``, ``aten.add``), an overload (``aten.add.Tensor``)
    or a glob (``aten.linalg_*``). Raises BadInput for a pattern that matches nothing.
    """
    import fnmatch

    extra = privateuse1_entry_points()
    pool = [operator for operator in operators() if operator.excluded is None or operator.name in extra]
    chosen: dict[str, Operator] = {}
    for pattern in patterns:
        name = pattern.replace("::", ".")
        name = name if name.startswith("aten.") or name in ("core", "all", "T1", "T2", "T3") else f"aten.{name}"
        hits = [
            operator
            for operator in pool
            if name == "all"
            or (name == "core" and operator.core)
            or name in (operator.tier, operator.name, operator.packet)
            or (any(c in name for c in "*?[") and fnmatch.fnmatchcase(operator.name, name))
        ]
        if not hits:
            raise BadInput(_nothing(pattern, name))
        chosen.update((operator.name, operator) for operator in hits)
    return tuple(sorted(chosen.values(), key=lambda operator: operator.name))


def _nothing(pattern: str, name: str) -> str:
    excluded = [operator for operator in operators() if name in (operator.name, operator.packet)]
    if excluded:
        return f"operator {pattern!r} is outside the denominator ({excluded[0].excluded}); expected one that counts, see `neuron-ops ops list`"
    import difflib

    near = difflib.get_close_matches(name, [operator.packet for operator in operators()], n=3)
    hint = f"did you mean {', '.join(dict.fromkeys(near))}?" if near else "see `neuron-ops ops list`"
    return f"no operator matches {pattern!r} in torch {torch.__version__}; expected core, all, a name like aten.add.Tensor or a glob; {hint}"
