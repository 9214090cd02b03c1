import Foundation
import MockAPI
import TestSupport
import Testing

@testable import cloakroom_demo

/// Third-party HTTP clients, each with the newest protocol version it supports.
@Suite("curl, nghttp and h2load", .serialized, .timeLimit(.minutes(3)))
struct HTTPClientTests {
    private func serving(_ body: (GatewayProcess, RunningMockAPI) async throws -> Void) async throws {
        let certificate = try DemoCertificate()
        defer { certificate.remove() }
        let settings = MockAPISettings.withTwoUsers
        try await MockAPI.withServer(settings) { mock in
            var file = GatewayYAML(upstream: mock.baseURL, apiToken: settings.apiToken)
            file.certificate = (certificate.certificateFile, certificate.keyFile)
            file.hasClearHTTP2 = true
            try await GatewayProcess.running(file) { gateway in try await body(gateway, mock) }
        }
    }

    /// The HTTP version and the status that curl reports.
    private func protocolAndStatus(_ arguments: [String]) async throws -> String {
        let result = try await Curl().run(["-sk", "-o", "/dev/null", "-w", "%{http_version} %{http_code}"] + arguments)
        expect(result.ending.status, equals: 0, "\(result.errors)")
        return result.output
    }

    @Test("curl uses HTTP/2 by ALPN, and HTTP/1.1 or HTTP/1.0 on request (RFC 7301)")
    func curlOverTLS() async throws {
        try await serving { gateway, _ in
            let address = try require(gateway.tls) + "/episodes"
            for (arguments, expected) in [
                ([], "2 200"), (["--http2"], "2 200"), (["--http1.1"], "1.1 200"), (["--http1.0"], "1.1 200"),
                (["--no-alpn"], "1.1 200"),
            ] {
                let seen = try await protocolAndStatus(arguments + [address])
                expect(seen, equals: expected, "\(arguments)")
            }
        }
    }

    @Test("curl uses cleartext HTTP/2 with prior knowledge, and is not upgraded otherwise (RFC 9113 §3.1, §3.3)")
    func curlInClear() async throws {
        try await serving { gateway, _ in
            let address = gateway.clear + "/episodes"
            for (argument, expected) in [
                ("--http2-prior-knowledge", "2 200"), ("--http2", "1.1 200"), ("--http1.1", "1.1 200"),
            ] {
                let seen = try await protocolAndStatus([argument, address])
                expect(seen, equals: expected, "\(argument)")
            }
        }
    }

    @Test("Sign-in, protected route, upload and sign-out work the same over HTTP/2")
    func scenario() async throws {
        try await serving { gateway, _ in
            let curl = try Curl()
            for (address, version) in [
                (gateway.clear, "--http2-prior-knowledge"), (gateway.clear, "--http1.1"),
                (try require(gateway.tls), "--http2"), (try require(gateway.tls), "--http1.1"),
            ] {
                try await expect(curl(version, "\(address)/videos/1").status, equals: 401)
                let signedIn = try await curl(version, "-u", "jo@example.com:secret", "-X", "POST", "\(address)/auth")
                expect(signedIn.status, equals: 200)
                let ticket = try require(signedIn.cookie)
                let cookie = "Cookie: \(WebClient.cookieName)=\(ticket)"
                try await expect(curl(version, "-H", cookie, "\(address)/videos/1").status, equals: 200)
                let body = String(repeating: "0123456789", count: 10_000)
                try curl.directory.write(body, to: "body")
                for coding in ["X-Nothing: 1", "Transfer-Encoding: chunked"] {
                    let echoed = try await curl(
                        version, "-H", cookie, "-H", coding, "--data-binary", "@body", "\(address)/__mock/echo")
                    expect(echoed.status, equals: 200)
                    expect(echoed.body, equals: body)
                }
                let head = try await curl(version, "--head", "\(address)/episodes")
                expect(head.status, equals: 200)
                expect(empty: head.body)
                try await expect(curl(version, "-H", cookie, "-X", "DELETE", "\(address)/auth").status, equals: 204)
                try await expect(curl(version, "-H", cookie, "\(address)/videos/1").status, equals: 401)
            }
        }
    }

    @Test("nghttp gets a response on every stream of one connection (RFC 9113 §5.1)")
    func nghttp() async throws {
        try await serving { gateway, _ in
            let nghttp = try Executables.onPath("nghttp", package: "nghttp2-client")
            for address in [try require(gateway.tls), gateway.clear] {
                let targets = (0..<20).map { "\(address)/\($0 % 2 == 0 ? "episodes" : "videos/1")?number=\($0)" }
                let result = try await ChildProgram.run(nghttp, ["-nv", "--no-verify-peer"] + targets)
                expect(result.ending.status, equals: 0, "\(result.errors)")
                expect(result.output.ranges(of: ":status: 200").count, equals: 10, "\(result.output)")
                expect(result.output.ranges(of: ":status: 401").count, equals: 10)
                expect(!result.output.contains("RST_STREAM"))
                expect(!result.output.contains("error_code=PROTOCOL_ERROR"))
            }
        }
    }

    @Test(
        "h2load gets every response, over HTTP/2 and HTTP/1.1, with and without TLS",
        arguments: [true, false], [true, false])
    func h2load(isHTTP2: Bool, hasTLS: Bool) async throws {
        try await serving { gateway, mock in
            let h2load = try Executables.onPath("h2load", package: "nghttp2-client")
            let address = try hasTLS ? require(gateway.tls) : gateway.clear
            let result = try await ChildProgram.run(
                h2load,
                ["-n", "2000", "-c", isHTTP2 ? "8" : "200", "-m", isHTTP2 ? "20" : "1"] + (isHTTP2 ? [] : ["--h1"])
                    + ["\(address)/episodes"])
            expect(result.ending.status, equals: 0, "\(result.errors)")
            expect(result.output.contains("2000 succeeded, 0 failed, 0 errored"), "\(result.output)")
            expect(result.output.contains("2000 2xx"))
            expect(mock.observations.snapshot().count("GET", "/episodes"), equals: 2_000)
        }
    }
}
