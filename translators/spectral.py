"""Decides how eigenvalues of symmetric matrices and singular values are computed: by Jacobi's rotations, all pairs in parallel.

Imported by translators.families. One round turns n/2 pairs at once with one product of matrices; the number of sweeps is fixed,
so that nothing is read back.
"""

from __future__ import annotations

import torch
from neuron_ops.translators.factorization import reflected, reflections
from neuron_ops.translators.promotion import refuse_complex
from neuron_ops.translators.registry import translator
from neuron_ops.translators.triangular import columns

_JACOBI = "Golub and Van Loan §8.5, Jacobi rotations in round-robin order"
_SWEEPS = {torch.float32: 10, torch.float64: 14}


def _rounds(n: int) -> list[list[tuple[int, int]]]:
    """Return for each round of a sweep the pairs (p < q) that it turns; every pair once a sweep."""
    players = [*range(n)] + ([-1] if n % 2 else [])
    rounds = []
    for _ in range(len(players) - 1):
        half = len(players) // 2
        pairs = zip(players[:half], reversed(players[half:]), strict=True)
        rounds.append([(min(p, q), max(p, q)) for p, q in pairs if p >= 0 and q >= 0])
        players = [players[0], players[-1], *players[1:-1]]
    return rounds


def _rotation(pp: torch.Tensor, qq: torch.Tensor, pq: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return cosine and sine that make the element pq of each pair zero; one and zero where it is."""
    none = pq == 0
    tau = (qq - pp) / (2 * torch.where(none, 1.0, pq))
    t = torch.where(tau >= 0, 1.0, -1.0) / (tau.abs() + torch.sqrt(1 + tau * tau))
    t = torch.where(none, 0.0, t)
    c = torch.rsqrt(1 + t * t)
    return c, t * c


def _turn(c: torch.Tensor, s: torch.Tensor, pairs: list[tuple[int, int]], n: int) -> torch.Tensor:
    """Return the matrices of all rotations of a round."""
    one, zero = torch.ones_like(c[..., :1]), torch.zeros_like(c[..., :1])
    cosines, partners = [one] * n, [zero] * n
    where = list(range(n))
    for number, (p, q) in enumerate(pairs):
        cosines[p] = cosines[q] = c[..., number : number + 1]
        partners[p], partners[q] = -s[..., number : number + 1], s[..., number : number + 1]
        where[p], where[q] = q, p
    place = torch.arange(n, device=c.device)
    other = torch.cat([torch.full((1,), w, dtype=torch.int64, device=c.device) for w in where])
    eye, swapped = place.unsqueeze(-1) == place, place.unsqueeze(-1) == other
    diagonal, off = torch.cat(cosines, -1).unsqueeze(-2), torch.cat(partners, -1).unsqueeze(-2)
    return torch.where(eye, diagonal, torch.where(swapped, off, 0.0))


def _picked(values: torch.Tensor, pairs: list[tuple[int, int]], side: int) -> torch.Tensor:
    return torch.cat([values[..., pair[side] : pair[side] + 1] for pair in pairs], -1)


def eigh(a: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return ascending eigenvalues (…, n) and eigenvectors (…, n, n) of symmetric matrices."""
    n = a.size(-1)
    work = a.clone(memory_format=torch.contiguous_format)
    vectors = torch.eye(n, dtype=a.dtype, device=a.device).expand(a.shape)
    for pairs in _rounds(n) * _SWEEPS.get(a.dtype, 10) if n > 1 else []:
        diagonal = torch.diagonal(work, dim1=-2, dim2=-1)
        off = torch.cat([work[..., p, q : q + 1] for p, q in pairs], -1)
        c, s = _rotation(_picked(diagonal, pairs, 0), _picked(diagonal, pairs, 1), off)
        turn = _turn(c, s, pairs, n)
        work = torch.matmul(torch.matmul(turn.mT, work), turn)
        vectors = torch.matmul(vectors, turn)
    values, order = torch.sort(torch.diagonal(work, dim1=-2, dim2=-1), -1)
    return values, torch.gather(vectors, -1, order.unsqueeze(-2).expand(vectors.shape))


@translator("aten._linalg_eigh.default", source=_JACOBI)
def linalg_eigh(
    A: torch.Tensor, UPLO: str = "L", compute_v: bool = True  # noqa: N803
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """Return eigenvalues and eigenvectors of the matrix that one triangle gives."""
    refuse_complex(A)
    lower = UPLO.upper() == "L"
    triangle = torch.tril(A) if lower else torch.triu(A)
    strict = torch.tril(A, -1) if lower else torch.triu(A, 1)
    values, vectors = eigh(triangle + strict.mT)
    return values, columns(vectors) if compute_v else torch.empty((0,), dtype=A.dtype, device=A.device)


def svd(a: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return U (…, m, n), descending S (…, n) and V (…, n, n) of tall matrices; U's columns of zero values are zero."""
    n = a.size(-1)
    work = a.clone(memory_format=torch.contiguous_format)
    right = torch.eye(n, dtype=a.dtype, device=a.device).expand(*a.shape[:-2], n, n)
    for pairs in _rounds(n) * _SWEEPS.get(a.dtype, 10) if n > 1 else []:
        gram = torch.matmul(work.mT, work)
        diagonal = torch.diagonal(gram, dim1=-2, dim2=-1)
        off = torch.cat([gram[..., p, q : q + 1] for p, q in pairs], -1)
        c, s = _rotation(_picked(diagonal, pairs, 0), _picked(diagonal, pairs, 1), off)
        turn = _turn(c, s, pairs, n)
        work, right = torch.matmul(work, turn), torch.matmul(right, turn)
    values, order = torch.sort(torch.sqrt(torch.sum(work * work, -2)), -1, descending=True)
    work = torch.gather(work, -1, order.unsqueeze(-2).expand(work.shape))
    right = torch.gather(right, -1, order.unsqueeze(-2).expand(right.shape))
    safe = values.unsqueeze(-2)
    return torch.where(safe > 0, work / torch.where(safe > 0, safe, 1.0), 0.0), values, right


def _completed(u: torch.Tensor, values: torch.Tensor, width: int) -> torch.Tensor:
    """Return orthonormal columns: those of u where the singular value says something, others from a QR of u."""
    m, n = u.shape[-2:]
    work, taus = reflections(u)
    q = reflected(work, taus, torch.eye(m, width, dtype=u.dtype, device=u.device).expand(*u.shape[:-2], m, width))
    if n == 0:
        return q
    floor = values[..., :1] * torch.finfo(u.dtype).eps * max(m, n)
    good = (values > floor).unsqueeze(-2)
    return torch.cat([torch.where(good, u, q[..., :n]), q[..., n:]], -1)


@translator("aten._linalg_svd.default", source=_JACOBI)
def linalg_svd(
    A: torch.Tensor, full_matrices: bool = False, compute_uv: bool = True, *, driver: str | None = None  # noqa: ARG001, N803
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:  # fmt: skip
    """Return U, S and Vᴴ; without `compute_uv` U and Vᴴ are empty."""
    refuse_complex(A)
    m, n = A.shape[-2:]
    wide = m < n
    u, values, v = svd(A.mT if wide else A)
    if not compute_uv:
        empty = torch.empty((0,), dtype=A.dtype, device=A.device)
        return empty, values, torch.empty_like(empty)
    tall, short = max(m, n), min(m, n)
    u = _completed(u, values, tall if full_matrices else short)
    return (columns(v), values, columns(u.mT)) if wide else (columns(u), values, columns(v.mT))
