#!/usr/bin/env python3
"""Records values.jsonl: the results and gradients that JAX computes for linear algebra and Fourier transforms at edges.

Run `python3 record.py > values.jsonl` with jax 0.10.2.

Each line is one case: the function's name, the kind of edge ("at"), the arguments, the results ("out"), and the derivative of
the sum of the float results, weighted by cos(1), cos(2), .. ("grad"), or null if there is none or JAX has none. A complex array
is recorded as two arrays, real and imaginary parts, in arguments, results and derivatives. Signs and bases of vectors are
conventions, so functions that do not depend on them are recorded: projectors, products, factors with a positive diagonal.
"""

import json

import jax
import jax.numpy as jnp
import jax.scipy as jsp
import numpy as np

jax.config.update("jax_enable_x64", True)
VERSION = 1


def write(x):
    x = np.asarray(x)
    names = {"float64": "f64", "int64": "i64", "int32": "i64"}

    def one(v):
        if isinstance(v, float) and not np.isfinite(v):
            return "nan" if v != v else ("inf" if v > 0 else "-inf")
        return v

    return {"dtype": names[x.dtype.name], "shape": list(x.shape), "data": [one(v) for v in x.flatten().tolist()]}


def listed(y):
    parts = []
    for y in y if isinstance(y, (list, tuple)) else [y]:
        parts += [y.real, y.imag] if jnp.iscomplexobj(y) else [y]
    return parts


def case(name, at, f, *args, differentiable=True):
    args = [np.asarray(a, dtype=float) for a in args]
    out = [np.asarray(y) for y in listed(f(*args))]

    def weighted(*x):
        total = 0.0
        for y in listed(f(*x)):
            if jnp.issubdtype(y.dtype, jnp.floating):
                y = jnp.ravel(y)
                total = total + jnp.sum(y * jnp.cos(1.0 + jnp.arange(y.size)))
        return total

    try:
        grads = jax.grad(weighted, argnums=tuple(range(len(args))))(*args) if differentiable else None
        grad = [write(g) for g in grads] if differentiable else None
    except (NotImplementedError, TypeError, ValueError):
        grad = None
    line = {"f": name, "at": at, "args": [write(a) for a in args], "out": [write(y) for y in out], "grad": grad}
    print(json.dumps(line, separators=(",", ":")))


def numbers(*shape):
    """Returns an array of irregular numbers between -1 and 1, the same on every machine."""
    size = int(np.prod(shape))
    return np.sin(1.0 + 2.3 * np.arange(size) + 0.7 * np.arange(size) ** 2).reshape(shape)


def regular(*shape):
    return numbers(*shape) + 2.0 * np.eye(shape[-2], shape[-1])


def positive(*shape):
    a = numbers(*shape)
    return a @ np.swapaxes(a, -1, -2) + np.eye(shape[-1])


def deficient(m, n, rank):
    return numbers(m, rank) @ numbers(rank, n)[:, ::-1]


print(json.dumps({"version": VERSION, "jax": jax.__version__}))
la, sla = jnp.linalg, jsp.linalg
SQUARES = [("1x1", 1, 1), ("2x2", 2, 2), ("3x3", 3, 3), ("batch", 2, 3, 3), ("empty batch", 0, 2, 2)]
RECTANGLES = [("1x1", 1, 1), ("one row", 1, 3), ("one column", 3, 1), ("wide", 2, 4), ("tall", 4, 2), ("batch", 2, 3, 2),
              ("empty batch", 0, 3, 2)]
ZERO, ONES = np.zeros((2, 2)), np.ones((2, 2))

# -- factors ----------------------------------------------------------------------------------------

for at, *shape in SQUARES:
    case("cholesky", at, la.cholesky, positive(*shape))
case("cholesky", "not symmetric", la.cholesky, positive(2, 2) + [[0.0, 0.5], [0.0, 0.0]])
case("cholesky", "indefinite", la.cholesky, [[1.0, 2.0], [2.0, 1.0]])
case("cholesky", "singular", la.cholesky, ONES)


def qr(a):
    q, r = la.qr(a)
    sign = jax.lax.stop_gradient(jnp.where(jnp.diagonal(r, axis1=-2, axis2=-1) < 0, -1.0, 1.0))
    return q * sign[..., None, :], r * sign[..., :, None]


