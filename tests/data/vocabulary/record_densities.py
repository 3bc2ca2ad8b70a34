#!/usr/bin/env python3
"""Records densities.jsonl: log densities of SciPy, entropies of SciPy, divergences by mpmath.

Run `python3 record_densities.py > densities.jsonl` with jax 0.10.2, numpy 2, scipy 1.16 or newer and mpmath 1.3.

`cases.py` describes a line. Divergences are integrals or sums of p ln(p / q), and values for large parameters are
computed with fifty digits. Derivatives are those of JAX's densities, or of textbook formulas written with JAX.
"""

import jax
import jax.numpy as jnp
import jax.scipy.stats as jst
import mpmath as mp
import numpy as np
import scipy.stats as st
from jax.scipy.special import digamma, gammaln, xlogy

from cases import INF, NAN, case, header, normal, uniform

header()
mp.mp.dps = 50
EULER = float(mp.euler)
POINTS = np.array([-INF, -3.0, -1.0, -0.0, 0.0, 0.3, 1.0, 2.0, INF, NAN])


def positive(*shape):
    return uniform(0.3, 3.0, *shape)


def numbers(f):
    """Returns a function of arrays that computes each element by mpmath."""
    return lambda *x: np.vectorize(lambda *x: float(f(*[mp.mpf(float(v)) for v in x])))(*x)


def ended(f):
    """Returns a density with the limit -inf at infinities, where some of SciPy's are nan."""
    return lambda x, *params: np.where(np.isinf(x), -INF, f(x, *params))


def log_density(name, params, scipy, jax_f, x, *ps):
    """Records a density at x, and the values at points on the edges of the support for the first parameters."""
    case(name, jax_f, x, *ps, ref=scipy)
    first = [np.full(POINTS.shape, np.asarray(p).flatten()[0]) for p in ps]
    case(name, jax_f, POINTS, *first, ref=ended(scipy), edge=True, grad=False)
    for i in range(len(ps)):
        if params[i] == "positive":
            for bad in [-1.0, NAN]:
                spoilt = [np.full(POINTS.shape, bad) if i == j else p for j, p in enumerate(first)]
                case(name, jax_f, POINTS, *spoilt, ref=lambda x, *p: np.full(x.shape, NAN), edge=True, grad=False)


# log densities
X = normal(2, 3)
LOC, SCALE = normal(3), positive(3)
BOTH = ["any", "positive"]
log_density("normal_logpdf", BOTH, st.norm.logpdf, jst.norm.logpdf, X, LOC, SCALE)
log_density("laplace_logpdf", BOTH, st.laplace.logpdf, jst.laplace.logpdf, X, LOC, SCALE)
log_density("logistic_logpdf", BOTH, st.logistic.logpdf, jst.logistic.logpdf, X, LOC, SCALE)
log_density("gumbel_logpdf", BOTH, st.gumbel_r.logpdf, lambda x, m, s: -(x - m) / s - jnp.exp(-(x - m) / s) - jnp.log(s), X, LOC, SCALE)
log_density("cauchy_logpdf", BOTH, st.cauchy.logpdf, jst.cauchy.logpdf, X, LOC, SCALE)
log_density("uniform_logpdf", ["any", "any"], lambda x, a, b: st.uniform.logpdf(x, a, b - a),
            lambda x, a, b: jst.uniform.logpdf(x, a, b - a), uniform(0, 1, 2, 3), np.array([-0.5, 0.0, -2.0]), np.array([1.0, 1.5, 2.0]))
log_density("student_t_logpdf", ["positive", "any", "positive"], st.t.logpdf, jst.t.logpdf, X, np.array([0.7, 4.0, 30.0]), LOC, SCALE)
log_density("truncated_normal_logpdf", ["any", "any", "any", "positive"], st.truncnorm.logpdf, jst.truncnorm.logpdf,
            uniform(0.1, 0.2, 2, 3), np.array([-1.0, -0.4, 0.0]), np.array([0.5, 3.0, 2.0]), np.zeros(3), np.array([1.0, 0.9, 2.0]))
