"""Endurance scenarios, and their clients, origins and faults, on the standard library alone."""