for at, *shape in RECTANGLES:
    case("qr", at, qr, regular(*shape))
    if len(shape) == 2:
        case("lu", at, sla.lu, regular(*shape))
case("lu", "a tie of pivots", sla.lu, [[1.0, 2.0], [-1.0, 3.0]])
case("qr", "square", qr, regular(3, 3))

# -- systems ----------------------------------------------------------------------------------------

for at, *shape in SQUARES:
    case("solve", at, la.solve, regular(*shape), numbers(*shape[:-1], 2))
    case("inv", at, la.inv, regular(*shape))
    case("det", at, la.det, regular(*shape))
    case("slogdet", at, la.slogdet, regular(*shape))
    case("cho_solve", at, lambda l, b: sla.cho_solve((l, True), b), np.tril(regular(*shape)), numbers(*shape[:-1], 2))
case("solve", "a vector", la.solve, regular(3, 3), numbers(3))
case("solve", "singular", la.solve, ONES, numbers(2))
case("inv", "singular", la.inv, ONES)
case("slogdet", "negative", la.slogdet, [[0.0, 2.0], [3.0, 1.0]])
for at, a in [("singular 1x1", [[0.0]]), ("singular 2x2", ONES), ("zero", ZERO), ("singular 3x3", deficient(3, 3, 2)),
              ("rank one of three", deficient(3, 3, 1))]:
    case("det", at, la.det, a)
    case("slogdet", at, la.slogdet, a)
for lower in [True, False]:
    for trans in [False, True]:
        for unit in [False, True]:
            flags = f"{'lower' if lower else 'upper'}{' transposed' if trans else ''}{' unit' if unit else ''}"
            solve = lambda t, b: sla.solve_triangular(t, b, trans=int(trans), lower=lower, unit_diagonal=unit)
            # The triangle that is not read holds arbitrary numbers.
            case(f"solve_triangular {flags}", "3x3", solve, regular(3, 3), numbers(3, 2))
            case(f"solve_triangular {flags}", "1x1", solve, [[2.0]], [[3.0]])
case("solve_triangular lower", "a vector", lambda t, b: sla.solve_triangular(t, b, lower=True), regular(3, 3), numbers(3))
case("solve_triangular lower", "singular", lambda t, b: sla.solve_triangular(t, b, lower=True), [[1.0, 0.0], [1.0, 0.0]],
     numbers(2))
for at, shape in [("3x3", (3,)), ("batch", (2, 4))]:
    rows = [numbers(*shape), numbers(*shape) + 3.0, numbers(*shape)[..., ::-1]]
    rows[0][..., 0] = rows[2][..., -1] = 0.0
    case("tridiagonal_solve", at, jax.lax.linalg.tridiagonal_solve, *rows, numbers(*shape, 2))


def least(a, b):
    return la.lstsq(a, b)[0]


for at, *shape in RECTANGLES[:5]:
    case("lstsq", at, least, regular(*shape), numbers(shape[0]))
    case("pinv", at, la.pinv, regular(*shape))
case("lstsq", "several", least, regular(4, 2), numbers(4, 3))
case("lstsq", "deficient", least, deficient(4, 3, 2), numbers(4))
case("lstsq", "zero", least, ZERO, numbers(2))
case("pinv", "batch", la.pinv, regular(2, 3, 2))
case("pinv", "deficient", la.pinv, deficient(4, 3, 2))
case("pinv", "zero", la.pinv, ZERO)

# -- spectra ----------------------------------------------------------------------------------------


def projector(a):
    v = la.eigh(a)[1][..., :1]
    return v @ jnp.swapaxes(v, -1, -2)


def polar(a):
    u, _, vt = la.svd(a, full_matrices=False)
    return u @ vt


def moments(a):
    w = la.eigvals(a)
    return jnp.stack([(w**2).sum(-1).real, (jnp.abs(w) ** 2).sum(-1)], -1)


REPEATED = [("a multiple of one", 2.0 * np.eye(3)), ("two equal", np.diag([1.0, 3.0, 1.0])), ("zero", np.zeros((3, 3)))]
for at, *shape in SQUARES:
    case("eigvalsh", at, la.eigvalsh, positive(*shape))
    case("eigh_projector", at, projector, positive(*shape))
    case("eigvals_moments", at, moments, regular(*shape))
    case("expm", at, sla.expm, numbers(*shape))
