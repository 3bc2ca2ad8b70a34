#!/usr/bin/env python3
"""Records the edge table: values, gradients and Hessians of public functions at points where mathematics or
floating-point numbers have edges.

    pip install jax==0.10.2 mpmath==1.4.1 optax==0.2.8
    python3 record.py            # writes edges.jsonl beside this file
    python3 record.py tanh erf   # records these functions again and keeps the other lines

Each line of FUNCTIONS is one function: its name in Rust, its form in JAX, and its form in mpmath (None for
functions whose values are conventions). To add a function, add its line here, run this script with its name,
and add a line to `tests/tests/laws/edges/functions.rs`.

Two answers are recorded for each point. `jax` is computed by JAX. `exact` is the mathematical value, from
differences in mpmath with hundreds of digits, if it exists: the arguments are finite, the function is real
there, and the differences from all sides agree. Otherwise `exact` is `null`: the answer is a convention, and
JAX's is followed.

An answer is the list of the value, then the gradient, then the Hessian by rows. A function of two arrays is
differentiated in one of them at a time. If a function of a row returns a row, the sum of the row's elements,
weighted by WEIGHTS, is differentiated.
"""

import functools, json, os, sys, time

os.environ.setdefault("JAX_PLATFORMS", "cpu")
import jax
import mpmath
import optax
from mpmath import mp, mpf

jax.config.update("jax_enable_x64", True)
import jax.numpy as jnp
from jax import lax, nn
from jax.scipy import special

VERSION = 1  # Increment it if the meaning of a recorded line changes.

inf, nan = float("inf"), float("nan")
TINY = 5e-324
ONE = [0.0, -0.0, TINY, -TINY, 1e-310, -1e-310, 1e-300, 1e-8, -1e-8, 0.5, -0.5, 1.0, -1.0, 1.5, 2.5,
       -2.5, 3.0, -3.0, 20.0, -20.0, 40.0, -40.0, 355.0, -355.0, 710.0, -710.0, -745.2, 1e17, -1e17,
       1e308, -1e308, inf, -inf, nan]
SIDE = [0.0, -0.0, TINY, 0.5, 1.0, -1.0, 2.5, -3.0, 40.0, -745.2, -1e17, 1e308, -1e308, inf, -inf, nan]
TWO = [[x, y] for x in SIDE for y in SIDE] + [[1e-310, 0.0], [-TINY, 0.0], [1e-200, 1e-200], [7.0, 2.0]]
ROWS = [[1.0, 2.0, 3.0], [2.0, 2.0, 1.0], [1.0, 1.0, 1.0], [0.0, -0.0, 0.0], [-0.0, 0.0, -1.0],
        [0.0, 0.0, 2.0], [0.0, 3.0, 4.0], [inf, 1.0, 2.0], [-inf, 1.0, 2.0], [inf, inf, 1.0],
        [inf, -inf, 1.0], [-inf, -inf, -inf], [nan, 1.0, 2.0], [1.0, nan, nan], [TINY, TINY, 0.0],
        [1e308, 1e308, 1.0], [1e-200, 1e-200, 1e-200], [1e200, 1.0, 2.0], [710.0, 710.0, -745.2],
        [-745.2, -800.0, -1e17]]
WEIGHTS = [1.0, 2.0, -1.5]
POINTS = {"one": [[x] for x in ONE], "two": TWO, "row": ROWS}

# -- Functions that mpmath lacks -------------------------------------------------------------------


def real(x):
    if isinstance(x, mpmath.mpc):
        if x.imag != 0:
            raise ValueError("not real")
        return x.real
    return mpf(x)


def ndtr(x):
    return mp.erfc(-x / mp.sqrt(2)) / 2


def ndtri(x):
    quick(x)
    return mp.sqrt(2) * mp.erfinv(2 * x - 1)


def lgamma(x):
    return mp.log(abs(mp.gamma(x))) if x < 1000 else real(mp.loggamma(x))