case("truncated_normal_logpdf", jst.truncnorm.logpdf, uniform(2.1, 2.4, 2, 3), np.array([1.5, 0.3, 2.0]), np.array([3.0, 3.0, 2.5]),
     np.array([0.0, 0.1, 0.0]), np.array([1.0, 1.1, 1.0]), ref=st.truncnorm.logpdf)
case("truncated_normal_logpdf", jst.truncnorm.logpdf, uniform(-2.4, -2.1, 2, 3), np.array([-3.0, -3.0, -2.5]), np.array([-1.5, -0.3, -2.0]),
     np.array([0.0, 0.1, 0.0]), np.array([1.0, 1.1, 1.0]), ref=st.truncnorm.logpdf)
ENDLESS = np.array([-INF, 5.0, -INF, -1.0]), np.array([2.0, INF, INF, INF])
case("truncated_normal_logpdf", jst.truncnorm.logpdf, np.array([1.0, 6.0, -9.0, 0.0]), *ENDLESS, np.zeros(4), np.ones(4), ref=st.truncnorm.logpdf, edge=True, grad=False)
ABOVE = positive(2, 3)
log_density("exponential_logpdf", ["positive"], lambda x, s: st.expon.logpdf(x, scale=s), lambda x, s: jst.expon.logpdf(x, scale=s), ABOVE, SCALE)
SHAPES = np.array([0.7, 3.0, 15.5])
gamma = (lambda x, a, s: st.gamma.logpdf(x, a, scale=s)), (lambda x, a, s: jst.gamma.logpdf(x, a, scale=s))
log_density("gamma_logpdf", ["positive", "positive"], *gamma, ABOVE, SHAPES, SCALE)
for a in [0.3, 1.0, 2.0, 11.0, 40.0]:
    case("gamma_logpdf", gamma[1], POINTS, np.full(POINTS.shape, a), np.full(POINTS.shape, 0.5), ref=ended(gamma[0]), edge=True, grad=False)
log_density("chisquare_logpdf", ["positive"], st.chi2.logpdf, jst.chi2.logpdf, ABOVE, SHAPES)
# JAX's own density loses digits in its derivatives.
beta_log = lambda x, a, b: xlogy(a - 1, x) + xlogy(b - 1, 1 - x) - gammaln(a) - gammaln(b) + gammaln(a + b)
log_density("beta_logpdf", ["positive", "positive"], st.beta.logpdf, beta_log, uniform(0.1, 0.9, 2, 3), SHAPES, np.array([1.2, 20.0, 12.5]))
for a, b in [(0.3, 1.0), (1.0, 1.0), (2.0, 0.5), (1.0, 3.0), (11.0, 40.0)]:
    case("beta_logpdf", jst.beta.logpdf, POINTS, np.full(POINTS.shape, a), np.full(POINTS.shape, b), ref=st.beta.logpdf, edge=True, grad=False)

# large parameters
BIG = np.array([1e3, 1e6, 1e10, 1e12])
case("gamma_logpdf", None, BIG + np.sqrt(BIG), BIG, np.ones(4), edge=True, grad=False,
     ref=numbers(lambda x, a, s: (a - 1) * mp.log(x) - x - mp.loggamma(a)))
case("poisson_logpmf", None, BIG, BIG + np.sqrt(BIG), edge=True, grad=False,
     ref=numbers(lambda k, r: k * mp.log(r) - r - mp.loggamma(k + 1)))
case("beta_logpdf", None, np.array([0.3, 0.3, 0.3001, 0.3]), 0.3 * BIG, 0.7 * BIG, edge=True, grad=False,
     ref=numbers(lambda x, a, b: (a - 1) * mp.log(x) + (b - 1) * mp.log(1 - x) - mp.log(mp.beta(a, b))))
