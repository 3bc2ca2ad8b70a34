"""Four programs of linear algebra and transforms in JAX: pip install jax scipy, then run this file.

Each program is also written with tapeloom: a Gaussian process (`prelude/examples/gaussian_process.rs`), principal components
and a Kalman filter (the chapter *Linear algebra* of the book), deconvolution (`prelude/examples/fft_deconvolution.rs`). After
running them, prints the number of lines of code of both forms, without blank lines, comments, documentation and closing
brackets.
"""

import re
from pathlib import Path

import jax
import jax.numpy as jnp
from jax.scipy.linalg import cho_solve, solve_triangular
from jax.scipy.optimize import minimize
from jax.test_util import check_grads

jax.config.update("jax_enable_x64", True)


# begin: gaussian process
def covariance(k, x, y):
    return jnp.exp(-0.5 * ((x[:, None] - y) / jnp.exp(k[0])) ** 2)


def factor(k, x):
    return jnp.linalg.cholesky(covariance(k, x, x) + jnp.exp(k[1]) ** 2 * jnp.eye(len(x)))


def misfit(k, x, y):
    l = factor(k, x)
    white = solve_triangular(l, y, lower=True)
    return 0.5 * (white**2).sum() + jnp.log(jnp.diag(l)).sum()


@jax.jit
def predict(k, x, y, at):
    l, across = factor(k, x), covariance(k, at, x)
    white = solve_triangular(l, across.T, lower=True)
    return across @ cho_solve((l, True), y), jnp.sqrt(1.0 - (white**2).sum(0))


def gaussian_process():
    f = lambda x: jnp.sin(x) + 0.3 * jnp.cos(2.0 * x)
    x, left_out = 0.5 * jnp.arange(14), 0.25 + 0.5 * jnp.arange(13)
    y, truth = f(x), f(left_out)
    start = jnp.array([-1.0, -2.0])
    fit = jax.jit(lambda k: minimize(misfit, k, (x, y), method="BFGS", options={"maxiter": 20}))
    k, after = fit(start).x, fit(start).fun
    before = misfit(start, x, y)
    found, deviation = predict(k, x, y, left_out)
    print(f"log length {k[0]:.3f}, log noise {k[1]:.3f}, misfit {before:.2f} to {after:.2f}")
    print(f"truth {truth}\nfound {found}\n  +-  {deviation}")
    assert after + 3.0 < before
    assert jnp.abs(found - truth).max() < 0.1
# end


# begin: principal components
def explained(x, k):
    centered = x - x.mean(0, keepdims=True)
    variance = jnp.linalg.svd(centered, compute_uv=False) ** 2
    return variance[:k].sum() / variance.sum()


def principal_components():
    x = jnp.array([[1.0, 2.0, 0.5], [0.0, 1.5, -1.0], [3.0, -1.0, 0.25], [2.0, 0.5, 4.0]])
    check_grads(lambda x: explained(x, 2), (x,), 2)
# end


# begin: kalman filter
def kalman(f, h, noise, observations):
    m, n = h.shape

    def step(state, y):
        x, p = state
        x, p = f @ x, f @ p @ f.T + 0.1 * jnp.eye(n)
        l = jnp.linalg.cholesky(h @ p @ h.T + noise * jnp.eye(m))
        off = y - h @ x
        gain = cho_solve((l, True), h @ p).T
        white = solve_triangular(l, off, lower=True)
        log = -0.5 * (white**2).sum() - jnp.log(jnp.diag(l)).sum()
        return (x + gain @ off, p - gain @ h @ p), log

    return jax.lax.scan(step, (jnp.zeros(n), jnp.eye(n)), observations)[1].sum()


def kalman_filter():
    turn = jnp.array([[0.9, -0.2], [0.2, 0.9]])
    observations = jnp.array([[1.0], [0.5], [-0.25], [0.75]])
    check_grads(kalman, (turn, jnp.array([[1.0, 0.5]]), 0.3, observations), 2)
# end


# begin: deconvolution
N, WIDTH = 256, 4.0


def blur(x):
    gain = jnp.exp(-0.5 * (2.0 * jnp.pi * WIDTH * jnp.fft.rfftfreq(N)) ** 2)
    return jnp.fft.irfft(jnp.fft.rfft(x) * gain, N)


def loss(x, seen):
    variation = jnp.sqrt(jnp.diff(x) ** 2 + 1e-4).sum()
    return 0.5 * ((blur(x) - seen) ** 2).sum() + 0.01 * variation


@jax.jit
def sharpen(seen):
    def step(_, state):
        x, v = state
        v = 0.95 * v - 0.2 * jax.grad(loss)(x + 0.95 * v, seen)
        return x + v, v

    return jax.lax.fori_loop(0, 400, step, (seen, jnp.zeros_like(seen)))[0]


def distance(x, y):
    return jnp.sqrt(((x - y) ** 2).mean())


def deconvolution():
    truth = jnp.zeros(N).at[40:80].set(1.0).at[110:118].set(2.0).at[150:220].set(0.5)
    seen = blur(truth) + 0.01 * jax.random.normal(jax.random.key(1), (N,))
    sharp = sharpen(seen)
    before, after = distance(seen, truth), distance(sharp, truth)
    print(f"distance to the signal: blurred {before:.3f}, sharpened {after:.3f}")
    assert after < 0.35 * before
# end


def lines(text):
    """Returns the lines that contain a letter, a digit or an operator, without comments and attributes."""
    code = [re.sub(r"(^|\s)(//|#).*", "", line).strip() for line in text.splitlines()]
    return sum(bool(re.search(r"[\w=|+*<-]", line)) and not line.startswith(("use ", "import ", "from ")) for line in code)


def count():
    here = Path(__file__).resolve()
    root = here.parent.parent.parent
    own = dict(re.findall(r"# begin: ([\w ]+)\n(.*?)# end", here.read_text(), re.DOTALL))
    book = (root / "book/src/linear-algebra.md").read_text()
    recipe = lambda title: re.search(rf"## {title}.*?```rust\n(.*?)```", book, re.DOTALL).group(1)
    example = lambda name: (root / f"prelude/examples/{name}.rs").read_text()
    there = {
        "gaussian process": example("gaussian_process"),
        "principal components": recipe("Principal components"),
        "kalman filter": recipe("A Kalman filter"),
        "deconvolution": example("fft_deconvolution"),
    }
    for name, text in there.items():
        ours, theirs = lines(text), lines(own[name])
        print(f"{name}: {ours} lines, in JAX {theirs}: {ours / theirs:.2f}")


gaussian_process()
principal_components()
kalman_filter()
deconvolution()
count()
