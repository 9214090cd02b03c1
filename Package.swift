// swift-tools-version: 6.2
import PackageDescription

let settings: [SwiftSetting] = [
    .swiftLanguageMode(.v6),
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("MemberImportVisibility"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .treatAllWarnings(as: .error),
]

// Code on which tests spend most of their CPU time is optimized in debug builds too. Assertions stay on. As a whole, a module
// takes 40 % less time than file by file, and two threads generate its code while other modules wait for it.
let optimized =
    settings + [
        .unsafeFlags(
            ["-O", "-assert-config", "Debug", "-whole-module-optimization", "-num-threads", "2"],
            .when(configuration: .debug))
    ]

func room(_ name: String, _ dependencies: [Target.Dependency], _ settings: [SwiftSetting] = settings) -> Target {
    .target(name: name, dependencies: dependencies, swiftSettings: settings)
}

func tests(
    _ name: String, _ dependencies: [Target.Dependency], exclude: [String] = [], _ settings: [SwiftSetting] = settings
) -> Target {
    .testTarget(
        name: name + "Tests", dependencies: [.target(name: name)] + dependencies, exclude: exclude,
        swiftSettings: settings)
}

// Only hexadecimal digits and the suffix `-dirty`, because the value becomes part of a compiler command line.
let commit = Context.environment["CLOAKROOM_COMMIT"].flatMap { text in
    text.allSatisfy { $0.isHexDigit || "-dirty".contains($0) } && !text.isEmpty ? text : nil
}

// Set by deploy/build.sh: the ICU data that replaces Foundation's, and its symbol. See Sources/CloakroomBuild/icudata.c.
func buildValue(_ name: String) -> String? {
    Context.environment[name].flatMap { text in
        text.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber || "/._-+".contains($0)) } && !text.isEmpty
            ? text : nil
    }
}
var icuData: [CSetting] = []
if let symbol = buildValue("CLOAKROOM_ICU_SYMBOL"), let path = buildValue("CLOAKROOM_ICU_DATA") {
    icuData = [
        .define("CLOAKROOM_ICU_SYMBOL", to: "\"\(symbol)\""), .define("CLOAKROOM_ICU_DATA", to: "\"\(path)\""),
    ]
}

let nioCore: Target.Dependency = .product(name: "NIOCore", package: "swift-nio")
let nioPosix: Target.Dependency = .product(name: "NIOPosix", package: "swift-nio")
let nioEmbedded: Target.Dependency = .product(name: "NIOEmbedded", package: "swift-nio")
let nioConcurrency: Target.Dependency = .product(name: "NIOConcurrencyHelpers", package: "swift-nio")
let nioTLS: Target.Dependency = .product(name: "NIOTLS", package: "swift-nio")
let nioHTTP2: Target.Dependency = .product(name: "NIOHTTP2", package: "swift-nio-http2")
let nioHPACK: Target.Dependency = .product(name: "NIOHPACK", package: "swift-nio-http2")
let nioSSL: Target.Dependency = .product(name: "NIOSSL", package: "swift-nio-ssl")
let crypto: Target.Dependency = .product(name: "Crypto", package: "swift-crypto")
let cryptoExtras: Target.Dependency = .product(name: "CryptoExtras", package: "swift-crypto")
let x509: Target.Dependency = .product(name: "X509", package: "swift-certificates")
let asn1: Target.Dependency = .product(name: "SwiftASN1", package: "swift-asn1")
let log: Target.Dependency = .product(name: "Logging", package: "swift-log")
let metrics: Target.Dependency = .product(name: "Metrics", package: "swift-metrics")
let tracing: Target.Dependency = .product(name: "Tracing", package: "swift-distributed-tracing")
let inMemoryTracing: Target.Dependency = .product(name: "InMemoryTracing", package: "swift-distributed-tracing")
let lifecycle: Target.Dependency = .product(name: "ServiceLifecycle", package: "swift-service-lifecycle")
let signals: Target.Dependency = .product(name: "UnixSignals", package: "swift-service-lifecycle")
let asyncHTTPClient: Target.Dependency = .product(name: "AsyncHTTPClient", package: "async-http-client")
let configuration: Target.Dependency = .product(name: "Configuration", package: "swift-configuration")
let yams: Target.Dependency = .product(name: "Yams", package: "Yams")
let deque: Target.Dependency = .product(name: "DequeModule", package: "swift-collections")
let nioHTTP1: Target.Dependency = .product(name: "NIOHTTP1", package: "swift-nio")
let arguments: Target.Dependency = .product(name: "ArgumentParser", package: "swift-argument-parser")

