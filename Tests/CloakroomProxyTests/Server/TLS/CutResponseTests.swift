import CloakroomCore
import Foundation
import TestSupport
import Testing

@Suite("Aborted responses over TLS (RFC 9112 §9.8)", .serialized, .timeLimit(.minutes(2)))
struct CutResponseTests {
    /// Reads a response with OpenSSL through Python, and prints how the connection ended.
    private static let script = """
        import socket, ssl, sys
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        context.minimum_version = context.maximum_version = ssl.TLSVersion[sys.argv[2]]
        plain = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
        client = context.wrap_socket(plain, suppress_ragged_eofs=False)
        client.sendall(sys.stdin.buffer.read())
        received = b""
        end = "whole"
        try:
            while piece := client.recv(65536):
                received += piece
        except (ssl.SSLEOFError, ConnectionResetError):
            end = "cut"
        print(end, received.decode().split("\\r\\n\\r\\n", 1)[-1].encode())
        """

    private static let started = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n"

    private static func outcome(
        _ request: String, version: String, upstream script: [ScriptedUpstream.Step],
        configuration adjust: @escaping @Sendable (inout GatewayConfiguration) -> Void = { _ in },
        during: @escaping @Sendable (RunningGateway) async throws -> Void = { _ in }
    ) async throws -> String {
        let directory = try CertificateFixture()
        let pair = try directory.server("server", names: ["localhost"])
        return try await GatewaySetup(script).configuration { configuration in
            configuration.listeners[0].tls = pair.listener
            adjust(&configuration)
        }.run { gateway in
            let python = try ExternalProgram("python3", package: "python3")
            async let outcome = Task.detached {
                try python.run(["-c", Self.script, "\(gateway.port)", version], input: Data(request.utf8))
            }.value
            try await during(gateway)
            let result = try await outcome
            expect(result.status, equals: 0, "\(result.problems)")
            return String(decoding: result.output, as: UTF8.self)
        }
    }

    static let versions = ["TLSv1_2", "TLSv1_3"]
    private static let request10 = "GET /public/a HTTP/1.0\r\n\r\n"

    @Test(
        "Rule 48: for HTTP/1.0 an aborted response ends without close_notify, a complete one with it",
        arguments: versions)
    func untilClose(version: String) async throws {
        let whole = try await Self.outcome(
            Self.request10, version: version, upstream: [.request, .send(Self.started + "0\r\n\r\n")])
        expect(whole, equals: "whole b'half'\n")
        let cut = try await Self.outcome(
            Self.request10, version: version, upstream: [.request, .send(Self.started), .close])
        expect(cut.hasPrefix("cut "), "\(cut)")
    }

    @Test("Rule 48: an aborted response with chunks or a length ends without close_notify too", arguments: versions)
    func framed(version: String) async throws {
        let cut = try await Self.outcome(
            Ask.get(), version: version, upstream: [.request, .send(Self.started), .close])
        expect(cut, equals: "cut b'4\\r\\nhalf\\r\\n'\n")
        let short = try await Self.outcome(
            Ask.get(), version: version,
            upstream: [.request, .send("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"), .close])
        expect(short, equals: "cut b'half'\n")
    }

    @Test("Rule 48: a response aborted at the drain limit ends without close_notify", arguments: versions)
    func drained(version: String) async throws {
        let cut = try await Self.outcome(
            Self.request10, version: version, upstream: [.request, .send(Self.started)],
            configuration: { $0.timeouts.drain = .milliseconds(200) },
            during: { gateway in
                _ = try await gateway.upstream.request()
                try await eventually("the first half") {
                    gateway.upstream.connections.first.map { !$0.requests.isEmpty } ?? false
                }
                try await Task.sleep(for: .milliseconds(300))
                await gateway.beginDrain()
            })
        expect(cut.hasPrefix("cut "), "\(cut)")
    }
}
