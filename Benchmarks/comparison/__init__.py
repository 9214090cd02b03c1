"""The parts of compare.py: gateways, scenarios, load generators and results."""
