"""The rows `networks_*` of the command `bench` in JAX, and in PyTorch: pip install jax torch, then run this file.

Prints one object {"name", "value", "unit"} per line, as `bench --json networks` does; times are medians. JAX and PyTorch use
all cores of a machine, and tapeloom one: run this file with `taskset -c 0`. Rows of PyTorch are named `torch_NAME_..`, and are
left out if it is not installed (`--jax` and `--torch` measure one library only); its arrays have channels first, the layout
for which its kernels are written.
"""

import json
import sys
import time

import numpy as np

NETWORKS = {
    "lenet": ((32, 28, 28, 1), [(5, 5, 1, 6), (5, 5, 6, 16), (400, 120), (120, 84), (84, 10)]),
    "resnet_block": ((32, 32, 32, 64), [(3, 3, 64, 64), (3, 3, 64, 64)]),
    "separable_block": ((32, 32, 32, 64), [(3, 3, 1, 64), (1, 1, 64, 128)]),
}


def array(shape, scale):
    return (scale * np.sin(0.7 * np.arange(np.prod(shape)) + 0.1)).reshape(shape)


def arguments(name):
    shape, weights = NETWORKS[name]
    return [array(w, np.sqrt(2.0 / np.prod(w[:-1]))) for w in weights], array(shape, 1.0)


def show(name, value, unit):
    print(json.dumps({"name": name, "value": value, "unit": unit}), flush=True)


def median(call):
    call()
    start = time.perf_counter()
    call()
    rough = time.perf_counter() - start
    times = []
    for _ in range(min(max(int(1.0 / rough), 3), 15)):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return sorted(times)[len(times) // 2] * 1e3


def losses_in_jax():
    """Returns the loss of each network in JAX, a function of its weights and its input."""
    import jax
    import jax.numpy as jnp
    from jax import lax, nn

    jax.config.update("jax_enable_x64", True)

    def conv(x, w, padding="SAME", groups=1):
        return lax.conv_general_dilated(x, w, (1, 1), padding, feature_group_count=groups,
                                        dimension_numbers=("NHWC", "HWIO", "NHWC"))

    def pool(x):
        return lax.reduce_window(x, np.zeros((), x.dtype), lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "VALID") / 4

    def lenet(w, x):
        x = pool(jnp.tanh(conv(x, w[0])))
        x = pool(jnp.tanh(conv(x, w[1], "VALID")))
        x = x.reshape(x.shape[0], 400)
        x = jnp.tanh(jnp.tanh(x @ w[2]) @ w[3]) @ w[4]
        labels = jnp.arange(x.shape[0]) % 10
        return -jnp.take_along_axis(nn.log_softmax(x), labels[:, None], 1).mean()

    def resnet_block(w, x):
        def normal(x):
            off = x - x.mean((0, 1, 2), keepdims=True)
            return off * lax.rsqrt((off * off).mean((0, 1, 2), keepdims=True) + 1e-5)
        y = normal(conv(nn.relu(normal(conv(x, w[0]))), w[1]))
        return (nn.relu(x + y) ** 2).mean()

    def separable_block(w, x):
        return (nn.relu(conv(nn.relu(conv(x, w[0], groups=64)), w[1])) ** 2).mean()

    return {"lenet": lenet, "resnet_block": resnet_block, "separable_block": separable_block}


def in_jax():
    import jax
    import jax.numpy as jnp

    for name, loss in losses_in_jax().items():
        for dtype in ["f64", "f32"]:
            weights, x = arguments(name)
            weights = [jnp.asarray(w, {"f64": jnp.float64, "f32": jnp.float32}[dtype]) for w in weights]
            x = jnp.asarray(x, weights[0].dtype)
            row = f"networks_{name}_{dtype}"
            value = jax.jit(loss).lower(weights, x).compile()
            step = jax.jit(jax.value_and_grad(loss)).lower(weights, x).compile()
            show(f"{row}_ms", median(lambda: jax.block_until_ready(value(weights, x))), "ms")
            show(f"{row}_grad_ms", median(lambda: jax.block_until_ready(step(weights, x))), "ms")
            show(f"{row}_grad_mb", step.memory_analysis().temp_size_in_bytes / 1e6, "MB")


def in_torch():
    import torch
    import torch.nn.functional as F

    torch.set_num_threads(1)

    def lenet(w, x):
        x = F.avg_pool2d(torch.tanh(F.conv2d(x, w[0], padding="same")), 2)
        x = F.avg_pool2d(torch.tanh(F.conv2d(x, w[1])), 2)
        x = x.permute(0, 2, 3, 1).reshape(x.shape[0], 400)
        x = torch.tanh(torch.tanh(x @ w[2]) @ w[3]) @ w[4]
        return F.cross_entropy(x, torch.arange(x.shape[0]) % 10)

    def resnet_block(w, x):
        normal = lambda x: F.batch_norm(x, None, None, training=True)
        y = normal(F.conv2d(F.relu(normal(F.conv2d(x, w[0], padding="same"))), w[1], padding="same"))
        return (F.relu(x + y) ** 2).mean()

    def separable_block(w, x):
        return (F.relu(F.conv2d(F.relu(F.conv2d(x, w[0], padding="same", groups=64)), w[1])) ** 2).mean()

    for name, loss in [("lenet", lenet), ("resnet_block", resnet_block), ("separable_block", separable_block)]:
        for dtype in ["f64", "f32"]:
            weights, x = arguments(name)
            kind = {"f64": torch.float64, "f32": torch.float32}[dtype]
            first = lambda a: np.ascontiguousarray(np.moveaxis(a, (3, 2), (0, 1)) if a.ndim == 4 else a)
            weights = [torch.tensor(first(w), dtype=kind, requires_grad=True) for w in weights]
            x = torch.tensor(np.ascontiguousarray(np.moveaxis(x, 3, 1)), dtype=kind)
            row = f"torch_{name}_{dtype}"

            def value():
                with torch.no_grad():
                    return loss(weights, x)

            show(f"{row}_ms", median(value), "ms")
            show(f"{row}_grad_ms", median(lambda: torch.autograd.grad(loss(weights, x), weights)), "ms")


if __name__ == "__main__":
    if "--torch" not in sys.argv:
        in_jax()
    if "--jax" not in sys.argv:
        try:
            import torch  # noqa: F401
        except ImportError:
            sys.exit(0)
        in_torch()
