"""Solving and factorising: values, layouts, pivots and info of the CPU's LAPACK; what is unique up to signs by its properties."""

import itertools

import pytest
import torch
from neuron_ops.translators import (
    eigenvalues,
    factorization,
    indefinite,
    least_squares,
    matrix_exponential,
    spectral,
    triangular,
)
from neuron_ops.translators.registry import REGISTRY
from translator_calls import same

MODULES = (eigenvalues, factorization, indefinite, least_squares, matrix_exponential, spectral, triangular)
CLOSE = {"rtol": 2e-3, "atol": 2e-4}
SHAPES = [(0, 0), (1, 1), (2, 2), (5, 5), (2, 3, 4, 4), (0, 3, 3), (2, 0, 0)]
TALL_AND_WIDE = [(5, 3), (3, 5), (4, 4), (2, 6, 2), (2, 2, 6), (0, 3), (3, 0), (0, 4, 3), (1, 3), (3, 1)]


def _matrix(*shape, dtype=torch.float32):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)), dtype=torch.float64).to(dtype)


def _definite(*shape):
    a = _matrix(*shape)
    return a @ a.mT + torch.eye(shape[-1]) if a.numel() else a


def _ours(overload, *args, **kwargs):
    return REGISTRY[overload].function(*args, **kwargs)


@pytest.mark.parametrize("shape", SHAPES)
def test_cholesky(shape):
    a = _definite(*shape)
    for upper in (False, True):
        same("aten.linalg_cholesky_ex.default", a, upper=upper, **CLOSE)
        factor = torch.linalg.cholesky(a, upper=upper)
        same("aten.cholesky_inverse.default", factor, upper, **CLOSE)
        same("aten._cholesky_solve_helper.default", a, factor, upper, **CLOSE)


def test_cholesky_reads_one_triangle_and_says_where_it_fails():
    a = _definite(3, 3)
    a[0, 2] = 1000.0
    same("aten.linalg_cholesky_ex.default", a, **CLOSE)
    broken = torch.stack([_definite(3, 3), -torch.eye(3), torch.diag(torch.tensor([1.0, -1.0, 1.0]))])
    info = _ours("aten.linalg_cholesky_ex.default", broken)[1]
    assert info.tolist() == [0, 1, 2]
    assert info.dtype == torch.int32


@pytest.mark.parametrize("shape", SHAPES)
def test_general_systems(shape):
    a = _matrix(*shape)
    same("aten.linalg_inv_ex.default", a, **CLOSE)
    same("aten._linalg_det.default", a, **CLOSE)
    same("aten._linalg_slogdet.default", a.mT, **CLOSE)
    for left in (True, False):
        b = _matrix(*shape[:-2], shape[-1], 3) if left else _matrix(*shape[:-2], 3, shape[-1])
        same("aten._linalg_solve_ex.default", a, b, left=left, **CLOSE)
        factors, pivots, _ = torch.linalg.lu_factor_ex(a)
        for adjoint in (False, True):
            same("aten.linalg_lu_solve.default", factors, pivots, b, left=left, adjoint=adjoint, **CLOSE)


def test_rows_of_vectors():
    same("aten._linalg_solve_ex.default", _matrix(2, 5, 5), _matrix(2, 5), **CLOSE)
    same("aten._linalg_solve_ex.default", _matrix(5, 5), _matrix(5), **CLOSE)


@pytest.mark.parametrize("shape", TALL_AND_WIDE)
def test_lu(shape):
    a = _matrix(*shape)
    same("aten.linalg_lu.default", a, **CLOSE)
    same("aten.linalg_lu_factor_ex.default", a, **CLOSE)
    _, lower, upper = _ours("aten.linalg_lu.default", a, pivot=False)  # which the CPU does not have
    torch.testing.assert_close(lower @ upper, a, rtol=1e-3, atol=1e-3)
    factors, pivots, _ = torch.linalg.lu_factor_ex(a)
    for data, rows in itertools.product((True, False), repeat=2):
        same("aten.lu_unpack.default", factors, pivots, data, rows)


def test_lu_of_singular_matrices_and_ties():
    a = torch.tensor([[[1.0, 2.0], [1.0, 2.0]], [[0.0, 0.0], [0.0, 3.0]], [[-2.0, 1.0], [2.0, 1.0]]])
    same("aten.linalg_lu_factor_ex.default", a)
    same("aten.lu_unpack.default", torch.tensor([[2.0, 1.0], [-0.0, 1.0]]), torch.tensor([1, 2], dtype=torch.int32))


