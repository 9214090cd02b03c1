"""What endurance.py and agreement.py are made of: clients, origins and faults, each small, on the standard library alone."""
