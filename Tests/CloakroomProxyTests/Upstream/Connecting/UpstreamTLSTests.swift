import CloakroomCore
import CloakroomProxy
import CloakroomTLS
import Foundation
import NIOCore
import NIOSSL
import TestSupport
import Testing

@Suite("An upstream over TLS", .serialized)
struct UpstreamTLSTests {
    private static let responses: [ScriptedUpstream.Step] = [.request, .send(Reply.ok), .again]
    private let directory: CertificateFixture

    init() throws { directory = try CertificateFixture() }

    /// Runs an upstream with a certificate for `localhost`, and a gateway that trusts its authority.
    private func run(
        _ script: [ScriptedUpstream.Step], _ body: (GatewaySetup, ScriptedUpstream) async throws -> Void
    ) async throws {
        let tls = try directory.server("api", names: ["localhost"]).serverContext()
        try await ScriptedUpstream.run([script], tls: tls) { port, upstream in
            let trust = UpstreamTLSConfiguration(caFile: directory.authorityFile)
            try await body(GatewaySetup().targets(.https("localhost", port), tls: trust), upstream)
        }
    }

    @Test("The versions before TLS 1.2 are not offered (RFC 8996)")
    func oldVersions() throws {
        try expect(UpstreamTLS.configuration(nil).minimumTLSVersion, equals: .tlsv12)
    }

    @Test("An upstream whose certificate is signed by the given CA and issued for its name is used and reused")
    func verified() async throws {
        let tls = try directory.server("api", names: ["localhost"]).serverContext()
        try await ScriptedUpstream.run([Self.responses], tls: tls) { port, upstream in
            try await GatewaySetup()
                .configuration { $0.upstreams[0].preserveHost = false }
                .targets(.https("localhost", port), tls: UpstreamTLSConfiguration(caFile: directory.authorityFile))
                .run { gateway, client async throws in
                    for _ in 0..<3 { try await expect(client.exchange(Ask.get("/token/a")).text, equals: "ok") }
                    expect(upstream.connections.count, equals: 1)
                    expect(
                        upstream.requests.map { $0["X-API-TOKEN"] }, equals: Array(repeating: Canary.apiToken, count: 3)
                    )
                    expect(upstream.requests.first?["Host"], equals: "localhost:\(port)")
                }
        }
    }

    enum CertificateDefect: String, CaseIterable, Sendable {
        case otherName, expired, unknownAuthority, notTrustedBySystem, nameInsteadOfAddress, addressInsteadOfName
    }

    @Test(
        "An upstream that fails certificate verification gets no byte of a request, and the client gets 502",
        arguments: CertificateDefect.allCases)
    func rejected(flaw: CertificateDefect) async throws {
        let other = try CertificateFixture(authority: "Somebody")
        let pair =
            switch flaw {
            case .otherName: try directory.server("api", names: ["other.test"])
            case .expired: try directory.server("api", names: ["localhost"], isExpired: true)
            // An attacker who controls DNS can have a certificate for the address.
            case .addressInsteadOfName:
                try directory.server("api", names: ["other.test"], addresses: [[127, 0, 0, 1]])
            case .unknownAuthority: try other.server("api", names: ["localhost"])
            case .notTrustedBySystem, .nameInsteadOfAddress: try directory.server("api", names: ["localhost"])
            }
        let log = RecordedLog()
        try await ScriptedUpstream.run([Self.responses], tls: try pair.serverContext()) { port, upstream in
            let caFile = flaw == .notTrustedBySystem ? nil : directory.authorityFile
            let host = flaw == .nameInsteadOfAddress ? "127.0.0.1" : "localhost"
            let setup = GatewaySetup().with(\.logger, log.logger)
                .targets(.https(host, port), tls: UpstreamTLSConfiguration(caFile: caFile))
            try await setup.run { gateway in
                let cookie = setup.sessions.add()
                let client = try await gateway.client()
                for path in ["/private/a", "/token/a"] {
                    let response = try await client.exchange(Ask.get(path, cookie))
                    expect(response.problem, equals: "502 unreachable")
                }
                expect(upstream.received, equals: 0)
                expect(empty: upstream.requests)
                try await gateway.calls(2, to: host, port: port, error: "upstream_unreachable")
                try await gateway.connections(active: 0, idle: 0)
            }
        }
        let lines = log.all.filter { $0["message"] == "upstream connection failed" }
        expect(lines.count, equals: 1, "one line per 10 s")
        expect(lines.first?["error_type"], equals: "tls")
        expect(lines.first?["upstream"], equals: "api")
        let reason =
            switch flaw {
            case .otherName, .addressInsteadOfName, .nameInsteadOfAddress: "the certificate is not issued for this host"
            case .expired: "the certificate has expired"
            case .unknownAuthority, .notTrustedBySystem:
                "no trusted authority issued the certificate, or the target requires one of a client"
            }
        expect(lines.first?["reason"], equals: reason)
    }

    @Test("An upstream with an IP address must have a certificate for that address")
    func address() async throws {
        let tls = try directory.server("api", names: [], addresses: [[127, 0, 0, 1]]).serverContext()
        try await ScriptedUpstream.run([Self.responses], tls: tls) { port, _ in
            try await GatewaySetup()
                .targets(.https("127.0.0.1", port), tls: UpstreamTLSConfiguration(caFile: directory.authorityFile))
                .expect(.ok())
        }
    }

