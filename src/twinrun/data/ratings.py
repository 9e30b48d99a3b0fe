"""Synthetic ratings: known low-rank factors plus noise.

A rating is the dot product of its user's and its item's factors, plus Gaussian noise. Each pair of
user and item occurs at most once.
"""

import numpy as np


def make(
    *, users: int, items: int, ratings: int, rank: int, noise: float, seed: int
) -> dict[str, np.ndarray]:
    """Make a table of ratings.

    Args:
        users: number of users.
        items: number of items.
        ratings: number of ratings, at most users x items.
        rank: length of the true factors.
        noise: standard deviation of the Gaussian noise that is added to each rating.
        seed: of this dataset only; a run's seed does not change it.

    Returns:
        users and items: (N,) int64 indices. ratings: (N,) float32.

    Raises:
        ValueError: if more ratings are asked for than there are pairs.
    """
    if ratings > users * items:
        raise ValueError(f"ratings: {ratings} is more than the {users * items} pairs there are")
    generator = np.random.default_rng(seed)
    # A product of two factors of standard deviation s has s^2; a sum of `rank` such products has
    # s^2 sqrt(rank). With s = rank^(-1/4) a rating without noise has a standard deviation of 1.
    user_factors = generator.normal(0, rank**-0.25, (users, rank))
    item_factors = generator.normal(0, rank**-0.25, (items, rank))
    pairs = generator.choice(users * items, size=ratings, replace=False)
    user, item = np.divmod(pairs, items)
    values = np.einsum("nr,nr->n", user_factors[user], item_factors[item])
    values += generator.normal(0, noise, ratings)
    return {"users": user, "items": item, "ratings": values.astype(np.float32)}
