"""The built-in shop: generated, long-tailed and noisy, with a known truth behind it."""

from macrid.data.shop.shop import Laws, Shop, generate, ndcg

__all__ = ["Laws", "Shop", "generate", "ndcg"]