case("eigvals_moments", "a conjugate pair", moments, [[1.0, -2.0], [3.0, 1.0]])
for at, a in REPEATED:
    case("spectrum_exp", at, lambda a: jnp.exp(la.eigvalsh(a)).sum(), a)
    case("spectrum_squares", at, lambda a: (la.svd(a, compute_uv=False) ** 2).sum(), a)
for at, *shape in RECTANGLES:
    case("svdvals", at, lambda a: la.svd(a, compute_uv=False), regular(*shape))
    if len(shape) == 2 and min(shape) > 1:
        case("svd_polar", at, polar, regular(*shape))
# The singular value 0 is an absolute value at 0: each sign of its vectors gives another derivative, so none is recorded.
case("svdvals", "deficient", lambda a: la.svd(a, compute_uv=False), deficient(3, 3, 2), differentiable=False)
case("svd_polar", "square", polar, regular(3, 3))
case("expm", "zero", sla.expm, np.zeros((3, 3)))
case("expm", "large", sla.expm, 30.0 * numbers(2, 2))
case("expm", "nilpotent", sla.expm, [[0.0, 1.0], [0.0, 0.0]])
for at, a in [("1x1", [[4.0]]), ("2x2", regular(2, 2)), ("3x3", positive(3, 3)), ("a turn", [[0.0, -1.0], [1.0, 0.0]])]:
    case("sqrtm", at, lambda a: sla.sqrtm(a).real, a)
for name, order in [("frobenius", "fro"), ("nuclear", "nuc"), ("one", 1), ("spectral", 2), ("infinity", jnp.inf)]:
    for at, *shape in [("1x1", 1, 1), ("wide", 2, 3), ("tall", 3, 2), ("batch", 2, 2, 2)]:
        case(f"norm {name}", at, lambda a: la.norm(a, order, (-2, -1)), numbers(*shape))
for at, a in [("2x2", regular(2, 2)), ("singular", ONES), ("zero", ZERO)]:
    case("matrix_rank", at, la.matrix_rank, a)
case("cond_number", "2x2", la.cond, regular(2, 2))
case("polyfit", "a cubic", lambda x, y: jnp.polyfit(x, y, 3), np.linspace(-1.0, 2.0, 7), numbers(7))
case("normal_logpdf", "3x3", lambda x, m, c: jsp.stats.multivariate_normal.logpdf(x, m, c), numbers(3), numbers(3)[::-1],
     positive(3, 3))

# -- transforms -------------------------------------------------------------------------------------

fft = jnp.fft


def parts(f):
    return lambda re, im: f(re + 1j * im)


def pair(*shape):
    return numbers(*shape), numbers(*shape)[..., ::-1] + 0.5


# Complex matrices. The order of axes or the sum over states make results independent of the phases of vectors.


def hermitian(a, b):
    h = a + 1j * b
    return (h + jnp.conj(jnp.swapaxes(h, -1, -2))) / 2


def onto_lowest(a, b):
    v = la.eigh(hermitian(a, b))[1][..., :1]
    return v @ jnp.conj(jnp.swapaxes(v, -1, -2))


for at, *shape in SQUARES:
    case("complex eigvalsh", at, lambda a, b: la.eigvalsh(hermitian(a, b)), *pair(*shape))
    case("complex eigh onto lowest", at, onto_lowest, *pair(*shape))
    case("complex expm", at, parts(sla.expm), *pair(*shape))
    case("complex solve", at, lambda a, b, c, d: la.solve(a + 1j * b, c + 1j * d), regular(*shape), pair(*shape)[1],
         *pair(*shape[:-1], 2))
    case("complex trace", at, parts(lambda z: jnp.trace(z, axis1=-2, axis2=-1)), *pair(*shape))
for at, a in REPEATED:
    case("complex spectrum exp", at, lambda a, b: jnp.exp(la.eigvalsh(hermitian(a, b))).sum(), a, np.zeros((3, 3)))
