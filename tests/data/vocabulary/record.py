#!/usr/bin/env python3
"""Records values.jsonl: the results and gradients that numpy, scipy and JAX compute for the composed functions.

Run `python3 record.py > values.jsonl` with jax 0.10.2, numpy 2 and scipy 1.16 or newer.

`cases.py` describes a line.
"""

import jax
import jax.numpy as jnp
import jax.scipy as jsp
import numpy as np
import scipy.special as sp

from cases import ENDS, INF, NAN, case, header, normal, one, two, uniform

header()

# division
SIDES = [-INF, -2.5, -2.0, -0.0, 0.0, 0.5, 3.0, INF, NAN]
two("rem", jnp.fmod, ref=np.fmod, edges=SIDES)
two("mod_floor", jnp.mod, ref=np.mod, edges=SIDES)
two("div_floor", jnp.floor_divide, ref=np.floor_divide, edges=SIDES)
two("div_mod", jnp.divmod, ref=np.divmod)
WHOLE = np.array([7, -7, 7, -7, 6, 0, -(2**63)]), np.array([3, 3, -3, -3, 3, 5, 3])
for name, f in [("rem", np.fmod), ("mod_floor", np.mod), ("div_floor", np.floor_divide), ("div_mod", np.divmod)]:
    case(name, f, *WHOLE)
    case(name, f, np.array([7, 8], dtype=np.uint32), np.array([3, 2], dtype=np.uint32))

# numbers
one("trunc", jnp.trunc)
one("is_sign_negative", jnp.signbit, edges=ENDS[:-1])
two("copysign", jnp.copysign, edges=[-INF, -2.0, -0.0, 0.0, 2.0, INF])
two("heaviside", jnp.heaviside, ref=np.heaviside, edges=[-INF, -2.0, -0.0, 0.0, 2.0, INF, NAN])
case("ldexp", jnp.ldexp, normal(5), np.array([0, 3, -7, 60, -60]))
case("ldexp", jnp.ldexp, np.array([1.0, 1.9, 2.0**-1060, 2.0**1000, 1.0, INF, 0.0, NAN, 1.1]),
     np.array([-1074, -1073, 2000, -2040, 1024, -5, 5000, 3, 1023]), ref=np.ldexp, edge=True, grad=False)
one("nan_to_num", jnp.nan_to_num)
two("fmax", jnp.fmax, ref=np.fmax, edges=[-INF, -2.0, 0.0, 2.0, INF, NAN])
two("fmin", jnp.fmin, ref=np.fmin, edges=[-INF, -2.0, 0.0, 2.0, INF, NAN])
one("to_radians", jnp.deg2rad)
one("to_degrees", jnp.rad2deg, edges=None)
BITS = [0, 1, 2, 7, 8, 255, 2**31 - 1, -1, -2, -(2**31)]
for d in [np.int32, np.int64]:
    case("count_ones", lambda x: jax.lax.population_count(x), np.array(BITS, dtype=d))
    case("leading_zeros", lambda x: jax.lax.clz(x), np.array(BITS, dtype=d))
case("count_ones", lambda x: jax.lax.population_count(x), np.array([0, 2**63, 2**64 - 1], dtype=np.uint64))
case("leading_zeros", lambda x: jax.lax.clz(x), np.array([0, 2**31, 2**32 - 1], dtype=np.uint32))

# comparisons
two("is_close", jnp.isclose, x=np.array([1.0, 1.0 + 1e-6, 1.1, INF, INF, NAN, 0.0]),
    y=np.array([1.0, 1.0, 1.0, INF, -INF, NAN, 1e-9]))
two("all_close", jnp.allclose, x=np.array([1.0, 2.0]), y=np.array([1.0, 2.0 + 1e-9]))
two("all_close", jnp.allclose, x=np.array([1.0, 2.0]), y=np.array([1.0, 2.1]))
two("array_equal", jnp.array_equal, x=np.array([1.0, 2.0]), y=np.array([1.0, 2.0]))
two("array_equal", jnp.array_equal, x=np.array([1.0, 2.0]), y=np.array([1.0]))
one("is_infinite", jnp.isinf)
two("is_in", jnp.isin, x=np.array([[1, 2], [3, 4]]), y=np.array([4, 7, 1]))
case("select_first", lambda x, y: jnp.select([x < 0, x < 1], [y, x * y], x), normal(5), normal(5))
case("select_nth", lambda i, x, y: jnp.choose(i, [x, y], mode="clip"), np.array([0, 1, 7, -1]), normal(4), normal(4))

