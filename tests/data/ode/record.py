#!/usr/bin/env python3
"""Records values.jsonl: solutions of SciPy for differential equations, integrals, roots and curves.

Run `python3 record.py > values.jsonl` with scipy 1.17.1 and mpmath 1.4.1.

Each line is one case. "ode": the name of a problem of tests/src/equations.rs, its initial state, the times and the states at
these times, by DOP853 or Radau at a relative tolerance of 1e-13 (stiff problems: 1e-11), as a row-major list. "event": the same
until an event, with its time and state. "quad": the name of an integrand, the limits and the integral, by mpmath with 30
digits. "root": the name of an equation, a bracket and the root, by mpmath. "curve": the kind of curve, its points and values,
positions, and the curve's values and slopes at these positions.
"""

import json

import mpmath
import numpy as np
from scipy.integrate import solve_ivp
from scipy.interpolate import CubicSpline, PchipInterpolator

mpmath.mp.dps = 30


def write(**line):
    def plain(v):
        if isinstance(v, np.ndarray):
            return v.tolist()
        if isinstance(v, float) and not np.isfinite(v):
            return "inf" if v > 0 else "-inf"
        if isinstance(v, (list, tuple)):
            return [plain(x) for x in v]
        return v

    print(json.dumps({k: plain(v) for k, v in line.items()}, separators=(",", ":")))


def lotka_volterra(t, y):
    a, b = y
    return [1.5 * a - a * b, a * b - 3.0 * b]


def orbit(t, y):
    x, y, u, v = y
    r3 = (x * x + y * y) ** 1.5
    return [u, v, -x / r3, -y / r3]


def lorenz(t, y):
    x, y, z = y
    return [10.0 * (y - x), x * (28.0 - z) - y, x * y - 8.0 / 3.0 * z]


def driven(t, y):
    x, v = y
    return [v, -np.sin(x) - 0.1 * v + 0.5 * np.cos(1.3 * t)]


def robertson(t, y):
    a, b, c = y
    r1, r2, r3 = 0.04 * a, 1e4 * b * c, 3e7 * b * b
    return [r2 - r1, r1 - r2 - r3, r3]


def van_der_pol(t, y):
    x, v = y
    return [v, 1000.0 * (1.0 - x * x) * v - x]


def hires(t, y):
    a, b, c, d, e, f, g, h = y
    return [
        -1.71 * a + 0.43 * b + 8.32 * c + 0.0007,
        1.71 * a - 8.75 * b,
        -10.03 * c + 0.43 * d + 0.035 * e,
        8.32 * b + 1.71 * c - 1.12 * d,
        -1.745 * e + 0.43 * f + 0.43 * g,
        -280.0 * f * h + 0.69 * d + 1.71 * e - 0.43 * f + 0.69 * g,
        280.0 * f * h - 1.81 * g,
        -280.0 * f * h + 1.81 * g,
    ]


def ode(f, y0, times, stiff=False):
    how = dict(method="Radau", rtol=1e-11, atol=1e-15) if stiff else dict(method="DOP853", rtol=1e-13, atol=1e-14)
    s = solve_ivp(f, (times[0], times[-1]), y0, t_eval=times, **how)
    assert s.success, s.message
    write(kind="ode", f=f.__name__, stiff=stiff, y0=y0, times=times, out=s.y.T.flatten())


def event(f, g, name, y0, end):
    g.terminal = True
    s = solve_ivp(f, (0.0, end), y0, method="DOP853", rtol=1e-13, atol=1e-14, events=g)
    assert s.t_events[0].size == 1
    write(kind="event", f=f.__name__, event=name, y0=y0, end=end, t=float(s.t_events[0][0]), out=s.y_events[0][0])


ode(lotka_volterra, [1.0, 1.0], [0.0, 1.0, 2.5, 5.0, 10.0])
ode(lotka_volterra, [2.0, 0.5], [3.0, 2.0, 0.5, -1.0])
ode(orbit, [0.5, 0.0, 0.0, 3.0**0.5], [0.0, 1.0, 3.0, 2.0 * np.pi])
ode(lorenz, [1.0, 1.0, 1.0], [0.0, 0.5, 1.0, 3.0])
ode(driven, [0.5, 0.0], [0.0, 0.1, 4.0, 20.0])
ode(robertson, [1.0, 0.0, 0.0], [0.0, 0.4, 40.0, 4e3, 4e5], stiff=True)
ode(van_der_pol, [2.0, 0.0], [0.0, 1.0, 500.0, 1200.0], stiff=True)
ode(hires, [1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0057], [0.0, 1.0, 100.0, 321.8122], stiff=True)

