"""The rows `transformer_*` of the command `bench`, in JAX: pip install jax, then run this file.

Prints one object {"name", "value", "unit"} per line, as `bench --json` does; `value` is a median. JAX uses all cores of a
machine, and tapeloom one: run this file with `taskset -c 0`.
"""

import json
import time

import jax
import jax.numpy as jnp
import numpy as np

jax.config.update("jax_enable_x64", True)


def layer_norm(x):
    off = x - x.mean(-1, keepdims=True)
    return off * jax.lax.rsqrt((off * off).mean(-1, keepdims=True) + 1e-5)


def block(heads, b, x):
    batch, tokens, width = x.shape
    normal = layer_norm(x)
    q, k, v = [(normal @ b["qkv"][i]).reshape(batch, tokens, heads, width // heads) for i in range(3)]
    seen = jax.nn.dot_product_attention(q, k, v, is_causal=True)
    x = x + seen.reshape(batch, tokens, width) @ b["out"]
    return x + jax.nn.gelu(layer_norm(x) @ b["up"], approximate=True) @ b["down"]


def loss(heads, blocks, x, block=block):
    for b in blocks:
        x = block(heads, b, x)
    return (x * x).mean()


def data(batch, tokens, width, blocks, dtype):
    phase = 0.0

    def array(shape, scale):
        nonlocal phase
        phase += 1.0
        i = np.arange(np.prod(shape), dtype=np.float64)
        return jnp.asarray((scale * np.sin(i * 0.7 + phase + np.sqrt(i))).reshape(shape).astype(dtype))

    scale = 1.0 / np.sqrt(width)
    model = [
        {
            "qkv": array((3, width, width), scale),
            "out": array((width, width), scale),
            "up": array((width, 4 * width), scale),
            "down": array((4 * width, width), scale / 2),
        }
        for _ in range(blocks)
    ]
    return model, array((batch, tokens, width), 1.0)


def median(f, args, samples):
    jax.block_until_ready(f(*args))
    times = []
    for _ in range(samples):
        start = time.perf_counter()
        jax.block_until_ready(f(*args))
        times.append(time.perf_counter() - start)
    return sorted(times)[samples // 2]


ROWS = [
    ("transformer_block_f64_ms", (4, 128, 256, 1), 8, np.float64),
    ("transformer_block_f32_ms", (4, 128, 256, 1), 8, np.float32),
    ("transformer_two_blocks_ms", (8, 32, 64, 2), 4, np.float64),
]


def main():
    for name, (batch, tokens, width, blocks), heads, dtype in ROWS:
        step = jax.jit(jax.value_and_grad(lambda blocks, x: loss(heads, blocks, x)))
        args = data(batch, tokens, width, blocks, dtype)
        value, gradient = step(*args)
        slope = float(sum((g**2).sum() for g in jax.tree.leaves(gradient)))
        ms = 1e3 * median(step, args, 31)
        print(json.dumps({"name": name, "value": ms, "unit": "ms", "loss": float(value), "slope": slope}))

    # Eight blocks without checkpoints, and with a checkpoint around each.
    args = data(4, 128, 256, 8, np.float64)
    for name, one in [("all", block), ("little", jax.checkpoint(block, static_argnums=0))]:
        step = jax.jit(jax.value_and_grad(lambda blocks, x: loss(8, blocks, x, one)))
        step = step.lower(*args).compile()
        ms = 1e3 * median(step, args, 11)
        megabytes = step.memory_analysis().temp_size_in_bytes / 1e6
        print(json.dumps({"name": f"transformer_eight_{name}_ms", "value": ms, "unit": "ms"}))
        print(json.dumps({"name": f"transformer_eight_{name}_mb", "value": megabytes, "unit": "MB"}))


if __name__ == "__main__":
    main()