case("complex eigvalsh", "real", lambda a, b: la.eigvalsh(hermitian(a, b)), positive(3, 3), np.zeros((3, 3)))
case("complex expm", "large", parts(sla.expm), *[20.0 * x for x in pair(2, 2)])
case("complex kron", "2x3 and 2x2", lambda a, b, c, d: jnp.kron(a + 1j * b, c + 1j * d), *pair(2, 3), *pair(2, 2))
case("complex einsum", "three operands", lambda a, b, c, d: jnp.einsum("i,ij,j->i", c - 1j * d, a + 1j * b, c + 1j * d),
     *pair(3, 3), *pair(3))
case("complex einsum", "a batch", lambda a, b, c, d: jnp.einsum("...ij,kj->...ik", a + 1j * b, c + 1j * d),
     *pair(2, 2, 3), *pair(4, 3))

for norm in ["backward", "ortho", "forward"]:
    case(f"fft {norm}", "5", parts(lambda z: fft.fft(z, norm=norm)), *pair(5))
    case(f"ifft {norm}", "4", parts(lambda z: fft.ifft(z, norm=norm)), *pair(4))
    case(f"rfft {norm}", "6", lambda x: fft.rfft(x, norm=norm), numbers(6))
    case(f"irfft {norm}", "4", parts(lambda z: fft.irfft(z, norm=norm)), *pair(4))
for n in [1, 2, 3, 4]:
    case("fft backward", str(n), parts(fft.fft), *pair(n))
    case("fft_of_real", str(n), fft.fft, numbers(n))
    case("ifft_of_real", str(n), fft.ifft, numbers(n))
    case("rfft backward", str(n), fft.rfft, numbers(n))
    if n > 1:
        case("irfft backward", str(n), parts(fft.irfft), *pair(n))
for n in [1, 2, 3, 5, 6, 7, 9]:
    case(f"irfft to {n}", "4 frequencies", parts(lambda z: fft.irfft(z, n)), *pair(4))
for n in [3, 7]:
    case(f"fft to {n}", "of 5", parts(lambda z: fft.fft(z, n)), *pair(5))
    case(f"rfft to {n}", "of 5", lambda x: fft.rfft(x, n), numbers(5))
for at, shape in [("3x4", (3, 4)), ("batch", (2, 3, 4)), ("empty batch", (0, 3, 4))]:
    case("fft backward", at, parts(fft.fft), *pair(*shape))
    case("fft axis", at, parts(lambda z: fft.fft(z, axis=-2)), *pair(*shape))
    case("ifft axis", at, parts(lambda z: fft.ifft(z, axis=-2)), *pair(*shape))
    case("rfft axis", at, lambda x: fft.rfft(x, axis=-2), numbers(*shape))
    case("irfft axis", at, parts(lambda z: fft.irfft(z, axis=-2)), *pair(*shape))
    case("fft2", at, parts(fft.fft2), *pair(*shape))
    case("ifft2", at, parts(fft.ifft2), *pair(*shape))
    case("rfft2", at, fft.rfft2, numbers(*shape))
    case("irfft2", at, parts(fft.irfft2), *pair(*shape))
case("fftn first and last", "2x3x4", parts(lambda z: fft.fftn(z, axes=(0, 2))), *pair(2, 3, 4))
case("ifftn ortho", "2x3x4", parts(lambda z: fft.ifftn(z, norm="ortho")), *pair(2, 3, 4))
case("rfftn", "2x3x4", fft.rfftn, numbers(2, 3, 4))
case("irfftn to 2x3x5", "2x3x3", parts(lambda z: fft.irfftn(z, (2, 3, 5))), *pair(2, 3, 3))
for n in [1, 2, 5, 8]:
    for norm in [None, "ortho"]:
        case(f"dct {norm}", str(n), lambda x: jsp.fft.dct(x, norm=norm), numbers(n))
        case(f"idct {norm}", str(n), lambda x: jsp.fft.idct(x, norm=norm), numbers(n))
for mode in ["full", "same", "valid"]:
    case(f"fftconvolve {mode}", "7 and 3", lambda x, y: jsp.signal.fftconvolve(x, y, mode), numbers(7), numbers(3))
case("fftconvolve full", "1 and 1", lambda x, y: jsp.signal.fftconvolve(x, y, "full"), [2.0], [3.0])