let package = Package(
    name: "cloakroom",
    // For the library in apps; the gateway is for Linux.
    platforms: [.macOS(.v15), .iOS(.v16), .tvOS(.v16), .watchOS(.v9), .visionOS(.v1)],
    products: [
        .executable(name: "cloakroom", targets: ["cloakroom"]),
        .executable(name: "cloakroom-demo", targets: ["cloakroom-demo"]),
        // A client library for apps. It depends on Foundation only.
        .library(name: "ThinClient", targets: ["ThinClient"]),
        // For Benchmarks/Micro only; not a stable interface.
        .library(
            name: "CloakroomModules",
            targets: [
                "CloakroomWire", "CloakroomHTTP2", "CloakroomCore", "CloakroomTelemetry", "CloakroomSessions",
            ]),
    ],
    dependencies: [
        .package(url: "https://github.com/apple/swift-nio", exact: "2.101.2"),
        .package(url: "https://github.com/apple/swift-nio-ssl", exact: "2.37.6"),
        .package(url: "https://github.com/apple/swift-nio-http2", exact: "1.46.0"),
        .package(url: "https://github.com/apple/swift-crypto", exact: "4.5.2"),
        .package(url: "https://github.com/apple/swift-certificates", exact: "1.21.1"),
        .package(url: "https://github.com/apple/swift-collections", exact: "1.6.0"),
        .package(url: "https://github.com/apple/swift-asn1", exact: "1.7.4"),
        .package(url: "https://github.com/apple/swift-log", exact: "1.16.2"),
        .package(url: "https://github.com/apple/swift-metrics", exact: "2.13.0"),
        .package(url: "https://github.com/apple/swift-distributed-tracing", exact: "1.7.3"),
        .package(url: "https://github.com/apple/swift-configuration", exact: "1.4.0", traits: []),
        .package(url: "https://github.com/apple/swift-argument-parser", exact: "1.8.2"),
        .package(url: "https://github.com/swift-server/async-http-client", exact: "1.37.0"),
        .package(url: "https://github.com/swift-server/swift-service-lifecycle", exact: "2.13.0"),
        .package(url: "https://github.com/jpsim/Yams", exact: "6.2.2"),
    ],
    targets: [
        // Parsing and decisions, no I/O.
        room("CloakroomWire", [nioCore], optimized),
        room("CloakroomCore", ["CloakroomWire", nioCore], optimized),
        room("CloakroomHTTP2", ["CloakroomWire", nioCore], optimized),
        // TLS for outgoing connections.
        room("CloakroomTLS", ["CloakroomCore", nioCore, nioSSL]),
        // These modules communicate through protocols declared in CloakroomCore and do not import each other.
        // Exception: CloakroomProxy and CloakroomAdmin import CloakroomTelemetry.
        room(
            "CloakroomTelemetry",
            [
                "CloakroomCore", "CloakroomTLS", "CloakroomWire", asyncHTTPClient, deque, nioCore, nioConcurrency,
                nioHTTP1, log, metrics, tracing, lifecycle,
            ]),
        room(
            "CloakroomSessions",
            ["CloakroomCore", "CloakroomTLS", "CloakroomWire", "CSQLite", crypto, nioCore, nioPosix, nioSSL, log],
            optimized),
        room(
            "CloakroomIdentity",
            [
                "CloakroomCore", "CloakroomTLS", "CloakroomWire", deque, nioCore, nioHTTP1, nioPosix, nioSSL,
                asyncHTTPClient, crypto, cryptoExtras, tracing,
            ]),
        room(
            "CloakroomProxy",
            [
                "CloakroomCore", "CloakroomHTTP2", "CloakroomTLS", "CloakroomWire", "CloakroomTelemetry",
                "CLinux", "CZlib", crypto, nioCore, nioPosix, nioTLS, nioSSL, nioHTTP2, nioHPACK, x509, asn1, deque,
                log, tracing, lifecycle,
            ]),
        .target(
            name: "CloakroomAdmin",
            dependencies: [
                "CloakroomCore", "CloakroomTelemetry", "CloakroomWire", lifecycle, log, nioCore, nioPosix, nioTLS,
            ],
            // The status page.
            resources: [
                .embedInCode("Page/index.html"), .embedInCode("Page/status.css"), .embedInCode("Page/draw.js"),
                .embedInCode("Page/status.js"),
            ],
            swiftSettings: settings),
        room("CloakroomConfig", ["CloakroomCore", "CloakroomWire", configuration, crypto, nioCore, yams]),
        // A mock of the upstream API, for demos and tests.
        .target(
            name: "MockAPI",
            dependencies: [nioCore, nioHTTP1, nioPosix, lifecycle, crypto, cryptoExtras, log],
            resources: [.embedInCode("Page")], swiftSettings: settings),
        // A client library that holds no tokens; the gateway manages them.
        room("ThinClient", []),
        // C code: build information, ICU data, and system calls that Swift cannot make.
        .target(
            name: "CloakroomBuild",
            cSettings: [.define("CLOAKROOM_COMMIT", to: "\"\(commit ?? "unknown")\"")] + icuData),
        // The SQLite library of the system.
        .systemLibrary(name: "CSQLite", providers: [.apt(["libsqlite3-dev"])]),
        // System calls that Swift does not declare.
        .systemLibrary(name: "CLinux"),
        // The zlib library of the system, for files that are sent compressed.
        .systemLibrary(name: "CZlib", providers: [.apt(["zlib1g-dev"])]),
        // The command-line tool: commands, and the wiring of the modules above.
        .executableTarget(
            name: "cloakroom",
            dependencies: [
                "CloakroomAdmin", "CloakroomBuild", "CloakroomConfig", "CloakroomCore", "CloakroomIdentity",
                "CloakroomProxy", "CloakroomSessions", "CloakroomTelemetry", "CloakroomTLS", "CloakroomWire", "CZlib",
                arguments, asyncHTTPClient, configuration, crypto, lifecycle, signals, log, metrics, tracing, x509,
                asn1,
                nioCore, nioHTTP1, nioPosix, nioSSL,
            ],
            swiftSettings: settings),
        // The demo, and the mocks for trials: not in production, because it forges tokens. It starts the program above.
        .executableTarget(
            name: "cloakroom-demo",
            dependencies: ["CloakroomBuild", "MockAPI", arguments, asn1, crypto, lifecycle, log, signals, x509],
            swiftSettings: settings),

        // Helpers shared by several test targets.
        .target(
            name: "TestSupport", dependencies: ["CloakroomCore", "CloakroomTelemetry", log, nioCore, nioPosix],
            path: "Tests/TestSupport",
            swiftSettings: settings),
        tests("CloakroomWire", ["TestSupport", nioCore]),
        tests("CloakroomCore", ["CloakroomWire", "TestSupport", nioCore]),
        tests(
            "CloakroomHTTP2",
            ["CloakroomWire", "TestSupport", nioCore, nioEmbedded, nioHPACK, nioHTTP2], exclude: ["HPACK/Corpus"],
            optimized),
        tests(
            "CloakroomTelemetry",
            ["CloakroomCore", "CloakroomWire", "TestSupport", nioCore, nioHTTP1, nioPosix, metrics, tracing, log]),
        tests(
            "CloakroomSessions",
            ["CloakroomCore", "TestSupport", crypto, nioCore, nioEmbedded, nioPosix, nioSSL, x509, asn1, log]),
        // Simulation of token refresh: several replicas, one store and one upstream, with injected failures.
        .target(
            name: "RefreshSimulation", dependencies: ["CloakroomCore", "TestSupport"],
            path: "Tests/Simulation/RefreshSimulation",
            swiftSettings: optimized),
        .testTarget(
            name: "RefreshSimulationTests", dependencies: ["CloakroomCore", "RefreshSimulation", "TestSupport"],
            path: "Tests/Simulation/RefreshSimulationTests", swiftSettings: settings),
        // Simulation of a sharded store: servers that fail over and lose writes, and the gateways on it.
        .testTarget(
            name: "ShardSimulationTests", dependencies: ["CloakroomCore", "CloakroomSessions", "TestSupport", nioCore],
            path: "Tests/Simulation/ShardSimulationTests", swiftSettings: optimized),
        // Simulation of upstreams: event loops of a gateway, and targets that are slow, fail or hang.
        .target(
            name: "UpstreamSimulation",
            dependencies: ["CloakroomCore", "CloakroomProxy", "CloakroomWire", "TestSupport"],
            path: "Tests/Simulation/UpstreamSimulation",
            swiftSettings: optimized),
        .testTarget(
            name: "UpstreamSimulationTests", dependencies: ["CloakroomCore", "TestSupport", "UpstreamSimulation"],
            path: "Tests/Simulation/UpstreamSimulationTests", swiftSettings: settings),
        tests(
            "CloakroomIdentity",
            [
                "CloakroomCore", "CloakroomTLS", "MockAPI", "TestSupport", asyncHTTPClient, crypto, cryptoExtras,
                inMemoryTracing, nioCore, nioPosix, tracing,
            ]),
        tests(
            "CloakroomProxy",
            [
                "CloakroomConfig", "CloakroomCore", "CloakroomTLS", "CloakroomWire", "TestSupport",
                "CloakroomTelemetry", deque, nioCore,
                nioEmbedded, nioPosix,
                nioSSL, nioTLS,
                nioHTTP2, nioHPACK, x509, asn1, crypto, inMemoryTracing, lifecycle, log, tracing,
            ]),
        tests(
            "CloakroomAdmin",
            [
                "CloakroomCore", "CloakroomTelemetry", "CloakroomWire", "TestSupport", asyncHTTPClient, lifecycle, log,
                metrics, nioCore, nioEmbedded, nioHTTP1,
            ]),
        tests("CloakroomConfig", ["CloakroomCore", "TestSupport", configuration]),
        tests("ThinClient", ["TestSupport"]),
        tests("MockAPI", ["TestSupport", asyncHTTPClient, nioCore, nioHTTP1, crypto, cryptoExtras, lifecycle, log]),
        // Fuzz targets, and a test suite that runs them. Tests/Fuzzing/libfuzzer.sh runs them with libFuzzer.
        .target(
            name: "FuzzTargets",
            dependencies: [
                "CloakroomAdmin", "CloakroomConfig", "CloakroomCore", "CloakroomHTTP2", "CloakroomIdentity",
                "CloakroomSessions", "CloakroomTelemetry", "CloakroomWire", nioCore, "TestSupport",
            ],
            path: "Tests/Fuzzing/Targets", swiftSettings: optimized),
        .testTarget(
            name: "FuzzTests", dependencies: ["FuzzTargets", "TestSupport"], path: "Tests/Fuzzing/FuzzTests",
            swiftSettings: settings),
        // The wiring of the gateway, in this process.
        .testTarget(
            name: "GatewayTests",
            dependencies: [
                "cloakroom", "CloakroomConfig", "CloakroomCore", "CloakroomIdentity", "CloakroomTelemetry",
                "TestSupport", nioCore, nioEmbedded, nioPosix,
            ],
            swiftSettings: settings),
        // The built program as a process, with real sockets, servers, browsers and other clients.
        .testTarget(
            name: "SystemTests",
            dependencies: [
                "cloakroom", "cloakroom-demo", "MockAPI", "ThinClient", "CloakroomAdmin", "CloakroomConfig",
                "CloakroomCore", "CloakroomSessions",
                "CloakroomTelemetry", "TestSupport", arguments, asyncHTTPClient, crypto, log, nioCore, nioHTTP1,
                nioPosix, nioSSL, nioTLS,
            ],
            // Programs that the tests run from the sources.
            exclude: [
                "Login/joserfc_peer.py", "Providers/idpyoidc_provider.py", "Support/browser.py",
                "Support/stopped_job.py",
            ],
            swiftSettings: settings),
    ]
)

// libFuzzer provides its own `main`, so its target is declared only on request.
if Context.environment["CLOAKROOM_LIBFUZZER"] != nil {
    package.targets.append(
        .executableTarget(
            name: "cloakroom-fuzz", dependencies: ["FuzzTargets"], path: "Tests/Fuzzing/LibFuzzer",
            swiftSettings: settings + [.unsafeFlags(["-parse-as-library"])]))
}
