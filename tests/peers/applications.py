"""Six programs in JAX: pip install jax optax diffrax, then run this file with one core.

Each program is also written with tapeloom: a convolutional network (`prelude/examples/cnn.rs`), a language model with a chain
of optimisers (`transformer.rs`), an adaptive integration with an event (`orbit.rs`), an image filter (`image_filter.rs`), a
robust regression (the chapter *Networks* of the book), and variational inference (*Special functions and distributions*).
Prints the number of lines of code of both forms, without blank lines, comments, documentation and closing brackets, and the
seconds of each JAX program, compilation included, imports excluded. `--lines` prints the numbers of lines only.
"""

import re
import sys
import time
from pathlib import Path

import diffrax
import jax
import jax.numpy as jnp
import optax
import optimistix
from jax.scipy.optimize import minimize
from jax.scipy.special import betaln

jax.config.update("jax_enable_x64", True)


# begin: cnn
def scores(p, images):
    layer = lambda x, w: jax.nn.relu(
        jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    )
    return layer(layer(images, p["first"]), p["second"]).mean((1, 2)) @ p["last"]


def cnn():
    kind, i, j = jnp.meshgrid(jnp.arange(24) % 3, jnp.arange(8), jnp.arange(8), indexing="ij")
    noise = jnp.arange(1, 24 * 64 + 1).reshape(24, 8, 8)
    pixels = jnp.choose(kind, [i % 2, j % 2, (i + j) % 2]) + 0.5 * jnp.sin(noise * noise * 0.7)
    x, y = pixels[..., None], jnp.arange(24) % 3
    first, second, last = jax.random.split(jax.random.key(1), 3)
    he, glorot = jax.nn.initializers.he_normal(), jax.nn.initializers.glorot_normal()
    p = {"first": he(first, (3, 3, 1, 8)), "second": he(second, (3, 3, 8, 8)), "last": glorot(last, (8, 3))}
    adam = optax.adam(0.02)
    loss = lambda p, x, y: optax.softmax_cross_entropy_with_integer_labels(scores(p, x), y).mean()

    @jax.jit
    def step(p, state, x, y):
        value, g = jax.value_and_grad(loss)(p, x, y)
        updates, state = adam.update(g, state, p)
        return value, optax.apply_updates(p, updates), state

    state = adam.init(p)
    for t in range(1, 61):
        value, p, state = step(p, state, x, y)
        if t % 20 == 0:
            print(f"step {t:2}  loss {value:.4f}")
    guess = jax.jit(lambda p, x: scores(p, x).argmax(1))(p, x)
    print("guesses", guess)
    assert (guess == y).all()
# end


# begin: language model
TOKENS, WIDTH, HEADS = 6, 16, 2


def layer_norm(x):
    off = x - x.mean(-1, keepdims=True)
    return off * jax.lax.rsqrt((off * off).mean(-1, keepdims=True) + 1e-5)