@functools.lru_cache(maxsize=None)
def zeta(k, digits):
    return mp.zeta(k) if k > 1 else mp.euler


def psi(n, x):
    if x < -1e-3 and x == mp.floor(x):
        raise ValueError("a pole")
    if x < -1e-3:  # By reflection: mpmath would recur upwards from x.
        pi, sin, cos = mp.pi, mp.sin(mp.pi * x), mp.cos(mp.pi * x)
        slope = [cos / sin, -pi / sin**2, 2 * pi**2 * cos / sin**3][n]
        return (-1) ** n * psi(n, 1 - x) - pi * slope
    if x > 1e-3:
        return mp.psi(n, x)
    # Near the pole mpmath would raise its precision without end, so the Taylor series at 1 is used:
    # psi(1 + x) = -euler + sum of (-1)^(k + 1) zeta(k + 1) x^k, and one step of the recurrence.
    k, total, power = n, -(-1) ** n * mp.factorial(n) / x ** (n + 1), mpf(1)
    while power > mpf(10) ** -mp.dps:
        total += (-1) ** (k + 1) * zeta(k + 1, mp.dps) * mp.ff(k, n) * x ** (k - n)
        k, power = k + 1, abs(x) ** (k - n)
    return total


def pow_(x, y):
    if x == 0 and y <= 0:
        raise ValueError("a convention")
    return real(mp.power(x, y))


def atan2(x, y):
    if x == 0 and y <= 0:
        raise ValueError("a convention, by signs of zero")
    return mp.atan2(x, y)


def half_away(x):
    return mp.sign(x) * mp.floor(abs(x) + mpf(1) / 2)


def trunc(x):
    return mp.floor(x) if x >= 0 else mp.ceil(x)


def positive(x):
    if x <= 0:
        raise ValueError("a convention")
    return x


def quick(*v):
    if any(abs(x) > 1e4 or 0 < abs(x) < 1e-15 for x in v):
        raise ValueError("too long to compute")


def beta(x, y):
    quick(x, y)
    return mp.beta(x, y)


def betaln(x, y):
    quick(x, y)
    return lgamma(x) + lgamma(y) - lgamma(x + y)


def sinc(x):
    return mp.sin(mp.pi * x) / (mp.pi * x) if x else mpf(1)


def clip(x, low, high):
    return min(max(x, mpf(low)), mpf(high))


def elu(x, scale, inner, outer):
    return scale * (x if x > 0 else outer * mp.expm1(x / inner))


def softplus(x):
    return mp.log1p(mp.exp(x))


def logistic(x):
    return 1 / (1 + mp.exp(-x))


def mean(v):
    return mp.fsum(v) / len(v)


def var(v):
    return mean([(x - mean(v)) ** 2 for x in v])


def partial(fold):
    return lambda v: [fold(v[:i + 1]) for i in range(len(v))]


def quantile(v, q):
    place = q * (len(v) - 1)
    low = int(mp.floor(place))
    v = sorted(v)
    return v[low] + (place - low) * (v[low + 1] - v[low])


def logsumexp(v):
    m = max(v)
    return m + mp.log(mp.fsum(mp.exp(x - m) for x in v))


def softmax(v):
    m = max(v)
    e = [mp.exp(x - m) for x in v]
    return [x / mp.fsum(e) for x in e]


def huber(x):
    return x * x / 2 if abs(x) <= 1.5 else mpf(1.5) * (abs(x) - mpf(0.75))


def log_cosh(x):
    return abs(x) + mp.log1p(mp.exp(-2 * abs(x))) - mp.ln2


def sigmoid_cross_entropy(x, y):
    softplus = lambda x: max(x, 0) + mp.log1p(mp.exp(-abs(x)))
    return y * softplus(-x) + (1 - y) * softplus(x)


def rms_norm(v):
    return [x / mp.sqrt(mean([y * y for y in v]) + mpf(1e-5)) for x in v]


def layer_norm(v):
    s = mp.sqrt(var(v) + mpf(1e-5))
    return [(x - mean(v)) / s for x in v]