case("binomial_logpmf", None, np.floor(0.3 * BIG), BIG, np.array([0.31, 0.3, 0.3, 0.3]), edge=True, grad=False,
     ref=numbers(lambda k, n, p: k * mp.log(p) + (n - k) * mp.log(1 - p) + mp.loggamma(n + 1) - mp.loggamma(k + 1) - mp.loggamma(n - k + 1)))
case("student_t_logpdf", None, np.array([0.3, 1.0, 3.0, 1e200]), np.array([1e3, 1e8, 1e15, 3.0]), np.zeros(4), np.ones(4), edge=True, grad=False,
     ref=numbers(lambda x, v, m, s: mp.loggamma((v + 1) / 2) - mp.loggamma(v / 2) - mp.log(v * mp.pi) / 2 - (v + 1) / 2 * mp.log(1 + x**2 / v)))
case("gamma_entropy", None, BIG, np.ones(4), edge=True, grad=False, ref=numbers(lambda a, s: a + mp.loggamma(a) + (1 - a) * mp.digamma(a)))
case("student_t_entropy", None, BIG, np.ones(4), edge=True, grad=False,
     ref=numbers(lambda v, s: (v + 1) / 2 * (mp.digamma((v + 1) / 2) - mp.digamma(v / 2)) + mp.log(v) / 2 + mp.log(mp.beta(v / 2, 0.5))))
case("gamma_kl", None, BIG, np.ones(4), BIG + np.sqrt(BIG), np.ones(4), edge=True, grad=False,
     ref=numbers(lambda a, s, b, t: mp.loggamma(b) - mp.loggamma(a) - (b - a) * mp.digamma(a)))

# vectors
PARTS = np.array([[0.2, 0.3, 0.5], [0.1, 0.8, 0.1]])
ALPHA = np.array([0.7, 3.0, 15.5])
rows = lambda f: lambda x, a: np.array([f(x, a) for x in x])
case("dirichlet_logpdf", lambda x, a: jnp.sum(xlogy(a - 1, x), -1) + gammaln(a.sum(-1)) - gammaln(a).sum(-1), PARTS, ALPHA, ref=rows(st.dirichlet.logpdf), edge=True)
case("dirichlet_logpdf.softmax", lambda x, a: jnp.sum(xlogy(a - 1, jax.nn.softmax(x)), -1) + gammaln(a.sum(-1)) - gammaln(a).sum(-1), np.log(PARTS), ALPHA)
case("dirichlet_logpdf", None, np.array([[0.0, 0.4, 0.6], [-0.1, 0.5, 0.6], [0.5, 0.6, 0.1], [NAN, 0.5, 0.5], [0.0, 0.0, 1.0]]), np.array([1.0, 2.0, 3.0]), edge=True, grad=False,
     ref=lambda x, a: np.array([np.log(60 * 0.4 * 0.6**2), -INF, -INF, NAN, -INF]))

