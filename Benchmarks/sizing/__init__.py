"""The parts of capacity.py: servers, records in bulk, and the costs of operations."""