    @Test("The server name to request and verify can differ from the host of the target")
    func serverName() async throws {
        let tls = try directory.server("api", names: ["api.example.com"]).serverContext()
        try await ScriptedUpstream.run([Self.responses], tls: tls) { port, upstream in
            for (name, status) in [("api.example.com", 200), ("other.example.com", 502)] {
                let tls = UpstreamTLSConfiguration(caFile: directory.authorityFile, serverName: name)
                try await GatewaySetup().targets(.https("127.0.0.1", port), tls: tls).expect(.ask(Ask.get(), status))
            }
            expect(upstream.requests.count, equals: 1)
        }
    }

    @Test("An upstream that requests a client certificate gets the gateway's, and no request without it")
    func clientCertificate() async throws {
        let pair = try directory.client("gateway")
        let tls = try directory.server("api", names: ["localhost"]).serverContext(
            clientsSignedBy: directory.authorityFile)
        try await ScriptedUpstream.run([Self.responses], tls: tls) { port, upstream in
            let ours = CertificateConfiguration(
                certificateFile: pair.certificateFile, keyFile: pair.keyFile)
            for (certificate, status) in [(nil, 502), (ours, 200)] {
                let configuration = UpstreamTLSConfiguration(
                    caFile: directory.authorityFile, clientCertificate: certificate)
                try await GatewaySetup().targets(.https("localhost", port), tls: configuration).expect(
                    .ask(Ask.get("/token/a"), status))
            }
            expect(upstream.requests.count, equals: 1)
        }
    }

    @Test("An upstream that does not support TLS is 502 and gets no byte of a request")
    func clearText() async throws {
        try await ScriptedUpstream.run([[.send(Reply.ok), .close]]) { port, upstream in
            try await GatewaySetup().targets(.https("127.0.0.1", port)).expect(.ask(Ask.get("/token/a"), 502))
            expect(empty: upstream.requests)
        }
    }

    @Test("An upstream that does not finish the handshake in time is 504 (RFC 9110 §15.6.5)")
    func silent() async throws {
        try await ScriptedUpstream.run([[.wait(Gate())]]) { port, upstream in
            try await GatewaySetup().configuration { $0.timeouts.connect = .milliseconds(200) }
                .targets(.https("127.0.0.1", port))
                .run { gateway in
                    try await expect(gateway.client().exchange(Ask.get()).problem, equals: "504 unreachable")
                    try await upstream.closed()
                }
        }
    }

    @Test(
        "A body delimited by connection close is complete only with close_notify (RFC 9112 §9.8)",
        arguments: [true, false])
    func truncation(isCut: Bool) async throws {
        let response = "HTTP/1.1 200 OK\r\n\r\nhalf of it"
        try await run([.request, .send(response), isCut ? .cut : .close]) { setup, _ in
            try await setup.run { _, client async throws in
                if isCut {
                    await #expect(throws: ResponseTruncated.self) { try await client.exchange(Ask.get()) }
                } else {
                    try await expect(client.exchange(Ask.get()).text, equals: "half of it")
                }
            }
        }
    }

    @Test("Before the first byte of the response a lost connection is an ordinary failure")
    func cutBeforeResponse() async throws {
        try await run([.request, .cut]) { setup, _ in
            try await setup.expect(.ask(Ask.get(), 502, "failed_request"))
        }
    }

    @Test("Invalid files are reported by name before the gateway serves")
    func badFiles() async throws {
        try directory.write("nothing", to: "empty.crt")
        let pair = try directory.client("gateway")
        let other = try directory.client("other")
        let empty = directory.path + "/empty.crt"
        let cases: [(UpstreamTLSConfiguration, String)] = [
            (UpstreamTLSConfiguration(caFile: "/nowhere/ca.crt"), "/nowhere/ca.crt: cannot read a certificate"),
            (UpstreamTLSConfiguration(caFile: empty), "\(empty): cannot read a certificate"),
            (
                UpstreamTLSConfiguration(clientCertificate: .init(certificateFile: empty, keyFile: pair.keyFile)),
                "\(empty): cannot read a certificate"
            ),
            (
                UpstreamTLSConfiguration(
                    clientCertificate: .init(certificateFile: pair.certificateFile, keyFile: empty)),
                "\(empty): cannot read a private key"
            ),
            (
                UpstreamTLSConfiguration(
                    clientCertificate: .init(certificateFile: pair.certificateFile, keyFile: other.keyFile)),
                "\(pair.certificateFile) and \(other.keyFile): "
            ),
        ]
        for (configuration, beginning) in cases {
            let error = await #expect(throws: UpstreamTLSError.self) {
                try await GatewaySetup().targets(.https("localhost", 1), tls: configuration).run { _ in }
            }
            expect(error?.description.hasPrefix(beginning), equals: true, "\(error?.description ?? "")")
        }
    }

    @Test("With the gateway's certificate all others of its file are sent, so that an upstream needs only the root")
    func clientCertificateChain() throws {
        let pair = try directory.client("gateway")
        let files = [pair.certificateFile, directory.authorityFile]
        let texts = try files.map { try String(contentsOfFile: $0, encoding: .utf8) }
        try directory.write(texts.joined(separator: "\n"), to: "chain.crt")
        let configuration = try UpstreamTLS.configuration(
            UpstreamTLSConfiguration(
                clientCertificate: .init(certificateFile: directory.path + "/chain.crt", keyFile: pair.keyFile)))
        let chain = try files.flatMap { try NIOSSLCertificate.fromPEMFile($0) }
        expect(configuration.certificateChain, equals: chain.map { .certificate($0) })
    }
}
