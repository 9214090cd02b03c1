import Foundation
import MockAPI
import TestSupport
import Testing

@testable import cloakroom_demo

/// The TLS offers of every outgoing connection of the gateway, seen from the server.
@Suite("TLS of outgoing connections", .serialized, .timeLimit(.minutes(5)))
struct OutgoingTLSTests {
    /// The component that opens a connection.
    enum Client: String, CaseIterable, Sendable {
        case request, signIn, store, collector
    }

    /// Makes a client connect to a port of `localhost` repeatedly until `body` returns.
    /// - Parameter name: The server's name for requests and sign-ins; `nil` for that of the upstream's URL.
    private func connecting(
        _ client: Client, to port: Int, trusting caFile: String, named name: String? = nil,
        _ body: () async throws -> Void
    ) async throws {
        let upstream = "https://localhost:\(port)"
        let caFile = caFile.isEmpty ? [] : [caFile]
        switch client {
        case .request, .signIn:
            let set =
                caFile.map { "upstreams.api.tls.caFile=\($0)" } + ["timeouts.identity=2s", "timeouts.connect=2s"]
                + (name.map { ["upstreams.api.tls.serverName=\($0)"] } ?? [])
            try await GatewayProcess.running(GatewayYAML(upstream: upstream), set: set) { gateway in
                let asking = Task {
                    while !Task.isCancelled {
                        _ = try await client == .signIn ? gateway.client.signIn() : gateway.client.get("/episodes")
                        try await Task.sleep(for: .milliseconds(50))
                    }
                }
                defer { asking.cancel() }
                try await body()
            }
        case .store:
            let set =
                caFile.map { "session.valkey.tls.caFile=\($0)" }
                + [
                    "session.store=valkey", "session.valkey.addresses=localhost:\(port)",
                    "session.valkey.tls.enabled=true", "session.secrets=0123456789abcdef0123456789abcdef",
                ]
            try await GatewayProcess.running(GatewayYAML(upstream: "http://127.0.0.1:9"), set: set) { _ in
                try await body()
            }
        case .collector:
            let set =
                caFile.map { "tracing.otlp.caFile=\($0)" }
                + [
                    "tracing.otlp.endpoint=\(upstream)/v1/traces", "tracing.exporter=otlp",
                    "tracing.sampler=always_on", "tracing.otlp.interval=10ms",
                ]
            try await GatewayProcess.running(GatewayYAML(upstream: "http://127.0.0.1:9"), set: set) { gateway in
                _ = try await gateway.client.get("/episodes")
                try await body()
            }
        }
    }

    private static let version12: UInt16 = 0x0303
    private static let version13: UInt16 = 0x0304
    /// TLS 1.3, and ECDHE with AES-GCM or ChaCha20-Poly1305 for TLS 1.2.
    private static let suites: Set<UInt16> = [
        0x1301, 0x1302, 0x1303, 0xc02b, 0xc02c, 0xc02f, 0xc030, 0xcca8, 0xcca9,
    ]

    @Test(
        "Rule 38: each client offers TLS 1.2 and 1.3 with AEAD suites only, and works with a server that supports them",
        arguments: Client.allCases)
    func offers(client: Client) async throws {
        let certificate = try DemoCertificate()
        defer { certificate.remove() }
        try await TLSProbe.running(
            .current, certificateFile: certificate.certificateFile, keyFile: certificate.keyFile
        ) { port, probe in
            try await connecting(client, to: port, trusting: certificate.certificateFile) {
                try await eventually("bytes after the handshake") { probe.received > 0 }
            }
            expect(!probe.hellos.isEmpty)
            for hello in probe.hellos {
                expect(Set(hello.versions), equals: [Self.version12, Self.version13])
                expect(Set(hello.suites), equals: Self.suites)
                expect(hello.protocols, equals: (client == .store ? [] : ["http/1.1"]))
            }
        }
    }

    @Test(
        "Rule 38: sign-ins verify tls.serverName, not the host of the target", arguments: ["localhost", "other.test"])
    func serverName(name: String) async throws {
        let certificate = try DemoCertificate()
        defer { certificate.remove() }
        try await TLSProbe.running(
            .current, certificateFile: certificate.certificateFile, keyFile: certificate.keyFile
        ) { port, probe in
            try await connecting(.signIn, to: port, trusting: certificate.certificateFile, named: name) {
                try await eventually("attempts") {
                    name == "localhost" ? probe.received > 0 : probe.hellos.count >= 2
                }
            }
            expect(probe.received > 0, equals: name == "localhost")
        }
    }

    @Test(
        "Rule 38: each client rejects a server that has only TLS 1.1 or only CBC suites, and sends it no data",
        arguments: Client.allCases, [TLSProbe.Kind.tls11, .cbc])
    func rejects(client: Client, kind: TLSProbe.Kind) async throws {
        let certificate = try DemoCertificate()
        defer { certificate.remove() }
        try await TLSProbe.running(
            kind, certificateFile: certificate.certificateFile, keyFile: certificate.keyFile
        ) { port, probe in
            try await connecting(client, to: port, trusting: certificate.certificateFile) {
                try await eventually("two attempts") { probe.hellos.count >= 2 }
            }
            expect(probe.handshakes, equals: 0)
            expect(probe.received, equals: 0)
            // The rejection comes from the gateway's client: another client is served.
            try await TLSProbe.connectLeniently(port: port)
            try await eventually("a handshake") { probe.handshakes == 1 }
        }
    }

    @Test(
        "Rule 38: a server given by name with a certificate for its address, or of an unknown authority, gets no data",
        arguments: Client.allCases, [true, false])
    func verifies(client: Client, isTrusted: Bool) async throws {
        let directory = try TemporaryDirectory()
        let (certificate, key) = (directory.path(of: "address.crt"), directory.path(of: "address.key"))
        let made = try await ChildProgram.run(
            try Executables.onPath("openssl", package: "openssl"),
            [
                "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key,
                "-out", certificate, "-days", "2", "-subj", "/CN=localhost", "-addext",
                isTrusted ? "subjectAltName=IP:127.0.0.1" : "subjectAltName=DNS:localhost",
            ])
        expect(made.ending.status, equals: 0, "\(made.errors)")
        try await TLSProbe.running(.current, certificateFile: certificate, keyFile: key) { port, probe in
            try await connecting(client, to: port, trusting: isTrusted ? certificate : "") {
                try await eventually("two attempts") { probe.hellos.count >= 2 }
            }
            expect(probe.received, equals: 0)
        }
    }
}