def jax_layer_norm(v):
    return (v - v.mean()) * lax.rsqrt(jnp.square(v - v.mean()).mean() + 1e-5)


# -- The functions ----------------------------------------------------------------------------------
# name: (points, order of derivatives, JAX, mpmath)


def one(f, g, order=2):
    return "one", order, lambda v: f(v[0]), g and (lambda v: g(v[0]))


def two(f, g, order=2):
    return "two", order, lambda v: f(v[0], v[1]), g and (lambda v: g(v[0], v[1]))


def row(f, g, order=2):
    return "row", order, f, g


FUNCTIONS = {
    "neg": one(lambda x: -x, lambda x: -x),
    "abs": one(jnp.abs, abs),
    "signum": one(jnp.sign, mp.sign),
    "floor": one(jnp.floor, mp.floor),
    "ceil": one(jnp.ceil, mp.ceil),
    "round": one(lambda x: lax.round(x, lax.RoundingMethod.AWAY_FROM_ZERO), half_away),
    "round_ties_even": one(jnp.round, mp.nint),
    "exp": one(jnp.exp, mp.exp),
    "exp2": one(jnp.exp2, lambda x: mpf(2) ** x),
    "exp_m1": one(jnp.expm1, mp.expm1),
    "ln": one(jnp.log, lambda x: real(mp.log(x))),
    "log2": one(jnp.log2, lambda x: real(mp.log(x, 2))),
    "log10": one(jnp.log10, lambda x: real(mp.log10(x))),
    "ln_1p": one(jnp.log1p, lambda x: real(mp.log1p(x))),
    "sqrt": one(jnp.sqrt, lambda x: real(mp.sqrt(x))),
    "rsqrt": one(lax.rsqrt, lambda x: real(1 / mp.sqrt(x))),
    "cbrt": one(jnp.cbrt, lambda x: mp.sign(x) * mp.cbrt(abs(x))),
    "square": one(jnp.square, lambda x: x * x),
    "recip": one(jnp.reciprocal, lambda x: 1 / x),
    "powi(3)": one(lambda x: lax.integer_pow(x, 3), lambda x: x**3),
    "powi(0)": one(lambda x: lax.integer_pow(x, 0), lambda x: x**0),
    "powi(-2)": one(lambda x: lax.integer_pow(x, -2), lambda x: 1 / x**2),
    "powf(2.5)": one(lambda x: lax.pow(x, 2.5), lambda x: pow_(x, mpf(2.5))),
    "powf(2)": one(lambda x: lax.pow(x, 2.0), lambda x: x * x),
    "powf(1)": one(lambda x: lax.pow(x, 1.0), lambda x: x),
    "powf(0)": one(lambda x: lax.pow(x, 0.0), lambda x: x**0),
    "sin": one(jnp.sin, mp.sin),
    "cos": one(jnp.cos, mp.cos),
    "tan": one(jnp.tan, mp.tan),
    "asin": one(jnp.arcsin, lambda x: real(mp.asin(x))),
    "acos": one(jnp.arccos, lambda x: real(mp.acos(x))),
    "atan": one(jnp.arctan, mp.atan),
    "sinh": one(jnp.sinh, mp.sinh),
    "cosh": one(jnp.cosh, mp.cosh),
    "tanh": one(jnp.tanh, mp.tanh),
    "sech": one(lambda x: 1 / jnp.cosh(x), mp.sech),
    "asinh": one(jnp.arcsinh, mp.asinh),
    "acosh": one(jnp.arccosh, lambda x: real(mp.acosh(x))),
    "atanh": one(jnp.arctanh, lambda x: real(mp.atanh(x))),
    "erf": one(special.erf, mp.erf),
    "erfc": one(special.erfc, mp.erfc),
    "erf_inv": one(special.erfinv, mp.erfinv),
    "ndtr": one(special.ndtr, ndtr),
    "lgamma": one(special.gammaln, lgamma),
    "digamma": one(special.digamma, lambda x: psi(0, x)),
    "polygamma(1)": one(lambda x: special.polygamma(1, x), lambda x: psi(1, x)),
    "polygamma(2)": one(lambda x: special.polygamma(2, x), lambda x: psi(2, x)),
    "is_finite": one(jnp.isfinite, lambda x: 1, 0),
    "is_nan": one(jnp.isnan, lambda x: 0, 0),
    "sigmoid": one(nn.sigmoid, logistic),
    "relu": one(nn.relu, lambda x: max(x, mpf(0))),
    "leaky_relu(0.01)": one(lambda x: nn.leaky_relu(x, 0.01), lambda x: x if x > 0 else mpf(0.01) * x),
    "gelu": one(lambda x: nn.gelu(x, approximate=False), lambda x: x * ndtr(x)),
    "gelu_tanh": one(nn.gelu, lambda x: x * logistic(2 * mp.sqrt(2 / mp.pi) * (x + mpf(0.044715) * x**3))),
    "silu": one(nn.silu, lambda x: x * logistic(x)),
    "elu_with(1.5)": one(lambda x: nn.elu(x, 1.5), lambda x: x if x > 0 else mpf(1.5) * mp.expm1(x)),
    "softplus": one(nn.softplus, softplus),
    "log_sigmoid": one(nn.log_sigmoid, lambda x: -softplus(-x)),
    "clamp(-1, 1)": one(lambda x: lax.clamp(-1.0, x, 1.0), lambda x: min(max(x, mpf(-1)), mpf(1))),
    "trunc": one(jnp.trunc, trunc),
    "is_infinite": one(jnp.isinf, None, 0),
    "is_sign_negative": one(jnp.signbit, None, 0),
    "nan_to_num": one(jnp.nan_to_num, lambda x: x),
    "to_radians": one(jnp.radians, lambda x: x * mp.pi / 180),
    "to_degrees": one(jnp.degrees, lambda x: x * 180 / mp.pi),
    "ldexp(-3)": one(lambda x: jnp.ldexp(x, -3), lambda x: x / 8),
    "sinc": one(jnp.sinc, sinc),
    "entr": one(special.entr, lambda x: -x * mp.log(positive(x))),
    "logit": one(special.logit, lambda x: mp.log(positive(x / (1 - x)))),
    "ndtri": one(special.ndtri, ndtri),
    "log_ndtr": one(special.log_ndtr, lambda x: mp.log(ndtr(x))),
    "celu(1.5)": one(lambda x: nn.celu(x, 1.5), lambda x: elu(x, 1, mpf(1.5), mpf(1.5))),
    "selu": one(nn.selu, lambda x: elu(x, mpf(1.0507009873554805), 1, mpf(1.6732632423543772))),
    "relu6": one(nn.relu6, lambda x: clip(x, 0, 6)),
    "hard_tanh": one(nn.hard_tanh, lambda x: clip(x, -1, 1)),
    "hard_sigmoid": one(nn.hard_sigmoid, lambda x: clip(x + 3, 0, 6) / 6),
    "hard_silu": one(nn.hard_silu, lambda x: x * clip(x + 3, 0, 6) / 6),
    "mish": one(nn.mish, lambda x: x * mp.tanh(softplus(x))),
    "squareplus(4)": one(lambda x: nn.squareplus(x, 4.0), lambda x: (x + mp.sqrt(x * x + 4)) / 2),
    "sparse_plus": one(nn.sparse_plus, lambda x: clip((x + 1) ** 2, 0, 4) / 4 if -1 < x < 1 else max(x, mpf(0))),
    "huber(1.5)": one(lambda x: optax.huber_loss(x, jnp.zeros(()), delta=1.5), huber),
    "log_cosh": one(lambda x: optax.log_cosh(x, jnp.zeros(())), log_cosh),
    "add": two(jnp.add, lambda x, y: x + y),
    "sub": two(jnp.subtract, lambda x, y: x - y),
    "mul": two(jnp.multiply, lambda x, y: x * y),
    "div": two(jnp.divide, lambda x, y: x / y),
    "rem": two(lax.rem, lambda x, y: x - y * trunc(x / y)),
    "maximum": two(jnp.maximum, max),
    "minimum": two(jnp.minimum, min),
    "pow": two(jnp.power, pow_),
    "hypot": two(jnp.hypot, lambda x, y: mp.sqrt(x * x + y * y)),
    "atan2": two(jnp.arctan2, atan2),
    "next_after": two(jnp.nextafter, None, 0),
    "logaddexp": two(jnp.logaddexp, lambda x, y: logsumexp([x, y])),
    "clamp(y, 1)": two(lambda x, y: lax.clamp(y, x, 1.0), lambda x, y: min(max(x, y), mpf(1))),
    "clamp(-1, y)": two(lambda x, y: lax.clamp(-1.0, x, y), lambda x, y: min(max(x, mpf(-1)), y)),
    "div_floor": two(jnp.floor_divide, lambda x, y: mp.floor(x / y)),
    "mod_floor": two(jnp.remainder, lambda x, y: x - y * mp.floor(x / y)),
    "copysign": two(jnp.copysign, lambda x, y: abs(x) * (1 if positive(abs(y)) == y else -1)),
    "heaviside": two(jnp.heaviside, lambda x, y: y if x == 0 else mpf(x > 0)),
    "fmax": two(jnp.fmax, max),
    "fmin": two(jnp.fmin, min),
    "xlogy": two(special.xlogy, lambda x, y: x * mp.log(positive(y))),
    "xlog1py": two(special.xlog1py, lambda x, y: x * mp.log1p(positive(1 + y) - 1)),
    "rel_entr": two(special.rel_entr, lambda x, y: x * mp.log(positive(x) / positive(y))),
    "kl_div": two(special.kl_div, lambda x, y: x * mp.log(positive(x) / positive(y)) - x + y),
    "betaln": two(special.betaln, betaln),
    "beta": two(special.beta, beta),
    "logaddexp2": two(jnp.logaddexp2, lambda x, y: logsumexp([x * mp.ln2, y * mp.ln2]) / mp.ln2),
    "sigmoid_cross_entropy": two(optax.sigmoid_binary_cross_entropy, sigmoid_cross_entropy),
    "hinge": two(optax.hinge_loss, lambda x, y: max(1 - x * y, mpf(0))),
    "is_close": two(jnp.isclose, None, 0),
    "eq": two(jnp.equal, None, 0),
    "ne": two(jnp.not_equal, None, 0),
    "lt": two(jnp.less, None, 0),
    "le": two(jnp.less_equal, None, 0),
    "gt": two(jnp.greater, None, 0),
    "ge": two(jnp.greater_equal, None, 0),
    "sum": row(jnp.sum, mp.fsum),
    "prod": row(jnp.prod, mp.fprod),
    "max": row(jnp.max, max),
    "min": row(jnp.min, min),
    "mean": row(jnp.mean, mean),
    "var": row(jnp.var, var),
    "std": row(jnp.std, lambda v: mp.sqrt(var(v))),
    "logsumexp": row(special.logsumexp, logsumexp),
    "norm": row(jnp.linalg.norm, lambda v: mp.sqrt(mp.fsum(x * x for x in v))),
    "ptp": row(jnp.ptp, lambda v: max(v) - min(v)),
    "count_nonzero": row(jnp.count_nonzero, None, 0),
    "nansum": row(jnp.nansum, mp.fsum),
    "nanprod": row(jnp.nanprod, mp.fprod),
    "nanmax": row(jnp.nanmax, max),
    "nanmin": row(jnp.nanmin, min),
    "nanmean": row(jnp.nanmean, mean),
    "nanvar": row(jnp.nanvar, var),
    "nanstd": row(jnp.nanstd, lambda v: mp.sqrt(var(v))),
    "argmax": row(jnp.argmax, None, 0),
    "argmin": row(jnp.argmin, None, 0),
    "take(7)": row(lambda v: jnp.take(v, 7), None),
    "take(-1)": row(lambda v: jnp.take(v, -1), lambda v: v[2]),
    "take_along_axis(7)": row(lambda v: jnp.take_along_axis(v, jnp.array([7]), 0), None),
    "index(7)": row(lambda v: v[7 + jnp.argmin(0 * jnp.ones(1))], None),
    "at(7).add(1)": row(lambda v: v.at[7].add(1.0), None),
    "softmax": row(nn.softmax, softmax),
    "log_softmax": row(nn.log_softmax, lambda v: [x - logsumexp(v) for x in v]),
    "layer_norm": row(jax_layer_norm, layer_norm),
    "rms_norm": row(lambda v: v * lax.rsqrt(jnp.mean(v * v) + 1e-5), rms_norm),
    "cumsum": row(jnp.cumsum, partial(mp.fsum)),
    "cumprod": row(jnp.cumprod, partial(mp.fprod)),
    "cummax": row(lax.cummax, partial(max)),
    "cummin": row(lax.cummin, partial(min)),
    "cumlogsumexp": row(lax.cumlogsumexp, partial(logsumexp)),
    "sort": row(jnp.sort, sorted),
    "sort_descending": row(lambda v: jnp.sort(v, descending=True), lambda v: sorted(v, reverse=True)),
    "argsort": row(jnp.argsort, None, 0),
    "argsort_descending": row(lambda v: jnp.argsort(v, descending=True), None, 0),
    "median": row(jnp.median, lambda v: sorted(v)[1]),
    "quantile(0.3)": row(lambda v: jnp.quantile(v, 0.3), lambda v: quantile(v, mpf(0.3))),
}