@pytest.mark.parametrize("shape", SHAPES)
def test_triangular_systems(shape):
    a = _matrix(*shape) + 3 * torch.eye(shape[-1])
    for upper, left, unit in itertools.product((True, False), repeat=3):
        b = _matrix(*shape[:-2], shape[-1], 2) if left else _matrix(*shape[:-2], 2, shape[-1])
        same("aten.linalg_solve_triangular.default", a, b, upper=upper, left=left, unitriangular=unit, **CLOSE)
    if a.numel():  # the CPU raises for none
        for transpose in (True, False):
            same("aten.triangular_solve.default", _matrix(*shape[:-1], 2), a, True, transpose, False, **CLOSE)


@pytest.mark.parametrize("shape", TALL_AND_WIDE)
def test_qr(shape):
    a = _matrix(*shape)
    for mode in ("reduced", "complete", "r"):
        same("aten.linalg_qr.default", a, mode, **CLOSE)
    same("aten.geqrf.default", a, **CLOSE)
    if shape[-2] >= shape[-1]:
        work, taus = torch.geqrf(a)
        same("aten.linalg_householder_product.default", work, taus, **CLOSE)
        for left, transpose in itertools.product((True, False), repeat=2):
            other = _matrix(*shape[:-1], 2) if left else _matrix(*shape[:-2], 2, shape[-2])
            if a.numel():
                same("aten.ormqr.default", work, taus, other, left, transpose, **CLOSE)


