import CloakroomCore
import CloakroomProxy
import CloakroomTelemetry
import NIOCore
import NIOSSL
import TestSupport
import Testing

@Suite("Connections that begin with a PROXY header (proxy-protocol.txt)", .serialized)
struct ProxyProtocolTests {
    private static let line = "PROXY TCP4 192.0.2.7 198.51.100.2 56211 443\r\n"

    /// A header of version 2 that contains only ASCII bytes.
    private static func binary(_ command: UInt8, _ family: UInt8, _ content: [UInt8]) -> String {
        let signature: [UInt8] = [0x0d, 0x0a, 0x0d, 0x0a, 0x00, 0x0d, 0x0a, 0x51, 0x55, 0x49, 0x54, 0x0a]
        return String(decoding: signature + [command, family, 0, UInt8(content.count)] + content, as: UTF8.self)
    }

    private static func setup(
        _ sources: [String] = ["127.0.0.0/8"],
        _ adjust: @escaping @Sendable (inout GatewayConfiguration) -> Void = { _ in }
    ) -> GatewaySetup {
        GatewaySetup.serving.configuration { configuration in
            configuration.listeners[0].proxyProtocolSources = sources.compactMap(CIDRBlock.init)
            adjust(&configuration)
        }
    }

    /// A header and its client address.
    struct Example: Sendable {
        var header: String
        var address: String
    }

    static let examples = [
        Example(header: line, address: "192.0.2.7"),
        Example(header: "PROXY TCP6 2001:db8::7 2001:db8::2 56211 443\r\n", address: "2001:db8::7"),
        Example(header: "PROXY UNKNOWN\r\n", address: "127.0.0.1"),
        Example(header: binary(0x21, 0x11, [10, 1, 2, 3, 10, 0, 0, 1, 4, 5, 1, 7]), address: "10.1.2.3"),
        Example(
            header: binary(
                0x21, 0x21,
                [0x20, 1, 0, 0] + Array(repeating: 0, count: 11) + [7] + Array(repeating: 1, count: 16) + [4, 5, 1, 7]),
            address: "2001::7"),
        Example(header: binary(0x20, 0x00, []), address: "127.0.0.1"),
    ]

    @Test("The client's address reaches the upstream and the access log", arguments: examples)
    func address(_ example: Example) async throws {
        let (lines, _) = try await Self.setup().logged { gateway in
            let client = try await gateway.client()
            try await expect(client.exchange(example.header + Ask.get()).text, equals: "ok")
            try await expect(client.exchange(Ask.get()).text, equals: "ok")
            expect(gateway.upstream.requests.map { $0["X-Forwarded-For"] }, equals: [example.address, example.address])
        }
        expect(lines.map { $0["peer"] }, equals: [example.address, example.address])
    }

    @Test("A header may arrive in pieces, and separately from the request")
    func pieces() async throws {
        try await Self.setup().run { gateway, client async throws in
            for character in Self.line.unicodeScalars { client.send(String(character)) }
            try await expect(client.exchange(Ask.get()).text, equals: "ok")
            try await expect(gateway.upstream.request()["X-Forwarded-For"], equals: "192.0.2.7")
        }
    }

    private static let rows = [
        Scenario(
            "The client of a trusted proxy is not trusted itself",
            on: setup { $0.trustedProxies = [CIDRBlock("127.0.0.1")].compactMap(\.self) },
            .ok(line + Ask.get("/public/a", "X-Forwarded-For: 203.0.113.1")),
            sent: [.init(has: ["X-Forwarded-For: 192.0.2.7"])]),
        Scenario(
            "A second header is parsed as a malformed request", on: setup(), .ask(line + line + Ask.get(), 400),
            sent: []),
        Scenario(
            "Without the PROXY protocol a header is parsed as a malformed request", .ask(line + Ask.get(), 400),
            sent: []),
    ]

    @Test("Headers", arguments: rows)
    func scenario(_ scenario: Scenario) async throws { try await scenario.run() }

    @Test("A PROXY header from an untrusted peer closes the connection at once")
    func untrustedSource() async throws {
        try await Self.setup(["192.0.2.0/24"]).run { gateway, client in
            client.send(Self.line + Ask.get())
            try await client.closed()
            expect(client.received, equals: 0)
            expect(empty: gateway.upstream.connections)
            try await gateway.metric("cloakroom_rejections_total{reason=\"proxy_source\"} 1")
        }
    }

    @Test(
        "A connection without a header is closed and never served",
        arguments: [
            Ask.get(), "PROXY TCP4 192.0.2.7 198.51.100.2 56211\r\n" + Ask.get(), "\u{16}\u{3}\u{1}", line.lowercased(),
            " " + line, binary(0x21, 0x11, [10, 1, 2, 3]) + Ask.get(), binary(0x31, 0x11, []),
        ])
    func garbage(_ bytes: String) async throws {
        try await Self.setup().run { gateway, client in
            client.send(bytes)
            try await client.closed()
            expect(client.received, equals: 0)
            expect(empty: gateway.upstream.connections)
            try await gateway.metric("cloakroom_rejections_total{reason=\"proxy_header\"} 1")
        }
    }

    @Test("A connection whose header is not complete in time is closed", arguments: ["", "PROXY TCP4 192.0"])
    func slow(_ beginning: String) async throws {
        try await Self.setup { $0.timeouts.header = .milliseconds(100) }.run { gateway, client in
            if !beginning.isEmpty { client.send(beginning) }
            try await client.closed()
            expect(client.received, equals: 0)
            try await gateway.metric("cloakroom_rejections_total{reason=\"proxy_header\"} 1")
        }
    }

    @Test("A drain does not wait for a header")
    func drain() async throws {
        try await Self.setup().run { gateway, client in
            client.send("PROXY ")
            // Connections are accepted in order: a later one proves that this one is registered.
            try await expect(gateway.client().exchange(Self.line + Ask.get()).text, equals: "ok")
            await gateway.beginDrain()
            try await client.closed()
            try await gateway.stopped()
        }
    }

    @Test("The TLS handshake follows the header")
    func tls() async throws {
        let directory = try CertificateFixture()
        let pair = try directory.server("server", names: ["gateway.test"])
        let setup = Self.setup { configuration in
            configuration.listeners[0].tls = pair.listener
        }
        try await setup.run { gateway in
            var configuration = TLSConfiguration.makeClientConfiguration()
            configuration.certificateVerification = .none
            let context = try NIOSSLContext(configuration: configuration)
            let client = try await RawPeer.connect(port: gateway.port, allowsHalfClosure: false, sending: Ask.get()) {
                [Preface(Self.line), try NIOSSLClientHandler(context: context, serverHostname: nil)]
            }
            try await expect(client.head().hasPrefix("HTTP/1.1 200 OK\r\n"))
            try await client.close()
            try await expect(gateway.upstream.request()["X-Forwarded-For"], equals: "192.0.2.7")
            try await expect(gateway.upstream.request()["X-Forwarded-Proto"], equals: "https")
        }
        withExtendedLifetime(directory) {}
    }
}

/// Sends unencrypted bytes like a load balancer, before the handshake.
private final class Preface: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private let text: String

    init(_ text: String) { self.text = text }

    func channelActive(context: ChannelHandlerContext) {
        context.writeAndFlush(wrapOutboundOut(ByteBuffer(string: text)), promise: nil)
        context.fireChannelActive()
    }
}
