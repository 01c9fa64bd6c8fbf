"""The built-in shop: generated, long-tailed and noisy, with known ground truth."""

from macrid.data.shop.shop import Laws, Shop, generate, ndcg

__all__ = ["Laws", "Shop", "generate", "ndcg"]
