"""What must hold of the factors of a matrix whatever their signs and phases: reconstruction, orthonormality, form.

A factorization is unique up to these (torch.linalg.qr, svd, eigh and eig say so in their documentation). The bound on
each relative residual is that of a backward stable algorithm, c * n * eps (Higham 2002, "Accuracy and Stability of
Numerical Algorithms", 19.3 and 21), or twice the CPU's own residual where that is larger.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import torch

Tensor = torch.Tensor
_Values: TypeAlias = Mapping[int, Tensor]
_Options: TypeAlias = Mapping[str, object]
_Residuals: TypeAlias = Iterator[tuple[str, float]]

RESIDUAL_FACTOR = 32.0
"""c of c * n * eps: twice the largest of LAPACK's, measured on 6,000 random, Hermitian and badly scaled matrices of up to
67 x 64 in float32, float64 and complex64: qr 2.5, eigh 1.8, svd 9.8, eig 15.8 (torch 2.13)."""

CPU_RESIDUAL_FACTOR = 2.0


@dataclass(frozen=True, slots=True)
class Factor:
    """One factorization: outputs that are not unique, whether eigenvalues come in any order, and its residuals."""

    free: frozenset[int]
    residuals: Callable[[Tensor, _Values, _Options], _Residuals]
    off: tuple[str, object] | None = None
    unordered: bool = False

    def has_vectors(self, options: _Options) -> bool:
        """Return whether the call was asked for the factors that are not unique."""
        return self.off is None or options.get(self.off[0]) != self.off[1]

    def message(self, matrix: Tensor, want: _Values, got: _Values, options: _Options, dtype: torch.dtype) -> str | None:
        """Return which property the device's factors lack and by how much, or None."""
        if not self.has_vectors(options):
            return None
        wide = matrix.to(torch.complex128 if matrix.is_complex() else torch.float64)
        allowed = RESIDUAL_FACTOR * max(matrix.shape[-2:]) * torch.finfo(dtype).eps
        cpu = dict(self.residuals(wide, _widened(want), options))
        for name, residual in self.residuals(wide, _widened(got), options):
            bound = max(allowed, CPU_RESIDUAL_FACTOR * cpu[name])
            if not residual <= bound:
                return f"outputs: {name} is off by {residual:.3g}, at most {bound:.3g} is rounding, the CPU's is {cpu[name]:.3g}"
        return None


def _widened(values: _Values) -> _Values:
    return {n: t.to(torch.complex128 if t.is_complex() else torch.float64) for n, t in values.items()}


def _size(matrix: Tensor) -> Tensor:
    size: Tensor = torch.linalg.matrix_norm(matrix)
    return size


def _relative(difference: Tensor, matrix: Tensor) -> float:
    """Return the largest Frobenius norm of the differences over that of their matrices."""
    size = _size(matrix)
    error = _size(difference)
    return float(torch.where(size > 0, error / size, error).max())


def _orthonormal(columns: Tensor) -> float:
    count = columns.shape[-1]
    if not count:
        return 0.0
    return _relative(
        columns.mH @ columns - torch.eye(count, dtype=columns.dtype), torch.eye(count, dtype=columns.dtype)
    )


def _qr(matrix: Tensor, values: _Values, options: _Options) -> _Residuals:
    q, r = values[0], values[1]
    yield "R below its diagonal", _relative(r.tril(-1), matrix)
    if options.get("mode") == "r":
        gram = matrix.mH @ matrix
        yield "R^H R against A^H A", _relative(r.mH @ r - gram, gram)
        return
    yield "Q R against A", _relative(q @ r - matrix, matrix)
    yield "Q^H Q against the identity", _orthonormal(q)


def _svd(matrix: Tensor, values: _Values, _options: _Options) -> _Residuals:
    return _svd_of(matrix, values[0], values[1], values[2])


def _old_svd(matrix: Tensor, values: _Values, _options: _Options) -> _Residuals:
    return _svd_of(matrix, values[0], values[1], values[2].mH)


def _svd_of(matrix: Tensor, u: Tensor, s: Tensor, vh: Tensor) -> _Residuals:
    count = s.shape[-1]
    product = (u[..., :count] * s.unsqueeze(-2)) @ vh[..., :count, :]
    yield "U S V^H against A", _relative(product - matrix, matrix)
    yield "U^H U against the identity", _orthonormal(u)
    yield "V^H V against the identity", _orthonormal(vh.mH)


def _eigh(matrix: Tensor, values: _Values, options: _Options) -> _Residuals:
    upper = str(options.get("UPLO") or "L").upper() == "U"
    half = matrix.triu(1) if upper else matrix.tril(-1)
    diagonal = matrix.diagonal(dim1=-2, dim2=-1)
    whole = half + half.mH + torch.diag_embed(diagonal.real.to(matrix.dtype) if matrix.is_complex() else diagonal)
    vectors = values[1]
    yield "A V against V L", _relative(whole @ vectors - vectors * values[0].unsqueeze(-2), whole)
    yield "V^H V against the identity", _orthonormal(vectors)


def _eig(matrix: Tensor, values: _Values, _options: _Options) -> _Residuals:
    whole, vectors = matrix.to(torch.complex128), values[1]
    yield "A V against V L", _relative(whole @ vectors - vectors * values[0].unsqueeze(-2), whole)
    lengths = torch.linalg.vector_norm(vectors, dim=-2)
    yield "the length of an eigenvector against 1", float((lengths - 1).abs().max())
    # The same eigenvector twice would pass the lines above. The fourth root turns the bound, twice the CPU's, into
    # sixteen times: a defective matrix has eigenvectors whose independence is rounding noise.
    smallest = torch.linalg.svdvals(vectors)[..., -1]
    yield "the dependence of the eigenvectors", float(smallest.clamp(min=1e-300).pow(-0.25).max())


def _none(_matrix: Tensor, _values: _Values, _options: _Options) -> _Residuals:
    return iter(())


FACTORS: Mapping[str, Factor] = {
    "qr": Factor(frozenset({0, 1}), _qr),
    "svd": Factor(frozenset({0, 2}), _svd, off=("compute_uv", False)),
    "old svd": Factor(frozenset({0, 2}), _old_svd, off=("compute_uv", False)),
    "eigh": Factor(frozenset({1}), _eigh, off=("compute_v", False)),
    "eig": Factor(frozenset({1}), _eig, unordered=True),
    "eigvals": Factor(frozenset({0}), _none, unordered=True),
}
"""Key `by` of a row in exceptions.toml → the factorization."""


def nearest_order(want: Tensor, got: Tensor) -> Tensor:
    """Return `got` with its last dimension in the order that pairs each value with the nearest of `want`."""
    left, right = want.reshape(-1, want.shape[-1]), got.reshape(-1, got.shape[-1])
    ordered = torch.empty_like(right)
    for row in range(left.shape[0]):
        open_places = list(range(left.shape[1]))
        for place in range(left.shape[1]):
            best = min(open_places, key=lambda j, r=row, p=place: float((right[r, j] - left[r, p]).abs()))  # type: ignore[misc]
            ordered[row, place] = right[row, best]
            open_places.remove(best)
    return ordered.reshape(got.shape)