# counts
case("bernoulli_logpmf", jst.bernoulli.logpmf, np.array([0, 1, 1]), uniform(0.1, 0.9, 2, 3), ref=st.bernoulli.logpmf)
case("bernoulli_logpmf", None, np.array([0, 1, 2, -1, 0, 1, 0, 1]), np.array([0.5, 0.5, 0.5, 0.5, 1.0, 0.0, 2.0, -1.0]), ref=st.bernoulli.logpmf, edge=True, grad=False)
case("bernoulli_logpmf", None, np.array([False, True, True]), np.array([0.0, 1.0, 0.25]), ref=lambda k, p: np.array([0.0, 0.0, np.log(0.25)]), edge=True, grad=False)
case("bernoulli_logpmf", None, np.array([0.0, 1.0, 0.5, NAN]), np.array([0.25] * 4), ref=lambda k, p: np.array([np.log(0.75), np.log(0.25), -INF, NAN]), edge=True, grad=False)
case("binomial_logpmf", jst.binom.logpmf, np.array([0, 3, 15]), np.array([2, 7, 40]), uniform(0.1, 0.9, 2, 3), ref=st.binom.logpmf)
case("binomial_logpmf", None, np.array([0, 3, 4, -1, 3, 3, 0]), np.array([3.0, 3.0, 3.0, 3.0, 3.0, 2.5, -1.0]), np.array([0.0, 1.0, 0.5, 0.5, 0.0, 0.5, 0.5]), ref=st.binom.logpmf, edge=True, grad=False)
case("poisson_logpmf", jst.poisson.logpmf, np.array([0, 3, 15]), uniform(0.1, 20, 2, 3), ref=st.poisson.logpmf)
case("poisson_logpmf", None, np.array([0.0, 3.0, 0.5, -1.0, 2.0, 12.0]), np.array([0.0, 0.0, 1.0, 1.0, -1.0, 0.0]), ref=lambda k, r: np.array([0.0, -INF, -INF, -INF, NAN, -INF]), edge=True, grad=False)
logits = normal(2, 3)
case("categorical_logpmf", lambda k, x: jnp.take_along_axis(jax.nn.log_softmax(x), k[:, None], 1)[:, 0], np.array([2, 0]), logits)
case("categorical_logpmf.0", lambda k, x: jax.nn.log_softmax(x, axis=0)[k, jnp.arange(3)], np.array([1, 0, 1]), logits)
case("categorical_logpmf", None, np.array([0, 1, 2, -1, 3]), np.array([0.0, -INF, 0.0]), edge=True, grad=False,
     ref=lambda k, x: np.array([-np.log(2), -INF, -np.log(2), -INF, -INF]))

# entropies
case("normal_entropy", lambda s: 0.5 * jnp.log(2 * jnp.pi * jnp.e * s**2), SCALE, ref=lambda s: st.norm.entropy(scale=s))
case("uniform_entropy", lambda a, b: jnp.log(b - a), np.array([-1.0, 0.0]), np.array([0.5, 3.0]))
case("laplace_entropy", lambda s: 1 + jnp.log(2 * s), SCALE, ref=lambda s: st.laplace.entropy(scale=s))
case("logistic_entropy", lambda s: 2 + jnp.log(s), SCALE, ref=lambda s: st.logistic.entropy(scale=s))
case("gumbel_entropy", lambda s: 1 + EULER + jnp.log(s), SCALE, ref=lambda s: st.gumbel_r.entropy(scale=s))
case("cauchy_entropy", lambda s: jnp.log(4 * jnp.pi * s), SCALE, ref=lambda s: st.cauchy.entropy(scale=s))
t_entropy = lambda v, s: (v + 1) / 2 * (digamma((v + 1) / 2) - digamma(v / 2)) + jnp.log(v) / 2 + gammaln(v / 2) + gammaln(0.5) - gammaln((v + 1) / 2) + jnp.log(s)
case("student_t_entropy", t_entropy, np.array([0.7, 4.0, 30.0]), SCALE)
case("exponential_entropy", lambda s: 1 + jnp.log(s), SCALE, ref=lambda s: st.expon.entropy(scale=s))
entropy_of_gamma = lambda a, s: a + gammaln(a) + (1 - a) * digamma(a) + jnp.log(s)
case("gamma_entropy", entropy_of_gamma, SHAPES, SCALE, ref=numbers(lambda a, s: a + mp.loggamma(a) + (1 - a) * mp.digamma(a) + mp.log(s)))
beta_entropy = lambda a, b: gammaln(a) + gammaln(b) - gammaln(a + b) - (a - 1) * digamma(a) - (b - 1) * digamma(b) + (a + b - 2) * digamma(a + b)
case("beta_entropy", beta_entropy, SHAPES, np.array([1.2, 0.4, 12.5]), ref=st.beta.entropy)
dirichlet_entropy = lambda a: gammaln(a).sum(-1) - gammaln(a.sum(-1)) + (a.sum(-1) - a.shape[-1]) * digamma(a.sum(-1)) - ((a - 1) * digamma(a)).sum(-1)
case("dirichlet_entropy", dirichlet_entropy, np.array([ALPHA, [1.0, 0.5, 2.0]]), ref=lambda a: np.array([st.dirichlet.entropy(a) for a in a]))
case("bernoulli_entropy", lambda p: -xlogy(p, p) - xlogy(1 - p, 1 - p), uniform(0.1, 0.9, 5), ref=st.bernoulli.entropy)
case("bernoulli_entropy", None, np.array([0.0, 1.0, -0.1, 1.1]), ref=lambda p: np.array([0.0, 0.0, NAN, NAN]), edge=True, grad=False)
case("categorical_entropy", lambda x: -(jax.nn.softmax(x) * jax.nn.log_softmax(x)).sum(-1), logits, ref=lambda x: st.entropy(np.exp(x), axis=-1))
def entropy_by_integral(a, b, s):
    mass = mp.ncdf(b) - mp.ncdf(a)
    p = lambda x: mp.npdf(x) / mass
    return mp.log(s) - mp.quad(lambda x: p(x) * mp.log(p(x)), [max(a, -12), 0, min(b, 12)] if a < 0 < b else [max(a, -12), min(b, 12)])