# -- Recording --------------------------------------------------------------------------------------


def weighted(y):
    y = jnp.ravel(y)
    return jnp.dot(jnp.array(WEIGHTS[: y.size]), y) if y.size > 1 else y[0]


def jax_answers(kind, order, f, points):
    def row(v):
        total = lambda v: weighted(f(v))
        return jax.grad(total)(v), jax.hessian(total)(v)

    def separate(v):
        # Each operand is differentiated alone, with the others constant: 0 times a nan of another would be nan.
        g = [jax.grad(lambda *x: f(x), i) for i in range(len(v))]
        h = [jax.jacfwd(gi, j)(*v) for gi in g for j in range(len(v))]
        return jnp.stack([gi(*v) for gi in g]), jnp.stack(h)

    def answer(v):
        parts = [jnp.ravel(f(v)).astype(jnp.float64)]
        if order > 0:
            parts += [jnp.ravel(p) for p in (row if kind == "row" else separate)(v)]
        return jnp.concatenate(parts)

    # Compile for one point, because XLA may compute an element of a vector differently depending on its neighbours.
    compiled = jax.jit(answer)
    return [[float(a) for a in compiled(jnp.array(p))] for p in points]


def limit(sides):
    """Returns the limit of differences taken from several sides with two step widths, or None if there is none.

    At a kink the spread of the differences does not shrink with the step; at a pole the differences grow."""
    (a, wide), (b, narrow) = sides(1), sides(mpf(1) / 1000)
    if narrow > max(wide / 100, abs(b) * mpf(10) ** -12):
        return None
    if abs(a - b) > max(wide, abs(b) * mpf(10) ** -12):
        return None
    return b if abs(b) > wide else mpf(0)