def next_token(model, tokens):
    n = tokens.shape[0]
    x = model["embedding"][tokens] + model["positions"][:n]
    for b in model["blocks"]:
        q, k, v = [(layer_norm(x) @ b["qkv"][i]).reshape(n, HEADS, WIDTH // HEADS) for i in range(3)]
        x = x + jax.nn.dot_product_attention(q, k, v, is_causal=True).reshape(n, WIDTH) @ b["out"]
        x = x + jax.nn.gelu(layer_norm(x) @ b["up"]) @ b["down"]
    return x @ model["embedding"].T


def language_model():
    i = 0

    def array(*shape):
        nonlocal i
        n = jnp.prod(jnp.array(shape))
        k, i = jnp.arange(i + 1, i + n + 1), i + n
        return (0.3 * jnp.sin(k * k * 0.7)).reshape(shape)

    block = lambda: {
        "qkv": array(3, WIDTH, WIDTH),
        "out": array(WIDTH, WIDTH),
        "up": array(WIDTH, 2 * WIDTH),
        "down": array(2 * WIDTH, WIDTH),
    }
    model = {"blocks": [block(), block()], "embedding": array(TOKENS, WIDTH), "positions": array(12, WIDTH)}
    start, by = jnp.meshgrid(jnp.arange(6), jnp.array([1, 2, 5]), indexing="ij")
    batch = (start.ravel()[:, None] + by.ravel()[:, None] * jnp.arange(9)) % 6
    rate = optax.warmup_cosine_decay_schedule(0.0, 0.02, 5, 60)
    optimiser = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(rate, weight_decay=1e-4))

    def loss(model, batch):
        seen = jax.vmap(next_token, (None, 0))(model, batch[:, :-1])
        return optax.softmax_cross_entropy_with_integer_labels(seen, batch[:, 1:]).mean()

    @jax.jit
    def step(model, state, batch):
        value, g = jax.value_and_grad(loss)(model, batch)
        updates, state = optimiser.update(g, state, model)
        return value, optax.apply_updates(model, updates), state

    state = optimiser.init(model)
    for t in range(1, 61):
        value, model, state = step(model, state, batch)
        if t % 20 == 0:
            print(f"step {t:2}  loss {value:.4f}")
    following = jax.jit(next_token)(model, jnp.array([1, 3, 5])).argmax(1)
    print("after 1, 1 3 and 1 3 5 comes:", following)
    assert list(following[1:]) == [5, 1]
# end


# begin: orbit
def fall(t, state, _):
    x, y, u, v = state
    r = jnp.sqrt(x * x + y * y)
    drag = 0.02 * jnp.exp(-(r - 1.0) / 0.02) * jnp.sqrt(u * u + v * v)
    g = 1.0 / r**3
    return jnp.stack([u, v, -g * x - drag * u, -g * y - drag * v])


def thrown(speed, saveat=diffrax.SaveAt(t1=True)):
    start = jnp.stack([0.0 * speed, 0.0 * speed + 1.1, speed, 0.0 * speed])
    ground = diffrax.Event(
        lambda t, y, args, **kwargs: jnp.hypot(y[0], y[1]) - 1.0,
        optimistix.Newton(1e-10, 1e-10),
    )
    return diffrax.diffeqsolve(
        diffrax.ODETerm(fall),
        diffrax.Dopri5(),
        0.0,
        3.0,
        0.01,
        start,
        saveat=saveat,
        stepsize_controller=diffrax.PIDController(rtol=1e-9, atol=1e-9),
        event=ground,
        max_steps=4096,
    )


def landing(speed):
    x, y, _, _ = thrown(speed).ys[-1]
    return jnp.arctan2(x, y)


def orbit():
    goal = jnp.pi / 2

    @jax.jit
    def newton(speed):
        at, slope = jax.value_and_grad(landing)(speed)
        return at, speed - (at - goal) / slope

    speeds = [0.88]
    for _ in range(6):
        at, speed = newton(speeds[-1])
        print(f"thrown with {speeds[-1]:.9f} it comes down at {jnp.degrees(at):.6f}°")
        speeds.append(speed)
    ends, between = diffrax.SubSaveAt(t1=True), diffrax.SubSaveAt(ts=jnp.linspace(0.0, 3.0, 101))
    path, drawn = jax.jit(lambda speed: thrown(speed, diffrax.SaveAt(subs=[between, ends]))), []
    for i, speed in enumerate(speeds):
        solution = path(speed)
        points = [(x, y) for x, y, *_ in jnp.concatenate(solution.ys).tolist() if jnp.isfinite(x)]
        colour, width = ("#c0392b", 0.012) if i + 1 == len(speeds) else ("#2471a3", 0.006)
        corners = " ".join(f"{x:.3f},{-y:.3f}" for x, y in points)
        drawn.append(f'<polyline points="{corners}" fill="none" stroke="{colour}" stroke-width="{width}"/>')
        if i + 1 == len(speeds):
            print(f"it flies for {solution.ts[1][0]:.4f}")
            assert abs(points[-1][0] - 1.0) < 1e-6 and abs(points[-1][1]) < 1e-6
    if len(sys.argv) > 1 and sys.argv[1].endswith(".svg"):
        picture = (
            '<svg xmlns="http://www.w3.org/2000/svg" viewBox="-0.4 -1.3 1.8 1.7" width="540" height="510">\n'
            '<rect x="-0.4" y="-1.3" width="1.8" height="1.7" fill="white"/>\n'
            '<circle r="1" fill="#d5e8d4" stroke="#446" stroke-width="0.006"/>\n' + "\n".join(drawn) + "</svg>\n"
        )
        Path(sys.argv[1]).write_text(picture)
# end


# begin: image filter
SIDE, REACH = 64, 3


def smooth(image, k):
    pixels, brightness = jnp.exp(k)
    size = 2 * REACH + 1
    padded = jnp.pad(image, REACH, mode="edge")[None, None]
    around = jax.lax.conv_general_dilated_patches(padded, (size, size), (1, 1), "VALID")[0].transpose(1, 2, 0)
    squares = (jnp.arange(size) - REACH) ** 2.0
    distance = (squares[:, None] + squares).ravel() / pixels**2
    difference = (around - image[..., None]) / brightness
    weight = jnp.exp(-0.5 * (distance + difference**2))
    return (weight * around).sum(-1) / weight.sum(-1)


def picture(x):
    v, u = jnp.meshgrid(jnp.arange(SIDE) / SIDE, jnp.arange(SIDE) / SIDE, indexing="ij")
    ground = jnp.where(jnp.abs(u - v) < 0.06, 0.1, 0.3 + 0.3 * v)
    return jnp.where(jnp.hypot(u - x, v - 0.4) < 0.22, 0.9, ground)


def error(x, y):
    return jnp.sqrt(((x - y) ** 2).mean())


def image_filter():
    noisy = lambda x, seed: picture(x) + 0.1 * jax.random.normal(jax.random.key(seed), (SIDE, SIDE))
    clean, seen = picture(0.3), noisy(0.3, 1)
    loss = lambda k, seen, clean: error(smooth(seen, k), clean)
    fit = jax.jit(lambda k, seen, clean: minimize(loss, k, (seen, clean), method="BFGS"))
    outcome = fit(jnp.array([0.0, -1.0]), seen, clean)
    pixels, brightness = jnp.exp(outcome.x)
    print(f"widths: {pixels:.2f} pixels, {brightness:.3f} of brightness")
    print(f"found in {outcome.nit} iterations")
    clean, seen = picture(0.6), noisy(0.6, 2)
    filtered = jax.jit(smooth)(seen, outcome.x)
    before, after = error(seen, clean), error(filtered, clean)
    print(f"error of another image: {before:.4f} before, {after:.4f} after")
    assert after < 0.5 * before
    if len(sys.argv) > 1 and sys.argv[1].endswith(".pgm"):
        beside = jnp.clip(jnp.concatenate([seen, filtered], 1), 0.0, 1.0)
        image = (255.0 * beside).astype("uint8")
        Path(sys.argv[1]).write_bytes(f"P5 {2 * SIDE} {SIDE} 255\n".encode() + image.tobytes())
# end


# begin: robust regression
def robust_regression():
    @jax.jit
    def fit(start, t, y):
        loss = lambda p: optax.huber_loss(p[0] * jnp.exp(-p[1] * t) + p[2], y, delta=0.1).sum()
        return minimize(loss, start, method="BFGS")

    t = jnp.arange(30) / 10.0
    y = (2.0 * jnp.exp(-1.5 * t) + 0.5).at[7].add(5.0)
    outcome = fit(jnp.array([1.0, 1.0, 0.0]), t, y)
    a, b, c = outcome.x
    assert abs(b - 1.5) < 0.05 and abs(c - 0.5) < 0.02
# end


# begin: variational inference
def log_density(x, a, b):
    return (a - 1.0) * jnp.log(x) + (b - 1.0) * jnp.log1p(-x) - betaln(a, b)


def variational_inference():
    heads, tails = 14.0, 6.0

    def bound(p, key):
        a, b = jnp.exp(p[0]), jnp.exp(p[1])
        x = jax.random.beta(key, a, b, (64,))
        return (heads * jnp.log(x) + tails * jnp.log1p(-x) - log_density(x, a, b)).mean()

    adam = optax.adam(optax.cosine_decay_schedule(0.1, 1000))

    @jax.jit
    def fit(seed):
        def step(carry, key):
            p, state = carry
            updates, state = adam.update(jax.grad(lambda p: -bound(p, key))(p), state, p)
            return (optax.apply_updates(p, updates), state), None

        start = (jnp.zeros(()), jnp.zeros(()))
        keys = jax.random.split(jax.random.key(seed), 1000)
        return jax.lax.scan(step, (start, adam.init(start)), keys)[0][0]

    a, b = fit(0)
    assert abs(jnp.exp(a) - 15.0) < 0.8 and abs(jnp.exp(b) - 7.0) < 0.5
# end


def lines(text):
    """Returns the lines that contain a letter, a digit or an operator, without comments, attributes and imports."""
    code = [re.sub(r"(^|\s)(//|#).*", "", line).strip() for line in text.splitlines()]
    imports = ("use ", "import ", "from ")
    return sum(bool(re.search(r"[\w=|+*<-]", line)) and not line.startswith(imports) for line in code)


def count():
    here = Path(__file__).resolve()
    root = here.parent.parent.parent
    own = dict(re.findall(r"# begin: ([\w ]+)\n(.*?)# end", here.read_text(), re.DOTALL))
    chapter = lambda name: (root / f"book/src/{name}.md").read_text()
    after = lambda name, title: re.search(rf"{title}.*?```rust\n(.*?)```", chapter(name), re.DOTALL).group(1)
    example = lambda name: (root / f"prelude/examples/{name}.rs").read_text()
    there = {
        "cnn": example("cnn"),
        "language model": example("transformer"),
        "orbit": example("orbit"),
        "image filter": example("image_filter"),
        "robust regression": after("networks", "## Minimisers"),
        "variational inference": after("special-functions", "## Distributions"),
    }
    for name, text in there.items():
        ours, theirs = lines(text), lines(own[name])
        print(f"{name}: {ours} lines, in JAX {theirs}: {ours / theirs:.2f}")


if "--lines" not in sys.argv:
    for program in [cnn, language_model, orbit, image_filter, robust_regression, variational_inference]:
        start = time.perf_counter()
        program()
        print(f"{program.__name__}: {time.perf_counter() - start:.2f} s", flush=True)
count()