def cut_entropy(a, b, s):
    mass = jst.norm.cdf(b) - jst.norm.cdf(a)
    return jnp.log(jnp.sqrt(2 * jnp.pi * jnp.e) * s * mass) + (a * jst.norm.pdf(a) - b * jst.norm.pdf(b)) / (2 * mass)


case("truncated_normal_entropy", cut_entropy, np.array([-1.0, 0.5, -2.0]), np.array([0.5, 2.0, -1.0]), SCALE, ref=numbers(entropy_by_integral))
case("truncated_normal_entropy", None, np.array([-INF, 2.0, -INF]), np.array([2.0, INF, INF]), np.ones(3), edge=True, grad=False,
     ref=numbers(entropy_by_integral))

# divergences


def integral(p, edges):
    """Returns the integral of p(x) ln(p(x) / q(x)) for a log density p of x and parameters; q has other parameters."""
    def kl(*params):
        half = len(params) // 2
        f = lambda x: mp.exp(p(x, *params[:half])) * (p(x, *params[:half]) - p(x, *params[half:]))
        return mp.quad(f, edges)
    mp.mp.dps = 20
    return numbers(kl)


LINE, RAY, UNIT = [-mp.inf, -30, -8, -2, 0, 2, 8, 30, mp.inf], [0, 0.1, 1, 4, 16, 60, mp.inf], [0, 0.01, 0.5, 0.99, 1]
A, B = (normal(3), positive(3)), (normal(3), positive(3))
p = lambda x, m, s: -((x - m) / s) ** 2 / 2 - mp.log(s)
case("normal_kl", lambda m, s, n, t: jnp.log(t / s) + (s**2 + (m - n) ** 2) / (2 * t**2) - 0.5, *A, *B,
     ref=lambda *v: integral(p, LINE)(*v) / np.sqrt(2 * np.pi))
p = lambda x, m, s: -abs(x - m) / s - mp.log(2 * s)
laplace = lambda m, s, n, t: jnp.log(t / s) + jnp.abs(m - n) / t + s / t * jnp.exp(-jnp.abs(m - n) / s) - 1
case("laplace_kl", laplace, *A, *B, ref=numbers(lambda m, s, n, t: mp.quad(
    lambda x: mp.exp(p(x, m, s)) * (p(x, m, s) - p(x, n, t)), [-mp.inf, min(m, n), max(m, n), mp.inf])))
p = lambda x, m, s: -(x - m) / s - mp.exp(-(x - m) / s) - mp.log(s)
gumbel = lambda m, s, n, t: jnp.log(t / s) + (m - n) / t + EULER * (s / t - 1) + jnp.exp(gammaln(1 + s / t) - (m - n) / t) - 1
case("gumbel_kl", gumbel, *A, *B)
case("cauchy_kl", lambda m, s, n, t: jnp.log(((s + t) ** 2 + (m - n) ** 2) / (4 * s * t)), *A, *B)
case("uniform_kl", lambda a, b, c, d: jnp.log((d - c) / (b - a)), np.array([0.0, 1.0]), np.array([1.0, 2.0]), np.array([-1.0, 0.5]), np.array([1.5, 5.0]))
case("uniform_kl", None, np.array([0.0, 0.0, 1.0]), np.array([1.0, 1.0, 0.0]), np.array([0.0, 0.5, 0.0]), np.array([0.5, 2.0, 1.0]), edge=True, grad=False,
     ref=lambda *v: np.array([INF, INF, NAN]))
