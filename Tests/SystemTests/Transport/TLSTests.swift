import Foundation
import MockAPI
import TestSupport
import Testing

@testable import cloakroom_demo

/// Handshakes with curl, a third-party TLS implementation.
@Suite("TLS", .serialized, .timeLimit(.minutes(3)))
struct TLSTests {
    private func serving(
        minimumVersion: String = "1.2",
        _ body: (_ address: String, GatewayProcess, _ certificateFile: String) async throws -> Void
    ) async throws {
        let certificate = try DemoCertificate()
        defer { certificate.remove() }
        try await MockAPI.withServer { mock in
            var configuration = GatewayYAML(upstream: mock.baseURL)
            configuration.certificate = (certificate.certificateFile, certificate.keyFile)
            configuration.minimumTLSVersion = minimumVersion
            try await GatewayProcess.running(configuration) { gateway in
                try await body(try #require(gateway.tls), gateway, certificate.certificateFile)
            }
        }
    }

    private let version12 = ["-skv", "-o", "/dev/null", "--tlsv1.2", "--tls-max", "1.2"]
    private let version13 = ["-skv", "-o", "/dev/null", "--tlsv1.3"]
    /// With the lowest security level, so that the server rejects the handshake and not curl.
    private let version11 = [
        "-skv", "-o", "/dev/null", "--tlsv1.1", "--tls-max", "1.1", "--ciphers", "DEFAULT@SECLEVEL=0",
    ]

    @Test("TLS 1.2 and 1.3 are supported, with HTTP/2 by ALPN, and 1.1 is rejected")
    func versions() async throws {
        try await serving { address, _, _ in
            let curl = try Curl()
            for (arguments, version) in [(version12, "TLSv1.2"), (version13, "TLSv1.3")] {
                let result = try await curl.run(arguments + ["\(address)/episodes"])
                #expect(result.ending.status == 0, "\(result.errors)")
                #expect(result.errors.contains("SSL connection using \(version)"), "\(result.errors)")
                #expect(result.errors.contains(/ALPN[:,] server accepted (to use )?h2/), "\(result.errors)")
                #expect(result.errors.contains("HTTP/2 200"))
            }
            let old = try await curl.run(version11 + ["\(address)/episodes"])
            #expect(old.ending.status == 35, "\(old.errors)")
            #expect(old.errors.contains("protocol version"), "\(old.errors)")
            let afterwards = try await curl("\(address)/episodes")
            #expect(afterwards.status == 200)
        }
    }

    @Test("With a minimum of TLS 1.3, TLS 1.2 is rejected")
    func minimumVersion() async throws {
        try await serving(minimumVersion: "1.3") { address, _, _ in
            let curl = try Curl()
            let rejected = try await curl.run(version12 + ["\(address)/episodes"])
            #expect(rejected.ending.status == 35, "\(rejected.errors)")
            let accepted = try await curl.run(version13 + ["\(address)/episodes"])
            #expect(accepted.ending.status == 0, "\(accepted.errors)")
        }
    }

    @Test("The configured certificate is served, and a client that verifies it connects")
    func certificate() async throws {
        try await serving { address, _, certificateFile in
            let curl = try Curl()
            let trusted = try await curl.run(["-s", "--cacert", certificateFile, "\(address)/episodes"])
            #expect(trusted.ending.status == 0, "\(trusted.errors)")
            let stranger = try await curl.run(["-s", "\(address)/episodes"])
            #expect(stranger.ending.status == 60)
        }
    }

    @Test("Plain HTTP on the TLS port, TLS on the cleartext port and garbage on both end only their own connections")
    func garbage() async throws {
        try await serving { address, gateway, _ in
            let curl = try Curl()
            let plain = try await curl.run(["-s", "http://localhost:\(address.port)/episodes"])
            #expect(plain.ending.status != 0)
            #expect(plain.output.isEmpty)
            let encrypted = try await curl.run(["-sk", "https://localhost:\(gateway.clear.port)/episodes"])
            #expect(encrypted.ending.status == 35, "\(encrypted.errors)")

            let rejected = [
                Array("GET / HTTP/1.1\r\n\r\n".utf8), Array(repeating: 0xff, count: 4_096),
                Array("\u{0}\u{1}\u{2}\r\n\r\n".utf8), Array("SSH-2.0-OpenSSH\r\n\r\n".utf8),
            ]
            for bytes in rejected {
                for port in [address.port, gateway.clear.port] {
                    let response = try await RawPeer.exchange(bytes, port: port)
                    #expect(port == address.port ? !response.contains("HTTP") : response.hasPrefix("HTTP/1.1 4"))
                }
            }
            var generator = SystemRandomNumberGenerator()
            for length in [0, 1, 5, 100, 2_000, 20_000] {
                let bytes = (0..<length).map { _ in UInt8.random(in: .min ... .max, using: &generator) }
                for port in [address.port, gateway.clear.port] {
                    _ = try await RawPeer.exchange(bytes, port: port, hangsUp: true)
                    // The beginning of a handshake, followed by other bytes.
                    _ = try await RawPeer.exchange([0x16, 3, 1, 2, 0] + bytes, port: port, hangsUp: true)
                }
            }
            #expect(gateway.program.isRunning)
            let afterwards = [
                try await curl("\(address)/episodes").status, try await curl("\(gateway.clear)/episodes").status,
            ]
            #expect(afterwards == [200, 200])
            #expect(gateway.program.errors == "")
        }
    }
}