# special functions
one("sinc", jnp.sinc, x=np.array([0.3, 0.31, 0.32, -0.7, 1.5, 4.25]),
    edges=[0.0, -0.0, 1e-300, 1e-5, 0.1, 0.318309886, 0.3183098862, 1.0, 2.5, INF, NAN])
POSITIVE = [-1.0, -0.0, 0.0, 5e-324, 1e-3, 0.5, 1.0, 2.0, 1e300, INF, NAN]
two("xlogy", jsp.special.xlogy, x=normal(2, 3), y=uniform(0.1, 3, 3), edges=[-1.0, 0.0, 0.5, 1.0, 2.0, INF])
two("xlog1py", jsp.special.xlog1py, x=normal(2, 3), y=uniform(-0.9, 3, 3), edges=[-1.0, 0.0, 1e-20, 1.0, INF])
one("entr", jsp.special.entr, ref=sp.entr, x=uniform(0.01, 3, 6), edges=POSITIVE)
two("rel_entr", jsp.special.rel_entr, ref=sp.rel_entr, x=uniform(0.1, 3, 2, 3), y=uniform(0.1, 3, 3), edges=[-1.0, 0.0, 0.5, 1.0, INF, NAN])
two("kl_div", jsp.special.kl_div, ref=sp.kl_div, x=uniform(0.1, 3, 2, 3), y=uniform(0.1, 3, 3), edges=[-1.0, 0.0, 0.5, 1.0, NAN])
one("logit", jsp.special.logit, ref=sp.logit, x=uniform(0.01, 0.99, 9),
    edges=[-0.1, 0.0, 1e-300, 1e-20, 0.25, 0.4999999, 0.5, 0.5000001, 0.75, 0.9999999, 1.0, 1.1, NAN])
one("log_ndtr", jsp.special.log_ndtr, ref=sp.log_ndtr, x=np.array([-30.0, -15.0, -3.0, -0.5, 0.4, 2.0, 7.0]),
    edges=[-1e100, -1e4, -38.0, -12.1, -12.0, -11.9, -1.1, -1.0, -0.9, 0.0, 5.0, 30.0])
one("ndtri", jsp.special.ndtri, ref=sp.ndtri, x=uniform(0.001, 0.999, 9),
    edges=[-0.1, 0.0, 1e-300, 1e-20, 1e-3, 0.1353352832366127, 0.1353352832366128, 0.5, 0.87, 0.999, 1.0 - 1e-15, 1.0, 1.1, NAN])
def psi(a, b):
    # Differences of scipy's digamma lose digits near 0 and for large arguments; mpmath's do not.
    import mpmath
    mpmath.mp.dps = 50
    one = lambda a, b: float(mpmath.digamma(mpmath.mpf(a)) - mpmath.digamma(mpmath.mpf(a) + mpmath.mpf(b)))
    return np.vectorize(one)(a, b)


def log_beta(a, b):
    import mpmath
    mpmath.mp.dps = 50
    def one(a, b):
        if a == 0 or b == 0:
            return INF
        a, b = mpmath.mpf(a), mpmath.mpf(b)
        return float(mpmath.log(abs(mpmath.gammaprod([a, b], [a + b])))) if max(a, b) < 1e4 else float(
            mpmath.loggamma(a) + mpmath.loggamma(b) - mpmath.loggamma(a + b))
    return np.vectorize(one)(a, b)


two("betaln", jsp.special.betaln, ref=log_beta, x=uniform(0.1, 30, 2, 3), y=uniform(0.1, 30, 3),
    edges=[1e-10, 0.5, 9.9, 10.1, 1e5, 1e15], slopes=lambda a, b: [psi(a, b), psi(b, a)])