p = lambda x, s: -x / s - mp.log(s)
case("exponential_kl", lambda s, t: jnp.log(t / s) + s / t - 1, A[1], B[1], ref=integral(p, RAY))
p = lambda x, a, s: (a - 1) * mp.log(x / s) - x / s - mp.loggamma(a) - mp.log(s)
gamma_kl = lambda a, s, b, t: (a - b) * digamma(a) - gammaln(a) + gammaln(b) + b * jnp.log(t / s) + a * (s / t - 1)
case("gamma_kl", gamma_kl, np.array([1.7, 3.0, 15.5]), A[1], np.array([0.9, 12.0, 14.0]), B[1], ref=integral(p, RAY))
p = lambda x, a, b: (a - 1) * mp.log(x) + (b - 1) * mp.log(1 - x) - mp.log(mp.beta(a, b))
betaln = lambda a, b: gammaln(a) + gammaln(b) - gammaln(a + b)
beta_kl = lambda a, b, c, d: betaln(c, d) - betaln(a, b) + (a - c) * digamma(a) + (b - d) * digamma(b) + (c - a + d - b) * digamma(a + b)
case("beta_kl", beta_kl, np.array([1.7, 3.0, 15.5]), np.array([2.0, 1.5, 11.0]), np.array([0.9, 12.0, 14.0]), np.array([0.7, 2.0, 30.0]), ref=integral(p, UNIT))
dirichlet_kl = lambda a, b: gammaln(a.sum(-1)) - gammaln(a).sum(-1) - gammaln(b.sum(-1)) + gammaln(b).sum(-1) + ((a - b) * (digamma(a) - digamma(a.sum(-1, keepdims=True)))).sum(-1)
case("dirichlet_kl", dirichlet_kl, np.array([ALPHA, [1.0, 0.5, 2.0]]), np.array([2.0, 11.0, 12.0]))
P, Q = uniform(0.1, 0.9, 2, 3), uniform(0.1, 0.9, 3)
case("bernoulli_kl", lambda p, q: p * jnp.log(p / q) + (1 - p) * jnp.log((1 - p) / (1 - q)), P, Q)
case("bernoulli_kl", None, np.array([0.0, 1.0, 0.0, 0.5, 0.5, 1.0, 2.0]), np.array([0.0, 1.0, 0.5, 0.0, 1.0, 0.0, 0.5]), edge=True, grad=False,
     ref=lambda p, q: np.array([0.0, 0.0, np.log(2), INF, INF, INF, NAN]))
case("poisson_kl", lambda p, q: p * jnp.log(p / q) - p + q, A[1], B[1])
case("categorical_kl", lambda x, y: (jax.nn.softmax(x) * (jax.nn.log_softmax(x) - jax.nn.log_softmax(y))).sum(-1), logits, normal(2, 3))
case("categorical_kl", None, np.array([[0.0, -INF], [0.0, 0.0]]), np.array([[0.0, 0.0], [0.0, -INF]]), edge=True, grad=False,
     ref=lambda x, y: np.array([np.log(2), INF]))

