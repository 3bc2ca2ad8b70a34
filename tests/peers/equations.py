"""The rows `equations_*` of the command `bench` in SciPy and diffrax: pip install scipy diffrax, then run this file.

Prints one object {"name", "value", "unit"} per line, as `bench --json equations` does, with `scipy_` or `diffrax_` before the
name; times are medians. SciPy uses RK45 (the pair of `dopri5`) and DOP853, and Radau and BDF for the stiff problem; diffrax
uses Dopri5 and Kvaerno5, compiled, with gradients by its own checkpointed reverse mode. JAX uses all cores of a machine, and
tapeloom one: run this file with `taskset -c 0`. Arguments on the command line choose problems by name.
"""

import json
import sys
import time

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import optimistix
from scipy.integrate import solve_ivp

jax.config.update("jax_enable_x64", True)
TOLERANCES = [1e-4, 1e-6, 1e-8, 1e-10]


def seconds(call):
    call()
    start = time.perf_counter()
    call()
    rough = time.perf_counter() - start
    batch = 100 if rough < 1e-4 else 1
    samples = []
    for _ in range(int(min(15, max(3, 1.0 / (rough * batch))))):
        start = time.perf_counter()
        for _ in range(batch):
            call()
        samples.append((time.perf_counter() - start) / batch)
    return sorted(samples)[len(samples) // 2]


def row(name, value, unit):
    print(json.dumps({"name": name, "value": value, "unit": unit}), flush=True)


def lotka_volterra(np):
    def f(t, y, r):
        a, b = y[0], y[1]
        return np.array([r[0] * a - r[1] * a * b, r[2] * a * b - r[3] * b])

    return f


def robertson(np):
    def f(t, y, r):
        r1, r2, r3 = r[0] * y[0], r[1] * y[1] * y[2], r[2] * y[1] * y[1]
        return np.array([r2 - r1, r1 - r2 - r3, r3])

    return f


def orbit(np):
    def f(t, y, r):
        r3 = (y[0] * y[0] + y[1] * y[1]) ** 1.5
        return np.array([y[2], y[3], -r[0] * y[0] / r3, -r[0] * y[1] / r3])

    return f


def turn(t, y, *args, **kwargs):
    return y[0] * y[2] + y[1] * y[3]


PROBLEMS = [
    ("lotka_volterra", lotka_volterra, [1.5, 1.0, 1.0, 3.0], [1.0, 1.0], 10.0, [1.0263447675750583, 0.9096910781361592]),
    ("robertson", robertson, [0.04, 1e4, 3e7], [1.0, 0.0, 0.0], 4e5, [0.004938274521005017, 1.984994087964554e-08, 0.9950617056290547]),
    ("orbit", orbit, [1.0], [0.5, 0.1, 0.0, 1.6], 10.0, [1.7479841841842871]),
]


def in_scipy(name, make, rates, y0, end, want):
    f, stiff = make(np), name == "robertson"
    turning = lambda t, y: turn(t, y)
    turning.terminal = True
    for method in ["Radau", "BDF"] if stiff else ["RK45", "DOP853"]:
        for tolerance in TOLERANCES:
            absolute = tolerance * 1e-6 if stiff else tolerance

            def solve():
                events = turning if name == "orbit" else None
                s = solve_ivp(lambda t, y: f(t, y, rates), (0.0, end), y0, method, rtol=tolerance, atol=absolute, events=events)
                return s.t_events[0] if name == "orbit" else s.y[:, -1]

            off = np.max(np.abs(solve() / np.array(want) - 1.0))
            row(f"scipy_{method}_equations_{name}_{tolerance:.0e}_error".replace("e-0", "e-"), float(off), "1")
            row(f"scipy_{method}_equations_{name}_{tolerance:.0e}_us".replace("e-0", "e-"), seconds(solve) * 1e6, "us")


def in_diffrax(name, make, rates, y0, end, want):
    stiff = name == "robertson"
    method = diffrax.Kvaerno5() if stiff else diffrax.Dopri5()
    term = diffrax.ODETerm(make(jnp))
    event = None
    if name == "orbit":
        # The event's sign changes where the distance begins to shrink; before that it is not zero.
        event = diffrax.Event(turn, optimistix.Newton(rtol=1e-12, atol=1e-12), direction=False)

    def solve(rates, tolerance):
        absolute = tolerance * 1e-6 if stiff else tolerance
        control = diffrax.PIDController(rtol=tolerance, atol=absolute)
        s = diffrax.diffeqsolve(
            term, method, 0.0, end, None, jnp.array(y0), rates, stepsize_controller=control, max_steps=2**17, event=event
        )
        return s.ts if name == "orbit" else s.ys[-1]

    value = jax.jit(solve)
    gradient = jax.jit(jax.grad(lambda rates, tolerance: solve(rates, tolerance).sum()))
    rates = jnp.array(rates)
    start = time.perf_counter()
    value(rates, 1e-4).block_until_ready()
    row(f"diffrax_equations_{name}_compile_ms", (time.perf_counter() - start) * 1e3, "ms")
    for tolerance in TOLERANCES:
        off = np.max(np.abs(np.array(value(rates, tolerance)) / np.array(want) - 1.0))
        of = lambda what: f"diffrax_equations_{name}_{tolerance:.0e}_{what}".replace("e-0", "e-")
        row(of("error"), float(off), "1")
        row(of("us"), seconds(lambda: value(rates, tolerance).block_until_ready()) * 1e6, "us")
        try:
            row(of("grad_us"), seconds(lambda: gradient(rates, tolerance).block_until_ready()) * 1e6, "us")
        except Exception as e:
            row(of("grad_us") + f" failed: {type(e).__name__}", float("nan"), "us")


for problem in PROBLEMS:
    if sys.argv[1:] and problem[0] not in sys.argv[1:]:
        continue
    in_scipy(*problem)
    in_diffrax(*problem)
