"""Trials of gateways with three origins, one of which is slow, broken or frozen. `endurance.py upstreams` runs them."""
