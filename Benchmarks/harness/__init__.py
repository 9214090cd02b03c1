"""Code shared by Benchmarks and .ci: processes, ports, gateways, measurements and HTTP, on the standard library alone."""