# Angles, truncated normal distributions, and entropies of counts.
mp.mp.dps = 50
ANGLES = np.array([[-3.0, -0.5, 0.0], [0.7, 2.0, 3.1]])
CENTERS, MANY = np.array([0.3, -1.0, 2.5]), np.array([0.4, 3.0, 40.0])
bessel = jax.scipy.special
log_i0 = lambda k: jnp.log(bessel.i0e(k)) + k
ratio = lambda k: bessel.i1e(k) / bessel.i0e(k)
case("von_mises_logpdf", lambda x, m, k: jst.vonmises.logpdf(x - m, k), ANGLES, CENTERS, MANY, ref=lambda x, m, k: st.vonmises.logpdf(x, k, loc=m))
case("von_mises_logpdf", None, np.array([0.5, 1e-3, 1e-6, 0.5, 0.5, NAN]), np.zeros(6), np.array([0.0, 1e6, 1e12, -1.0, NAN, 1.0]), edge=True, grad=False,
     ref=numbers(lambda x, m, k: mp.nan if not k >= 0 else k * mp.cos(x - m) - mp.log(2 * mp.pi * mp.besseli(0, k))))
case("von_mises_entropy", lambda k: jnp.log(2 * jnp.pi) + log_i0(k) - k * ratio(k), MANY, ref=st.vonmises.entropy)
case("von_mises_entropy", None, np.array([0.0, 299.0, 301.0, 1e5, 1e10]), edge=True, grad=False,
     ref=numbers(lambda k: mp.log(2 * mp.pi * mp.besseli(0, k)) - k * mp.besseli(1, k) / mp.besseli(0, k)))


def angles_apart(m, k, n, l):
    p = lambda x, m, k: k * mp.cos(x - m) - mp.log(2 * mp.pi * mp.besseli(0, k))
    return mp.quad(lambda x: mp.exp(p(x, m, k)) * (p(x, m, k) - p(x, n, l)), mp.linspace(m - mp.pi, m + mp.pi, 9))


case("von_mises_kl", lambda m, k, n, l: ratio(k) * (k - l * jnp.cos(m - n)) - log_i0(k) + log_i0(l), CENTERS, MANY, np.array([0.1, 1.0, 2.0]),
     np.array([2.0, 0.5, 30.0]), ref=numbers(angles_apart))


def cut_apart(a, b, m, s, c, d, n, t):
    z = (x_mean(a, b), x_square(a, b))
    other = (s**2 * z[1] + 2 * s * (m - n) * z[0] + (m - n) ** 2) / t**2
    mass = lambda a, b: jnp.log(jst.norm.cdf(b) - jst.norm.cdf(a))
    return jnp.log(t / s) + mass(c, d) - mass(a, b) + (other - z[1]) / 2


def x_mean(a, b):
    return (jst.norm.pdf(a) - jst.norm.pdf(b)) / (jst.norm.cdf(b) - jst.norm.cdf(a))


def x_square(a, b):
    return 1 + (a * jst.norm.pdf(a) - b * jst.norm.pdf(b)) / (jst.norm.cdf(b) - jst.norm.cdf(a))


def cut_by_integral(a, b, m, s, c, d, n, t):
    def p(x, a, b, m, s):
        z = (x - m) / s
        return -z**2 / 2 - mp.log(2 * mp.pi) / 2 - mp.log(s) - mp.log(mp.ncdf(b) - mp.ncdf(a) if b < 0 or a < 0 else mp.ncdf(-a) - mp.ncdf(-b))

    low, high = m + s * max(a, mp.mpf(-12)), m + s * min(b, max(a, 0) + 14)
    return mp.quad(lambda x: mp.exp(p(x, a, b, m, s)) * (p(x, a, b, m, s) - p(x, c, d, n, t)), mp.linspace(low, high, 17))


mp.mp.dps = 30
case("truncated_normal_kl", cut_apart, np.array([-1.0, 0.5, -2.0]), np.array([0.5, 2.0, -1.0]), np.array([0.0, 0.1, 0.5]), np.array([1.0, 1.1, 0.7]),
     np.array([-2.0, -0.5, -4.0]), np.array([1.5, 3.0, 3.0]), np.array([0.2, 0.0, -0.4]), np.array([1.3, 1.7, 0.8]), ref=numbers(cut_by_integral))
