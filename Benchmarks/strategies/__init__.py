"""Strategies of hostile clients and upstreams, and what a gateway holds and computes for them."""