two("betaln", jsp.special.betaln, ref=log_beta, x=np.array([0.0, 0.0, 3.0, 0.0]), y=np.array([0.0, 2.0, 0.0, 1e10]), grad=False)
two("beta", jsp.special.beta, ref=sp.beta, x=uniform(0.1, 5, 2, 3), y=uniform(0.1, 5, 3),
    edges=[-2.3, -0.4, 0.5, 3.0, 12.0], slopes=lambda a, b: [sp.beta(a, b) * psi(a, b), sp.beta(a, b) * psi(b, a)])
two("logaddexp2", jnp.logaddexp2, ref=np.logaddexp2, slopes=lambda a, b: [np.where(a == b, 0.5, 1 / (1 + np.exp2(b - a))), np.where(a == b, 0.5, 1 / (1 + np.exp2(a - b)))], edges=[-INF, -1e17, -3.0, 0.0, 1e-8, 5.0, 1e300, INF, NAN])

# activations
KINKS = [-INF, -1e300, -100.0, -3.0, -1.0, -0.0, 0.0, 1e-300, 1.0, 3.0, 6.0, 100.0, 1e300, INF, NAN]
one("relu", jax.nn.relu, edges=KINKS)
one("relu6", jax.nn.relu6, edges=KINKS)
one("leaky_relu", lambda x: jax.nn.leaky_relu(x, 0.1), edges=KINKS)
one("elu_with", lambda x: jax.nn.elu(x, 1.3), edges=KINKS)
one("celu", lambda x: jax.nn.celu(x, 1.3), edges=KINKS)
one("selu", jax.nn.selu, edges=KINKS)
one("hard_tanh", jax.nn.hard_tanh, edges=KINKS)
one("hard_sigmoid", jax.nn.hard_sigmoid, edges=KINKS)
one("hard_silu", jax.nn.hard_silu, edges=KINKS)
one("silu", jax.nn.silu, edges=KINKS[1:])
one("mish", jax.nn.mish, edges=KINKS[1:])
one("gelu", lambda x: jax.nn.gelu(x, False), ref=lambda x: x * sp.ndtr(x), edges=KINKS[1:])
one("gelu_tanh", lambda x: jax.nn.gelu(x, True), edges=[-1.0, 0.0, 1.0, 5.0])
one("log_sigmoid", jax.nn.log_sigmoid, edges=KINKS)
one("softplus", jax.nn.softplus, edges=KINKS)
one("squareplus", jax.nn.squareplus, ref=lambda x: np.where(x < 0, 2 / (np.hypot(x, 2) - x), (x + np.hypot(x, 2)) / 2), edges=[-1e4, -1.0, 0.0, 1.0, 1e100, NAN])
one("sparse_plus", jax.nn.sparse_plus, edges=KINKS)
two("logaddexp", jnp.logaddexp, ref=np.logaddexp)
case("glu", lambda x: jax.nn.glu(x, axis=1), normal(2, 4))
case("softmax", lambda x: jax.nn.softmax(x, axis=-1), normal(2, 3))
case("log_softmax", lambda x: jax.nn.log_softmax(x, axis=-1), normal(2, 3))
case("layer_norm", lambda x: jax.nn.standardize(x, axis=-1, epsilon=1e-5), normal(2, 3))

# losses and attention
def cross_entropy(x, labels):
    logs = jax.nn.log_softmax(x, axis=-1)
    if labels.dtype.kind == "f":
        return -jnp.sum(labels * logs, axis=-1)
    return -jnp.take_along_axis(logs, labels[..., None], axis=-1)[..., 0]

