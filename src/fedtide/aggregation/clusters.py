"""Groups of clients with similar labels."""

import jax
import jax.numpy as jnp
from jax import Array

_ITERATIONS = 25


def cluster_by_labels(labels: Array, clusters: int) -> Array:
    """The cluster of each client [N], from its samples of each class [N, classes]: k-means on label distributions.

    Deterministic: the first centre is the client farthest from the mean distribution, each further one the client
    farthest from its nearest centre; then Lloyd's iterations. Ties go to the lower index. Clusters may be empty where
    clients have equal distributions.
    """
    share = labels / jnp.maximum(labels.sum(axis=1, keepdims=True), 1)

    def farther(chosen: Array, _: None) -> tuple[Array, Array]:
        centre = share[jnp.argmax(chosen)]
        return jnp.minimum(chosen, _square(share, centre[None])[:, 0]), centre

    # `chosen` is each client's distance to its nearest centre so far; the mean is not one of the centres.
    first = share[jnp.argmax(_square(share, share.mean(axis=0, keepdims=True))[:, 0])]
    _, others = jax.lax.scan(farther, _square(share, first[None])[:, 0], None, length=clusters - 1)

    def lloyd(_: int, centres: Array) -> Array:
        member = jax.nn.one_hot(_nearest(share, centres), clusters, dtype=share.dtype)
        size = member.sum(axis=0)[:, None]
        return jnp.where(size > 0, member.T @ share / jnp.maximum(size, 1), centres)

    centres = jax.lax.fori_loop(0, _ITERATIONS, lloyd, jnp.concatenate([first[None], others]))
    return _nearest(share, centres)


def _nearest(points: Array, centres: Array) -> Array:
    return jnp.argmin(_square(points, centres), axis=1).astype(jnp.int32)


def _square(points: Array, centres: Array) -> Array:
    """Squared distances [N, K], as sums of squares: no difference of nearly equal numbers."""
    return jax.lax.map(lambda c: ((points - c) ** 2).sum(axis=1), centres).T