def differences(total, v, steps):
    """Returns the gradient and the Hessian by differences, with None for elements that do not exist."""
    n = len(v)
    memo = {}

    def at(scale, *moves):
        key = (scale,) + tuple(sorted(m for m in moves if m))
        if key not in memo:
            x = list(v)
            for i, sign in moves:
                x[i] += sign * scale * steps[i]
            memo[key] = total(x)
        return memo[key]

    def spread(sides):
        return mp.fsum(sides) / len(sides), max(sides) - min(sides)

    def first(i):
        def sides(s):
            zero, h = at(s), s * steps[i]
            return spread([(at(s, (i, 1)) - zero) / h, (zero - at(s, (i, -1))) / h])
        return limit(sides)

    def second(i, j):
        def sides(s):
            zero, hh = at(s), s * s * steps[i] * steps[j]
            corner = lambda a, b: a * b * (at(s, (i, a), (j, b)) - at(s, (i, a)) - at(s, (j, b)) + zero) / hh
            if i != j:
                return spread([corner(a, b) for a in (1, -1) for b in (1, -1)])
            middle = (at(s, (i, 1)) - 2 * zero + at(s, (i, -1))) / hh
            return middle, spread([corner(1, 1), corner(-1, -1), middle])[1]
        return limit(sides)

    def safe(f):
        try:
            return f()
        except (ValueError, ZeroDivisionError, TypeError, OverflowError):
            return None

    g = [safe(lambda: first(i)) for i in range(n)]
    h = [safe(lambda: second(i, j)) for i in range(n) for j in range(n)]
    return g, [h[i * n + j] if g[i] is not None and g[j] is not None else None
               for i in range(n) for j in range(n)]


