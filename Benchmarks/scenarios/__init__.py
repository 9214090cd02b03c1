"""What endurance.py and agreement.py are made of: clients, origins, faults, on the standard library alone."""
