// swift-tools-version: 6.2
import PackageDescription

// Microbenchmarks of the gateway's modules. A package of its own, so that the product does not depend on the benchmark
// library. See ../README.md.
let package = Package(
    name: "cloakroom-microbenchmarks",
    dependencies: [
        .package(name: "cloakroom", path: "../.."),
        // Without its traits: they replace malloc and the reference counting of the Swift runtime.
        .package(url: "https://github.com/ordo-one/benchmark", from: "1.38.1", traits: []),
        .package(url: "https://github.com/apple/swift-nio", from: "2.101.2"),
    ],
    targets: [
        .executableTarget(
            name: "Microbenchmarks",
            dependencies: [
                .product(name: "CloakroomModules", package: "cloakroom"),
                .product(name: "Benchmark", package: "benchmark"),
                .product(name: "NIOCore", package: "swift-nio"),
            ],
            path: "Benchmarks/Microbenchmarks",
            swiftSettings: [
                .swiftLanguageMode(.v6),
                .enableUpcomingFeature("ExistentialAny"),
                .enableUpcomingFeature("MemberImportVisibility"),
            ],
            plugins: [.plugin(name: "BenchmarkPlugin", package: "benchmark")])
    ]
)
