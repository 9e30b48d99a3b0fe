"""The training step of the workload `peaks` in JAX: what `floor.py` compares with.

    python docs/measurements/jax_peaks.py POINTS THREADS

The same network, data, loss and Adam in float32 on the CPU, many steps in one compiled `lax.scan`.
It needs JAX alone, best in an environment of its own: `python -m venv jax`, then
`jax/bin/pip install jax`. For each number of steps on standard input it prints the seconds and the
CPU seconds that they took.
"""

import argparse
import os
import sys
import time

REACH, RATE, SIZES = 3.0, 0.08, ((2, 20), (20, 5), (5, 1))


def main() -> None:
    """Answer until standard input ends."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("points", type=int)
    parser.add_argument("threads", type=int)
    given = parser.parse_args()
    points, threads = given.points, given.threads
    # Before JAX starts its threads: it has one for each core that it may use.
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, set(sorted(os.sched_getaffinity(0))[:threads]))
    import jax
    import jax.numpy as jnp
    import numpy as np

    rows = max(n for n in range(2, int(points**0.5) + 1) if points % n == 0)
    x2, x1 = np.meshgrid(*(np.linspace(-REACH, REACH, n) for n in (rows, points // rows)))
    data = jnp.array(np.stack([x1.ravel(), x2.ravel()], 1), jnp.float32)
    x1, x2 = x1.ravel(), x2.ravel()
    z = (
        3 * (1 - x1) ** 2 * np.exp(-(x1**2) - (x2 + 1) ** 2)
        - 10 * (x1 / 5 - x1**3 - x2**5) * np.exp(-(x1**2) - x2**2)
        - np.exp(-((x1 + 1) ** 2) - x2**2) / 3
    )
    z = jnp.array(z, jnp.float32)

    def loss_of(weights, data, z):
        found = data
        for number, (weight, bias) in enumerate(weights):
            found = found @ weight + bias
            if number < len(weights) - 1:
                found = jnp.maximum(found, 0)
        return jnp.mean((found[:, 0] - z) ** 2)

    def step(state, _):
        weights, first, second, count = state
        loss, gradients = jax.value_and_grad(loss_of)(weights, data, z)
        count = count + 1
        first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, gradients)
        second = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, second, gradients)
        size = RATE / (1 - 0.9**count)
        scale = jnp.sqrt(1 - 0.999**count)
        weights = jax.tree.map(
            lambda w, m, v: w - size * m / (jnp.sqrt(v) / scale + 1e-8), weights, first, second
        )
        return (weights, first, second, count), loss

    random = np.random.default_rng(1)
    weights = [
        (
            jnp.array(random.uniform(-1, 1, size) * (6 / sum(size)) ** 0.5, jnp.float32),
            jnp.zeros(size[1], jnp.float32),
        )
        for size in SIZES
    ]
    zeros = jax.tree.map(jnp.zeros_like, weights)
    state = (weights, zeros, zeros, jnp.float32(0))
    compiled = {}
    for line in sys.stdin:
        steps = int(line)
        if steps not in compiled:
            scan = jax.jit(lambda state, n=steps: jax.lax.scan(step, state, length=n))
            compiled[steps] = scan.lower(state).compile()
            jax.block_until_ready(compiled[steps](state))
        wall, processor = time.perf_counter(), time.process_time()
        state, losses = jax.block_until_ready(compiled[steps](state))
        seconds = time.perf_counter() - wall, time.process_time() - processor
        print(*seconds, float(losses[-1]), jax.__version__, flush=True)


if __name__ == "__main__":
    main()