# The events: x changes its sign; the distance begins to shrink (the apocentre); the prey numbers five.
event(orbit, lambda t, y: y[0], "x", [0.5, 0.0, 0.0, 3.0**0.5], 10.0)
event(orbit, lambda t, y: y[0] * y[2] + y[1] * y[3], "turn", [0.5, 0.1, 0.0, 1.6], 10.0)
event(lotka_volterra, lambda t, y: y[0] - 5.0, "five", [1.0, 1.0], 10.0)

inf = float("inf")
for name, f, a, b in [
    ("polynomial", lambda x: x**5 - 2 * x**2, -1.0, 2.0),
    ("bump", lambda x: 1 / (1 + 100 * (x - mpmath.mpf(3) / 10) ** 2), 0.0, 1.0),
    ("wave", lambda x: mpmath.cos(30 * x) * mpmath.exp(-x), 0.0, 3.0),
    ("root", mpmath.sqrt, 0.0, 1.0),
    ("pole", lambda x: 1 / mpmath.sqrt(x), 0.0, 1.0),
    ("gauss", lambda x: mpmath.exp(-x * x), -inf, inf),
    ("gauss", lambda x: mpmath.exp(-x * x), 0.5, inf),
    ("gauss", lambda x: mpmath.exp(-x * x), -inf, 0.5),
    ("gauss", lambda x: mpmath.exp(-x * x), inf, 0.5),
    ("lorentz", lambda x: 1 / (1 + x * x), 1.0, inf),
]:
    write(kind="quad", f=name, a=a, b=b, out=float(mpmath.quad(f, [a, 0.3, b] if name == "bump" else [a, b])))

for name, f, a, b, guess in [
    ("cubic", lambda x: x**3 - 2 * x - 5, 2.0, 3.0, 2.1),
    ("kepler", lambda x: x - mpmath.mpf("0.9") * mpmath.sin(x) - mpmath.mpf("0.1"), 0.0, 3.0, 0.7),
    ("steep", lambda x: mpmath.exp(30 * (x - 1)) - 2, -5.0, 4.0, 1.0),
    ("triple", lambda x: (x - mpmath.mpf("0.3")) ** 3, -1.0, 2.0, 0.3),
]:
    root = mpmath.mpf("0.3") if name == "triple" else mpmath.findroot(f, guess)
    write(kind="root", f=name, a=a, b=b, out=float(root))

x = np.array([0.0, 0.7, 1.0, 2.2, 3.0, 4.5])
y = np.array([1.0, 2.0, 2.0, -1.0, 0.5, 0.75])
places = np.array([-0.2, 0.0, 0.35, 0.7, 0.85, 1.5, 2.2, 2.9, 3.7, 4.5, 4.6])
for n in [2, 3, 4, 6]:
    for kind, curve in [
        ("natural", CubicSpline(x[:n], y[:n], bc_type="natural")),
        ("not-a-knot", CubicSpline(x[:n], y[:n])),
        ("clamped", CubicSpline(x[:n], y[:n], bc_type=((1, 0.5), (1, -2.0)))),
        ("pchip", PchipInterpolator(x[:n], y[:n])),
    ]:
        write(kind="curve", f=kind, x=x[:n], y=y[:n], places=places, out=curve(places), slopes=curve(places, 1))

# Values for which an unlimited curve would overshoot at the ends and at turning points.
y = np.array([0.0, 0.1, -1.9, -2.0, 3.0, 3.1])
curve = PchipInterpolator(x, y)
write(kind="curve", f="pchip", x=x, y=y, places=places, out=curve(places), slopes=curve(places, 1))
y = np.array([0.0, 2.0, 2.1, 2.2, 2.3, -4.0])
curve = PchipInterpolator(x, y)
write(kind="curve", f="pchip", x=x, y=y, places=places, out=curve(places), slopes=curve(places, 1))