case("truncated_normal_kl", None, np.array([-INF, 2.0, -INF, 10.0]), np.array([2.0, INF, INF, INF]), np.zeros(4), np.ones(4),
     np.array([-INF, 1.0, -INF, 9.0]), np.array([3.0, INF, INF, INF]), np.array([0.0, 0.5, 1.0, 0.0]), np.array([1.0, 1.0, 2.0, 1.0]), edge=True, grad=False,
     ref=numbers(cut_by_integral))
# One interval with three scales, bounds beyond the other's, and no interval.
case("truncated_normal_kl", None, np.array([-0.1 / 0.3, -1.0, -1.0, 1.0]), np.array([0.7 / 0.3, 1.0, 1.0, 0.0]), np.array([0.1, 0.0, 0.0, 0.0]),
     np.array([0.3, 1.0, 1.0, 1.0]), np.array([-0.1 / 0.7, -0.9, -2.0, -2.0]), np.array([0.7 / 0.7, 2.0, 0.9, 2.0]), np.array([0.1, 0.0, 0.0, 0.0]),
     np.array([0.7, 1.0, 1.0, 1.0]), edge=True, grad=False,
     ref=lambda *v: np.array([float(cut_by_integral(*[mp.mpf(float(x[0])) for x in v])), INF, INF, NAN]))
counts = jnp.arange(400.0)


def poisson_entropy(r):
    log = xlogy(counts, r[..., None]) - r[..., None] - gammaln(counts + 1)
    return -(jnp.exp(log) * log).sum(-1)


def poisson_sum(r):
    # Of large rates, fifteen deviations on each side.
    k = range(0, int(r) + 400) if r < 1000 else range(int(r - 15 * mp.sqrt(r)), int(r + 15 * mp.sqrt(r)))
    total = mp.mpf(0)
    log = k[0] * mp.log(r) - r - mp.loggamma(k[0] + 1)
    for i in k:
        total -= mp.exp(log) * log
        log += mp.log(r / (i + 1))
    return total


case("poisson_entropy", poisson_entropy, np.array([[0.3, 2.0, 17.5], [60.0, 99.0, 130.0]]), ref=numbers(poisson_sum))
case("poisson_entropy", None, np.array([1e-8, 99.99, 100.01, 5000.0]), edge=True, grad=False, ref=numbers(poisson_sum))
case("poisson_entropy", None, np.array([0.0, INF, -1.0, NAN]), edge=True, grad=False, ref=lambda r: np.array([0.0, INF, NAN, NAN]))


def binomial_entropy(n, p):
    n, p = n[..., None] * 1.0, p[..., None]
    inside = counts <= n
    k = jnp.where(inside, counts, 0.0)
    log = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1) + xlogy(k, p) + xlogy(n - k, 1 - p)
    return -jnp.where(inside, jnp.exp(log) * log, 0.0).sum(-1)


TRIALS = np.array([1, 2, 17, 300])
case("binomial_entropy", binomial_entropy, TRIALS, np.array([0.3, 0.5, 0.9, 0.02]), ref=st.binom.entropy)


def binomial_sum(n, p):
    mean, width = n * p, 16 * mp.sqrt(n * p * (1 - p)) + 60
    k = range(max(0, int(mean - width)), min(int(n), int(mean + width)) + 1)
    log = lambda k: mp.loggamma(n + 1) - mp.loggamma(k + 1) - mp.loggamma(n - k + 1) + k * mp.log(p) + (n - k) * mp.log(1 - p)
    return -mp.fsum(mp.exp(log(i)) * log(i) for i in k)


case("binomial_entropy", None, np.array([400, 4000, 100000, 1000000]), np.array([0.5, 0.4, 0.999, 1e-4]), edge=True, grad=False, ref=numbers(binomial_sum))
case("binomial_entropy", None, np.array([0, 5, 5, 5, -1]), np.array([0.5, 0.0, 1.0, 1.5, 0.5]), edge=True, grad=False,
     ref=lambda n, p: np.array([0.0, 0.0, 0.0, NAN, NAN]))