case("cross_entropy", cross_entropy, normal(2, 3), np.array([2, 0]))
case("cross_entropy", cross_entropy, normal(2, 3), np.array([[0.2, 0.8, 0.0], [0.0, 0.0, 1.0]]))
def attend(q, k, v, bias=None, mask=None, scale=None, is_causal=False):
    """Computes `jax.nn.dot_product_attention` in f64; JAX's own computes the softmax in f32."""
    k, v = (jnp.repeat(x, q.shape[-2] // x.shape[-2], axis=-2) for x in (k, v))
    logits = jnp.einsum("bqhn,bkhn->bhqk", q, k) * (1 / np.sqrt(q.shape[-1]) if scale is None else scale)
    logits = logits if bias is None else logits + bias
    seen = jnp.ones(logits.shape, bool) if mask is None else mask
    if is_causal:
        seen = seen & jnp.tril(jnp.ones(logits.shape[-2:], bool))
    logits = jnp.where(seen, logits, -0.7 * np.finfo(np.float64).max)
    y = jnp.einsum("bhqk,bkhn->bqhn", jax.nn.softmax(logits, axis=-1), v)
    jaxs = jax.nn.dot_product_attention(q, k, v, bias, mask, scale=scale, is_causal=is_causal)
    if not isinstance(y, jax.core.Tracer):
        assert jnp.allclose(y, jaxs, rtol=1e-5, atol=1e-6)
    return y


case("dot_product_attention", attend, normal(2, 3, 2, 4), normal(2, 5, 2, 4), normal(2, 5, 2, 4))
case("dot_product_attention.causal", lambda q, k, v: attend(q, k, v, is_causal=True), normal(1, 4, 4, 2), normal(1, 4, 2, 2), normal(1, 4, 2, 2))
case("dot_product_attention.masked", lambda q, k, v, b, m: attend(q, k, v, b, m, scale=0.3),
     normal(1, 2, 1, 2), normal(1, 3, 1, 2), normal(1, 3, 1, 2), normal(1, 1, 2, 3),
     np.array([[[[True, False, True], [False, False, False]]]]))

# reductions
HOLES = np.array([[1.0, NAN, -2.0], [NAN, NAN, NAN], [4.0, 4.0, 0.5]])
for name in ["nansum", "nanprod", "nanmax", "nanmin", "nanmean", "nanvar", "nanstd"]:
    f, ref = getattr(jnp, name), getattr(np, name)
    case(name, f, np.array([[1.0, NAN, -2.0], [0.3, 0.9, NAN]]), ref=ref)
    case(name + "_axis", lambda x, f=f: f(x, axis=1), HOLES, edge=True)
    case(name + "_keepdims", lambda x, f=f: f(x, axis=0, keepdims=True), HOLES, edge=True)
for name in ["ptp", "count_nonzero"]:
    f = getattr(jnp, name)
    case(name, f, normal(2, 3))
    case(name + "_axis", lambda x, f=f: f(x, axis=1), normal(2, 3))
    case(name + "_keepdims", lambda x, f=f: f(x, axis=0, keepdims=True), np.array([[0.0, -0.0, NAN], [1.0, 0.0, 0.0]]), edge=True)
case("ptp", jnp.ptp, np.array([1.0, 3.0, 3.0, 1.0]), edge=True)

# statistics
case("average", lambda x, w: jnp.average(x, axis=1, weights=w), normal(2, 3), uniform(0.1, 1, 3))
case("average", lambda x, w: jnp.average(x, axis=1, weights=w), normal(2, 3), uniform(0.1, 1, 2, 3))
case("cov", jnp.cov, normal(3, 5))
case("cov", jnp.cov, normal(5))
case("corrcoef", jnp.corrcoef, normal(3, 5))
case("bincount", lambda i: jnp.bincount(i, length=4), np.array([0, 3, 3, 1, 9]))
case("histogram", lambda x, e: jnp.histogram(x, bins=e)[0].astype(np.int64), np.array([0.0, 0.5, 1.0, 2.0, 3.0, 9.0, -1.0]), np.array([0.0, 1.0, 2.5, 3.0]))
case("digitize", jnp.digitize, np.array([0.0, 0.5, 1.0, 2.0, 3.0, 9.0, -1.0]), np.array([0.0, 1.0, 2.5, 3.0]), ref=np.digitize)
case("digitize", jnp.digitize, np.array([0.0, 0.5, 1.0, 2.0, 3.0, 9.0, -1.0]), np.array([3.0, 2.5, 1.0, 0.0]), ref=np.digitize)
case("searchsorted", jnp.searchsorted, np.array([0.0, 1.0, 1.0, 2.5]), np.array([[-1.0, 0.0, 1.0], [2.0, 9.0, NAN]]), ref=np.searchsorted)
case("searchsorted_right", None, np.array([0.0, 1.0, 1.0, 2.5]), np.array([[-1.0, 0.0, 1.0], [2.0, 9.0, NAN]]), ref=lambda v, x: np.searchsorted(v, x, side="right"))

# sampled functions
case("diff", lambda x: jnp.diff(x, n=2, axis=0), normal(4, 2))
case("central_diff", lambda x: jnp.gradient(x, 0.5, axis=1), normal(2, 5))
case("trapezoid", lambda y: jnp.trapezoid(y, dx=0.5, axis=1), normal(2, 4))
case("trapezoid.at", lambda y, x: jnp.trapezoid(y, x, axis=1), normal(2, 4), np.array([0.0, 0.5, 2.0, 2.25]))
case("trapezoid.at", lambda y, x: jnp.trapezoid(y, x, axis=1), normal(2, 4), normal(2, 4))
case("interp", jnp.interp, np.array([-1.0, 0.3, 0.9, 1.7, 5.0]), np.array([0.0, 1.0, 1.5, 3.0]), normal(4))
case("interp", jnp.interp, np.array([0.0, 1.0, 1.5, 3.0, NAN]), np.array([0.0, 1.0, 1.5, 3.0]), normal(4), edge=True)
case("polyval", jnp.polyval, normal(4), normal(2, 3))
case("poly_from_roots", jnp.poly, normal(4))
case("vander", lambda x: jnp.vander(x, 4), normal(3))

# assembling
case("hstack", lambda x, y: jnp.hstack([x, y]), normal(2, 3), normal(2, 1))
case("hstack", lambda x, y: jnp.hstack([x, y]), normal(2), np.array(1.0))
case("vstack", lambda x, y: jnp.vstack([x, y]), normal(3), normal(2, 3))
case("dstack", lambda x, y: jnp.dstack([x, y]), normal(2, 3), normal(2, 3))
case("column_stack", lambda x, y: jnp.column_stack([x, y]), normal(3), normal(3, 2))
case("block_diag", lambda x, y, z: jsp.linalg.block_diag(x, y, z), normal(1, 2), normal(2, 2), normal(3))
case("meshgrid", lambda x, y, z: jnp.meshgrid(x, y, z), normal(2), normal(3), normal(1))
case("meshgrid_ij", lambda x, y: jnp.meshgrid(x, y, indexing="ij"), normal(2), normal(3))
case("broadcast_arrays", lambda x, y: jnp.broadcast_arrays(x, y), normal(2, 1), normal(3))
for mode in ["edge", "reflect", "symmetric", "wrap"]:
    case("pad_like." + mode, lambda x, mode=mode: jnp.pad(x, ((1, 4), (7, 2)), mode=mode), normal(2, 3))
    case("pad_like." + mode, lambda x, mode=mode: jnp.pad(x, ((1, 4), (7, 2)), mode=mode), normal(1, 4))
case("insert", lambda x, v: jnp.insert(x, 1, v, axis=1), normal(2, 3), normal(2))
case("delete", lambda x: jnp.delete(x, slice(1, 3), axis=1), normal(2, 4))
case("compress", lambda x: jnp.compress(np.array([True, False, True, True]), x, axis=0), normal(4, 2))
case("resize", lambda x: jnp.resize(x, (3, 3)), normal(2, 2))
case("split_at", lambda x: jnp.split(x, [1, 3], axis=1), normal(2, 4))
case("array_split", lambda x: jnp.array_split(x, 3, axis=0), normal(5, 2))
case("put_along_axis", lambda x, i, v: jnp.put_along_axis(x, i, v, 1, inplace=False), normal(2, 3), np.array([[2], [-3]]), normal(2, 1))
case("take_along_axis", lambda x, i: jnp.take_along_axis(x, i, 1), normal(2, 3), np.array([[2, 0], [-1, 1]]))

# arranging
for n in [1, 2, 3]:
    for shape in [(), (2,), (2, 3)]:
        case(f"atleast_{n}d", getattr(jnp, f"atleast_{n}d"), normal(*shape))
case("matrix_transpose", jnp.matrix_transpose, normal(2, 3, 2))
for k in [-1, 0, 1, 2]:
    case(f"rot90.{k % 4}", lambda x, k=k: jnp.rot90(x, k, axes=(1, 0)), normal(2, 3))
case("fftshift", jnp.fft.fftshift, normal(3, 4))
case("ifftshift", jnp.fft.ifftshift, normal(3, 4))

# creating
case("logspace", lambda: np.logspace(-1.0, 2.0, 5, base=2.0))
case("geomspace", lambda: np.geomspace(-1.0, -100.0, 4))
case("fftfreq", lambda: np.fft.fftfreq(5, 0.1))
case("full_like", lambda x: jnp.full_like(x, 2.5), normal(2, 3))
case("tri", lambda: np.tri(3, 4, -1))

# matrices
case("toeplitz", jsp.linalg.toeplitz, normal(3), normal(4))
case("toeplitz", jsp.linalg.toeplitz, normal(1), normal(3))
case("toeplitz", jsp.linalg.toeplitz, normal(4), normal(1))
case("multi_dot", lambda *x: jnp.linalg.multi_dot(x), normal(3, 4), normal(4, 2), normal(2, 5), normal(5))
for k in [-1, 0, 2]:
    case(f"diag.{k}", lambda x, k=k: jnp.diag(x, k), normal(3))
    case(f"diag.{k}", lambda x, k=k: jnp.diag(x, k), normal(3, 4))
case("diagflat", lambda x: jnp.diagflat(x, 1), normal(2, 2))
case("fill_diagonal", lambda x, v: jnp.fill_diagonal(x, v, inplace=False), normal(2, 3), normal(2))
case("fill_diagonal", lambda x, v: jnp.fill_diagonal(x, v, inplace=False), normal(3, 2), np.array(4.0))
case("diag_indices", lambda: [np.arange(3), np.arange(3)])
case("kron", jnp.kron, normal(2, 3), normal(2))
case("cross", jnp.cross, normal(2, 3), normal(3))
case("inner", jnp.inner, normal(2, 3), normal(4, 3))
case("vdot", jnp.vdot, normal(2, 3), normal(3, 2))
case("vecdot", jnp.vecdot, normal(2, 3), normal(3))
case("matrix_power", lambda x: jnp.linalg.matrix_power(x, 5), normal(2, 2))

# functions whose number of results depends on the data; JAX needs a stated size
SPARSE = np.array([[0.0, 2.0, -0.0, NAN], [0.0, 0.0, 1.5, -3.0], [2.0, 0.0, 2.0, 0.0]])
for n in [0, 3, 20]:
    case(f"flatnonzero.{n}", lambda x, n=n: jnp.flatnonzero(x, size=n, fill_value=-1), SPARSE)
    case(f"argwhere.{n}", lambda x, n=n: jnp.argwhere(x, size=n, fill_value=-1), SPARSE)
    case(f"nonzero.{n}", lambda x, n=n: jnp.nonzero(x, size=n, fill_value=7), SPARSE > 1.0)
    m = min(n, 12)  # JAX refuses more than 12.
    case(f"extract.{m}", lambda x, n=m: jnp.extract(x > 0.5, x, size=n, fill_value=9.0), normal(3, 4))
    case(f"unique.{n}", lambda x, n=n: jnp.unique(x, size=n, fill_value=9.0, return_index=True, return_inverse=True, return_counts=True), SPARSE, grad=False)
    case(f"unique.{n}", lambda x, n=n: jnp.unique(x, size=n, fill_value=9, return_index=True, return_inverse=True, return_counts=True), np.array([5, -2, 5, 5, 7, -2, 0]))
    case(f"unique_values.{n}", lambda x, n=n: jnp.unique(x, size=n, fill_value=9.0), np.array([1.5, -2.0, 7.0, 1.0]))
    case(f"intersect1d.{n}", lambda x, y, n=n: jnp.intersect1d(x, y, size=n, fill_value=-1), np.array([5, 2, 7, 5, 2]), np.array([[1, 5], [2, 9]]))
# For an array without elements JAX fills with 0 instead of the fill value, so the expected result is given here.
case("flatnonzero.3", lambda x: jnp.flatnonzero(x, size=3, fill_value=-1), np.zeros((0, 2)), ref=lambda x: np.full(3, -1))
case("argwhere.3", lambda x: jnp.argwhere(x, size=3, fill_value=-1), np.zeros((2, 0)), ref=lambda x: np.full((3, 2), -1))