def double(x):
    if x is None:
        return None
    if x == 0:
        return 0.0
    try:
        return float(x)
    except OverflowError:
        return inf if x > 0 else -inf


def exact_answer(order, f, point, size):
    if f is None or not all(abs(x) < inf for x in point):
        return None
    # Steps are small relative to each coordinate, with enough digits to resolve the change of the function.
    far = any(abs(x) > 1e15 or 0 < abs(x) < 1e-15 for x in point)
    mp.dps = 1500 if far else 700
    v = [mpf(x) for x in point]
    steps = [min(abs(x), mpf(1)) * mpf(10) ** -25 if x else mpf(10) ** -25 for x in v]
    if any(x == 0 for x in v) and any(0 < abs(x) < 1e-15 for x in v):
        steps = [min(steps)] * len(steps)
    try:
        y = f(v)
        y = [real(a) for a in y] if isinstance(y, list) else [real(y)]
        parts = list(y)
        if order > 0:
            total = lambda v: real(mp.fsum(w * a for w, a in zip(WEIGHTS, f(v))) if len(y) > 1 else f(v))
            g, h = differences(total, v, steps)
            parts += g + h
    except (ValueError, ZeroDivisionError, TypeError, OverflowError):
        return None
    if any(p is not None and not mp.isfinite(p) for p in parts):
        return None
    return [double(p) for p in parts]


