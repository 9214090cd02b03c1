import Benchmark

/// All microbenchmarks. A measured iteration is a thousand operations, because one takes less than the clock resolves;
/// `--scale` reports figures per operation.
let benchmarks: @Sendable () -> Void = {
    Benchmark.defaultConfiguration = .init(
        // Counts of allocations are not measured: they need the traits that Package.swift disables.
        metrics: [.wallClock, .instructions],
        warmupIterations: 5,
        scalingFactor: .kilo,
        maxDuration: .seconds(2),
        maxIterations: 500)

    headBenchmarks()
    routeBenchmarks()
    sessionBenchmarks()
    accessLogBenchmarks()
    #if canImport(CloakroomHTTP2)
        hpackBenchmarks()
    #endif
}
