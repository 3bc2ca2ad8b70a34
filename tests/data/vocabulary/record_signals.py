#!/usr/bin/env python3
"""Records signals.jsonl: windows and short-time transforms of SciPy, distances, histograms and ln Γ_d.

Run `python3 record_signals.py > signals.jsonl` with jax 0.10.2, numpy 2 and scipy 1.16 or newer.

`cases.py` describes a line. SciPy's `stft` divides by the sum of the window, so it is multiplied by that again; then it
is PyTorch's. Derivatives are those of JAX.
"""

import jax.numpy as jnp
import jax.scipy.special as jsp
import numpy as np
import scipy.signal as sg
import scipy.spatial.distance as sd
import scipy.special as sp

from cases import INF, NAN, case, header, normal, uniform

header()

# windows
for name in ["hann", "hamming", "blackman"]:
    case(f"{name}.periodic", lambda name=name: sg.get_window(name, 8))
    case(f"{name}.symmetric", lambda name=name: sg.get_window(name, 7, fftbins=False))

# short-time transforms
parts = lambda z: [z.real, z.imag]


def stft(x, w, hop, centered):
    n = w.shape[0]
    side = n // 2 if centered else 0
    x = jnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(side, side)], mode="reflect") if side else x
    starts = np.arange(0, x.shape[-1] - n + 1, hop)
    return jnp.swapaxes(jnp.fft.rfft(x[..., starts[:, None] + np.arange(n)] * w), -1, -2)


def scipy_stft(x, w, hop, centered):
    z = sg.stft(x, window=w, nperseg=len(w), noverlap=len(w) - hop, boundary="even" if centered else None, padded=False)[2]
    return z * w.sum()


def istft(re, im, w, hop, centered, length):
    n, count = w.shape[0], re.shape[-1]
    frames = jnp.fft.irfft(jnp.swapaxes(re + 1j * im, -1, -2), n) * w
    places = (np.arange(count) * hop)[:, None] + np.arange(n)
    y = jnp.zeros(re.shape[:-2] + (places.max() + 1,)).at[..., places].add(frames)
    norm = jnp.zeros(places.max() + 1).at[places].add(jnp.broadcast_to(w**2, places.shape))
    side = n // 2 if centered else 0
    return (y / jnp.where(norm == 0, 1, norm))[..., side:side + length]


for shape, n in [((20,), 8), ((2, 17), 5)]:
    for centered, end in [(True, "centered"), (False, "inside")]:
        x, w = normal(*shape), uniform(0.5, 1.0, n)
        case(f"stft.{end}", lambda x, w: parts(stft(x, w, 3, centered)), x, w, ref=lambda x, w: parts(scipy_stft(x, w, 3, centered)))
        z = np.asarray(stft(x, w, 3, centered)) + normal(*stft(x, w, 3, centered).shape)
        case(f"istft.{end}", lambda re, im, w: istft(re, im, w, 3, centered, 14), z.real, z.imag, w)

# distances
for metric, p in [("cityblock", "1"), ("euclidean", "2"), ("chebyshev", "inf")]:
    f = lambda x, y, p=float(p): jnp.linalg.norm(x[..., :, None, :] - y[..., None, :, :], ord=p, axis=-1)
    case("cdist." + p, f, normal(3, 4), normal(2, 4), ref=lambda x, y, metric=metric: sd.cdist(x, y, metric))
    case("cdist." + p, f, normal(2, 3, 2), normal(2, 2))

# histograms and ln Γ_d
points = np.array([0.0, 0.5, 1.0, 2.0, 3.0, 9.0, -1.0, 3.0]), np.array([5.0, 1.0, 5.0, 7.0, 9.0, 6.0, 6.0, NAN])
edges = np.array([0.0, 1.0, 2.5, 3.0]), np.array([1.0, 5.0, 9.0])
case("histogram2d", lambda x, y, a, b: np.histogram2d(x, y, [a, b])[0].astype(np.int64), *points, *edges)
case("multigammaln.3", lambda x: jsp.multigammaln(x, 3), uniform(1.1, 9, 2, 3), ref=lambda x: np.vectorize(lambda x: sp.multigammaln(x, 3))(x))
case("multigammaln.3", None, np.array([1.0, 0.5, -2.0, INF, NAN, 1e10]), edge=True, grad=False,
     ref=lambda x: np.array([NAN, NAN, NAN, INF, NAN, sp.multigammaln(1e10, 3)]))