def shown(x):
    return x if x is None or abs(x) < inf else {inf: "inf", -inf: "-inf"}.get(x, "nan")


def record(name):
    kind, order, f, g = FUNCTIONS[name]
    points = POINTS[kind]
    answers = jax_answers(kind, order, f, points)
    exact = [exact_answer(order, g, p, len(a)) for p, a in zip(points, answers)]
    rows = lambda m: [a and [shown(x) for x in a] for a in m]
    return {"name": name, "points": kind, "order": order, "jax": rows(answers), "exact": rows(exact)}


def main():
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "edges.jsonl")
    wanted = sys.argv[1:]
    kept = {}
    if wanted and os.path.exists(path):
        with open(path) as file:
            lines = [json.loads(line) for line in file]
        kept = {e["name"]: e for e in lines[1:]}
    head = {"script": VERSION, "jax": jax.__version__, "mpmath": mpmath.__version__,
            "weights": WEIGHTS, "points": {k: [[shown(x) for x in p] for p in v] for k, v in POINTS.items()}}
    entries = []
    for name in FUNCTIONS:
        start = time.monotonic()
        keep = name in kept and name not in wanted
        entries.append(kept[name] if keep else record(name))
        if not keep:
            print(f"{name}: {time.monotonic() - start:.1f} s", file=sys.stderr, flush=True)
    with open(path, "w") as file:
        for entry in [head] + entries:
            file.write(json.dumps(entry, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