@pytest.mark.parametrize("shape", SHAPES)
def test_eigenvalues_of_symmetric_matrices(shape):
    a = _matrix(*shape)
    for uplo in ("L", "U"):
        values, vectors = _ours("aten._linalg_eigh.default", a, uplo)
        torch.testing.assert_close(values, torch.linalg.eigvalsh(a, uplo), rtol=1e-4, atol=1e-5)
        full = torch.tril(a) + torch.tril(a, -1).mT if uplo == "L" else torch.triu(a) + torch.triu(a, 1).mT
        torch.testing.assert_close(full @ vectors, vectors * values.unsqueeze(-2), rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(vectors.mT @ vectors, torch.eye(shape[-1]).expand_as(a), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shape", [*TALL_AND_WIDE, (4, 4)])
@pytest.mark.parametrize("full", [True, False])
def test_singular_values(shape, full):
    a = _matrix(*shape)
    if a.numel():
        a[..., 0] = a[..., -1]  # a rank that is not full
    u, values, vh = _ours("aten._linalg_svd.default", a, full, True)
    want = torch.linalg.svd(a, full_matrices=full)
    assert [x.shape for x in (u, values, vh)] == [x.shape for x in want]
    torch.testing.assert_close(values, want[1], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close((u[..., : values.size(-1)] * values.unsqueeze(-2)) @ vh[..., : values.size(-1), :], a)
    for q in (u, vh.mT):
        torch.testing.assert_close(q.mT @ q, torch.eye(q.size(-1)).expand(*q.shape[:-2], -1, -1), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("n", [0, 1, 2, 3, 6])
def test_indefinite_systems_with_pivots_of_one_and_two_rows(n):
    a = _matrix(2, 8, n, n)
    a = a + a.mT
    a[0].diagonal(dim1=-2, dim2=-1).zero_()  # pivots of two rows
    factors, pivots, info = torch.linalg.ldl_factor_ex(a)
    assert n < 2 or bool((pivots < 0).any())
    assert n < 2 or bool((pivots > 0).any())
    got = _ours("aten.linalg_ldl_factor_ex.default", a)
    assert torch.equal(got[1], pivots)
    assert torch.equal(got[2], info)
    torch.testing.assert_close(got[0], factors, **CLOSE)
    same("aten.linalg_ldl_solve.default", factors, pivots, _matrix(2, 8, n, 2), strides=n > 1, rtol=1e-2, atol=1e-3)


def test_indefinite_factors_say_where_there_is_no_pivot():
    a = torch.stack(
        [torch.eye(3), torch.zeros(3, 3), torch.tensor([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 2.0]])]
    )
    same("aten.linalg_ldl_factor_ex.default", a)


@pytest.mark.parametrize("shape", [s for s in TALL_AND_WIDE if 0 not in s])
def test_least_squares(shape):
    a, b = _matrix(*shape), _matrix(*shape[:-1], 2)
    for driver in (None, "gels", "gelsy", "gelsd", "gelss"):
        if driver in ("gelsd", "gelss") and shape[-2] > shape[-1]:
            with pytest.raises(NotImplementedError, match="depends on values"):
                _ours("aten.linalg_lstsq.default", a, b, driver=driver)
        else:
            same("aten.linalg_lstsq.default", a, b, driver=driver, **CLOSE)
    same("aten.linalg_lstsq.default", a, b[..., 0].contiguous(), driver="gels", **CLOSE)


def test_least_squares_without_full_rank():
    a = _matrix(5, 3)
    a[:, 2] = a[:, 1]
    same("aten.linalg_lstsq.default", a, _matrix(5, 2), driver="gelsy", **CLOSE)
    same("aten.linalg_lstsq.default", a.mT.contiguous(), _matrix(3, 2), driver="gelsd", **CLOSE)


def test_least_squares_of_huge_numbers_do_not_overflow():
    a, b = _matrix(4, 3) * 1e30, _matrix(4, 2) * 1e35
    for driver in ("gels", "gelsy"):
        same("aten.linalg_lstsq.default", a, b / 1e5, driver=driver, rtol=1e-3, atol=1e-3)
        same("aten.linalg_lstsq.default", _matrix(3, 3), b[:3], driver=driver, rtol=1e-3, atol=1e30)


@pytest.mark.parametrize("scale", [0.0, 1e-3, 1.0, 5.0, 30.0])
def test_matrix_exponential(scale):
    for shape in SHAPES:
        if 0 not in shape:
            a = _matrix(*shape) * scale
            a = a - a.mT if scale > 5 else a  # rotations stay small, however far they turn
            same("aten.linalg_matrix_exp.default", a, strides=False, rtol=1e-4, atol=1e-4)
    nilpotent = torch.tensor([[0.0, 1e6], [0.0, 0.0]])
    same("aten.linalg_matrix_exp.default", nilpotent)
    exact = torch.linalg.matrix_exp(_matrix(5, 5, dtype=torch.float64))
    torch.testing.assert_close(
        _ours("aten.linalg_matrix_exp.default", _matrix(5, 5, dtype=torch.float64)), exact, rtol=1e-12, atol=1e-12
    )


def _matched(got, want):
    """Return the largest distance of eigenvalues to their nearest partners, each taken once."""
    far = 0.0
    for mine, theirs in zip(
        got.reshape(-1, got.size(-1)).tolist(), want.reshape(-1, want.size(-1)).tolist(), strict=True
    ):
        left = list(theirs)
        for value in mine:
            near = min(left, key=lambda other, value=value: abs(other - value))
            far = max(far, abs(near - value))
            left.remove(near)
    return far


GENERAL = [
    _matrix(3, 5, 5),
    _matrix(1, 9, 9),
    torch.eye(4),
    torch.zeros(3, 3),
    torch.ones(5, 5),
    torch.tensor([[0.0, 1.0], [-1.0, 0.0]]),
    torch.diag(torch.tensor([1e4, 1.0, 1e-2, -5.0, 300.0])) + 0.01 * _matrix(5, 5),
    _matrix(4, 4) * 1e-20,
    torch.tensor([[7.0]]),
]


@pytest.mark.parametrize("a", GENERAL)
def test_eigenvalues_of_general_matrices(a):
    values, vectors = _ours("aten.linalg_eig.default", a)
    size = float(a.abs().max()) or 1.0
    assert _matched(values, torch.linalg.eigvals(a.double())) < 2e-5 * size
    assert (a.to(vectors.dtype) @ vectors - vectors * values.unsqueeze(-2)).abs().max() < 2e-5 * size
    torch.testing.assert_close(vectors.abs().square().sum(-2), torch.ones(values.shape))
    assert torch.linalg.svdvals(vectors).min() > 1e-3, "vectors that depend on each other"
    assert torch.equal(values, _ours("aten._linalg_eigvals.default", a))


def test_eigenvalues_of_defective_and_empty_matrices():
    jordan = torch.diag(torch.ones(2), 1) + 2 * torch.eye(3)
    assert _matched(_ours("aten._linalg_eigvals.default", jordan), torch.full((3,), 2.0 + 0j)) < 2e-2  # eps ** (1 / 3)
    for shape in ((0, 0), (2, 0, 0), (0, 3, 3)):
        for got, want in zip(
            _ours("aten.linalg_eig.default", torch.zeros(shape)), torch.linalg.eig(torch.zeros(shape)), strict=True
        ):
            assert (got.shape, got.dtype) == (want.shape, want.dtype)
    with pytest.raises(NotImplementedError, match="floating-point"):
        _ours("aten._linalg_eigvals.default", torch.ones(2, 2, dtype=torch.int64))
    out = torch.empty(7, dtype=torch.complex64)
    with pytest.warns(UserWarning, match="was resized"):
        assert REGISTRY["aten.linalg_eigvals.out"].function(torch.eye(2), out=out) is out
    assert out.tolist() == [1, 1]
