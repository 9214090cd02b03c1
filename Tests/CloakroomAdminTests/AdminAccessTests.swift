import AsyncHTTPClient
import CloakroomTelemetry
import Foundation
import NIOCore
import NIOEmbedded
import NIOHTTP1
import TestSupport
import Testing

@testable import CloakroomAdmin
@testable import CloakroomCore

@Suite("Access to the admin listener")
struct AdminAccessTests {
    private static let token = "canary-admin-token-0123456789abcdef"
    private static let pages = ["/", "/status.json", "/status.css", "/draw.js", "/status.js", "/metrics", "/nothing"]

    private func get(_ url: String, _ fields: [(String, String)] = []) async throws -> (Int, HTTPHeaders, String) {
        let (response, body) = try await RunningAdminServer.send(.GET, url, fields)
        return (Int(response.status.code), response.headers, String(decoding: body, as: UTF8.self))
    }

    private static func revocation() -> RevokeSessionsHandler {
        RevokeSessionsHandler(
            token: Secret(token), sessions: ScriptedRevoking(.success(1)), now: { SessionTime(seconds: 0) })
    }

    // MARK: - Host

    @Test(
        "Rule 67: a host that is an IP address, localhost, listed, or the listener's own name is allowed",
        arguments: [
            "127.0.0.1:9464", "127.0.0.1", "192.0.2.7:1", "[::1]:9464", "[fd00::1]", "localhost", "LocalHost:9464",
            "localhost.", "gateway.monitoring.svc:9464", "Gateway.Monitoring.SVC.", "admin.internal", nil,
        ])
    func allowedHosts(host: String?) {
        let policy = AdminHostPolicy(
            AdminConfiguration(
                address: HostAndPort(host: "Admin.internal", port: 9464), allowedHosts: ["gateway.monitoring.svc"]))
        expect(policy.allows(host))
    }

    @Test(
        "Rule 67: every other host is rejected, also one that only looks like an address or a listed name",
        arguments: [
            "evil.example", "evil.example:9464", "127.0.0.1.evil.example", "localhost.evil.example",
            "x.gateway.monitoring.svc", "gateway.monitoring.svcx", "", ":9464", "[::1", "[::1]x", "[evil.example]",
            "127.0.0.1:9464@evil.example", "127.0.0.1:x", "127.1", "0x7f000001", "localhost..", "evil.localhost",
        ])
    func rejectedHosts(host: String) {
        let policy = AdminHostPolicy(AdminConfiguration(allowedHosts: ["gateway.monitoring.svc"]))
        expect(!policy.allows(host))
    }

    @Test("Rule 67: a request to another name gets 421 with a problem document on every path, and is audited")
    func rebinding() async throws {
        let lines = RecordedLog()
        try await RunningAdminServer.run(revocation: Self.revocation(), logger: lines.logger) { address in
            for path in Self.pages + ["/live", "/ready"] {
                let (status, headers, body) = try await get(address + path, [("Host", "evil.example")])
                expect(status, equals: 421, "\(path)")
                expect(headers.first(name: "content-type"), equals: "application/problem+json")
                expect(body.contains(#""title":"Misdirected Request""#))
                expect(body.contains("admin.allowedHosts"))
                expect(!body.contains("evil"))
            }
            let (revoked, _) = try await RunningAdminServer.send(
                .POST, address + "/sessions/revoke",
                [
                    ("Host", "evil.example"), ("Authorization", "Bearer \(Self.token)"),
                    ("Content-Type", "application/json"),
                ], body: #"{"user":"jo@example.com"}"#)
            expect(revoked.status.code, equals: 421)
            try await expect(get(address + "/live").0, equals: 200)
        }
        expect(lines.texts.filter { $0.contains("admin_refused") && $0.contains("host") }.count, equals: 1)
        expect(!lines.texts.contains { $0.contains("evil") })
    }

    @Test(
        "Rule 67: several Host fields and a request target that names a host get 400 on every path, and are audited",
        arguments: [
            "GET PATH HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n",
            "GET PATH HTTP/1.1\r\nHost: localhost\r\nhOST: localhost\r\n\r\n",
            "GET http://evil.examplePATH HTTP/1.1\r\nHost: localhost\r\n\r\n",
            "GET http://localhostPATH HTTP/1.1\r\nHost: localhost\r\n\r\n",
            "OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n",
        ])
    func ambiguousHost(request: String) async throws {
        let lines = RecordedLog()
        try await RunningAdminServer.run(revocation: Self.revocation(), logger: lines.logger) { address in
            let port = try require(URL(string: address)?.port)
            for path in ["/live", "/metrics", RevokeSessionsHandler.path] {
                let bytes = Array(request.replacing("PATH", with: path).utf8)
                // The exchange ends only when the listener closes the connection.
                let received = try await RawPeer.exchange(bytes, port: port)
                expect(received.hasPrefix("HTTP/1.1 400"), "\(path)")
                expect(received.split(separator: "HTTP/1.1").count, equals: 1)
            }
        }
        expect(lines.texts.filter { $0.contains("admin_refused") && $0.contains("host") }.count, equals: 1)
    }

    @Test("Rule 67: a request that precedes one with several Host fields is served")
    func ambiguousLater() async throws {
        try await RunningAdminServer.run { address in
            let port = try require(URL(string: address)?.port)
            let first = "GET /live HTTP/1.1\r\nHost: localhost\r\n\r\n"
            let second = "GET /live HTTP/1.1\r\nHost: localhost\r\nHost: a.example\r\n\r\n"
            let received = try await RawPeer.exchange(Array((first + second).utf8), port: port)
            expect(received.hasPrefix("HTTP/1.1 200"))
            expect(received.contains("HTTP/1.1 400"))
        }
    }

    @Test("A listed name is served")
    func listedName() async throws {
        let access = AdminAccess(AdminConfiguration(allowedHosts: ["gateway.test"]))
        try await RunningAdminServer.run(access: access) { address async throws in
            try await expect(get(address + "/metrics", [("Host", "gateway.test:9464")]).0, equals: 200)
        }
    }

    // MARK: - Token

    @Test("Rule 68: with a token for everything, only probes are served without it, and pages name the scheme")
    func tokenForEverything() async throws {
        let access = AdminAccess(AdminConfiguration(token: Secret(Self.token), tokenScope: .everything))
        try await RunningAdminServer.run(revocation: Self.revocation(), access: access) { address in
            for path in ["/live", "/ready"] {
                try await expect(get(address + path).0, equals: 200, "\(path)")
            }
            for path in Self.pages {
                let (status, headers, body) = try await get(address + path)
                expect(status, equals: 401, "\(path)")
                expect(headers.first(name: "www-authenticate"), equals: #"Basic realm="admin", charset="UTF-8""#)
                expect(!body.contains("cloakroom_build_info"))
            }
        }
    }

    @Test("Rule 68: the token is accepted as Bearer and as the password of Basic; a part of it or another one is not")
    func tokenForms() async throws {
        let access = AdminAccess(AdminConfiguration(token: Secret(Self.token), tokenScope: .everything))
        func basic(_ text: String) -> String { "Basic " + Data(text.utf8).base64EncodedString() }
        let forms: [(String, Int)] = [
            ("Bearer \(Self.token)", 200), ("bearer \(Self.token)", 200), (basic("jo:\(Self.token)"), 200),
            (basic(":\(Self.token)"), 200), ("Bearer \(Self.token)x", 401), (basic(Self.token), 401),
            (basic("jo:\(Self.token.dropLast())"), 401), ("Basic \(Self.token)", 401),
        ]
        try await RunningAdminServer.run(revocation: Self.revocation(), access: access) { address async throws in
            for (form, expected) in forms {
                try await expect(get(address + "/metrics", [("Authorization", form)]).0, equals: expected)
            }
        }
    }

    @Test("Rule 68: wrong tokens of pages and of revocations count together; a request without one is no attempt")
    func throttledTogether() async throws {
        let access = AdminAccess(AdminConfiguration(token: Secret(Self.token), tokenScope: .everything))
        let wrong = [("Authorization", "Bearer wrong")]
        try await RunningAdminServer.run(revocation: Self.revocation(), access: access) { address in
            for _ in 0..<7 {
                try await expect(get(address + "/metrics").0, equals: 401)
            }
            for _ in 0..<3 {
                try await expect(get(address + "/metrics", wrong).0, equals: 401)
            }
            for _ in 0..<2 {
                let (response, _) = try await RunningAdminServer.send(
                    .POST, address + "/sessions/revoke", wrong, body: "{}")
                expect(response.status.code, equals: 401)
            }
            let (status, headers, _) = try await get(address + "/metrics", wrong)
            expect(status, equals: 429)
            expect(headers.first(name: "retry-after") != nil)
            try await expect(get(address + "/metrics", [("Authorization", "Bearer \(Self.token)")]).0, equals: 200)
        }
    }

    @Test("Rule 68: a token for everything without a token serves only probes")
    func everythingWithoutToken() async throws {
        let access = AdminAccess(AdminConfiguration(tokenScope: .everything))
        try await RunningAdminServer.run(access: access) { address async throws in
            try await expect(get(address + "/metrics", [("Authorization", "Bearer ")]).0, equals: 403)
            try await expect(get(address + "/live").0, equals: 200)
        }
    }

    @Test("Revoking never accepts Basic, which browsers send by themselves")
    func revocationNeedsBearer() async throws {
        let password = Data("jo:\(Self.token)".utf8).base64EncodedString()
        try await RunningAdminServer.run(revocation: Self.revocation()) { address in
            let (response, _) = try await RunningAdminServer.send(
                .POST, address + "/sessions/revoke",
                [("Authorization", "Basic \(password)"), ("Content-Type", "application/json")],
                body: #"{"user":"jo@example.com"}"#)
            expect(response.status.code, equals: 401)
        }
    }

    // MARK: - Limits

    @Test("Rule 70: a connection beyond the limit of its address is served, and the longest idle one is closed")
    func tooManyConnections() async throws {
        let lines = RecordedLog()
        try await RunningAdminServer.run(logger: lines.logger) { address in
            let port = try require(URL(string: address)?.port)
            let request = Array("GET /live HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".utf8)
            var peers: [RawPeer] = []
            for _ in 0..<AdminConnectionLimit.perAddress {
                let peer = try await RawPeer.connect(port: port)
                peer.send("GET /live HTTP/1.1\r\nHost: localhost\r\n\r\n")
                try await expect(peer.head().hasPrefix("HTTP/1.1 200"))
                peers.append(peer)
            }
            let further = try await RawPeer.exchange(request, port: port)
            expect(further.hasPrefix("HTTP/1.1 200"))
            try await peers[0].closed()
            expect(peers.dropFirst().allSatisfy { !$0.isClosed })
            for peer in peers.dropFirst() { try await peer.close() }
        }
        expect(lines.texts.contains { $0.contains("admin_refused") && $0.contains("connections") })
    }

    @Test("Rule 70: a request larger than 32 KiB ends its connection, however its length is announced")
    func requestSize() async throws {
        try await RunningAdminServer.run { address in
            let port = try require(URL(string: address)?.port)
            for (head, piece) in [("Content-Length: 10000000", "x"), ("Transfer-Encoding: chunked", "1\r\nx\r\n")] {
                let request = "POST /live HTTP/1.1\r\nHost: localhost\r\n\(head)\r\n\r\n"
                // The exchange ends only when the listener closes the connection.
                let received = try await RawPeer.exchange(
                    Array((request + String(repeating: piece, count: 100_000)).utf8), port: port)
                expect(!received.contains("HTTP/1.1 200"))
            }
        }
    }

    @Test("Rule 70: a head above 16 KiB gets no page")
    func headSize() async throws {
        try await RunningAdminServer.run { address in
            let port = try require(URL(string: address)?.port)
            let fields = String(repeating: "X-A: \(String(repeating: "a", count: 1_000))\r\n", count: 17)
            let received = try await RawPeer.exchange(
                Array("GET /live HTTP/1.1\r\nHost: localhost\r\n\(fields)\r\n".utf8), port: port)
            expect(!received.contains("HTTP/1.1 200"))
        }
    }
}

@Suite("Limits of a request to the admin listener")
struct AdminRequestLimitsTests {
    @Test(
        "Rule 77: at most 32 KiB of requests are kept, in all splits",
        arguments: [
            ("GET /live HTTP/1.1\r\n", "X-A: \(String(repeating: "a", count: 300))\r\n"),
            ("POST /live HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n", "X-A: a\r\n"),
            ("", EmbeddedConnection.request),
        ])
    func storage(start: String, unit: String) throws {
        // The capacity of a buffer is a power of two.
        try StorageProperty.check(PeerStream(start: start, unit), bound: 2 * AdminConnection.requestSize) {
            let made = try EmbeddedConnection()
            return { read in
                guard made.channel.isActive else { return nil }
                made.channel.pipeline.fireChannelRead(read)
                return made.connection.inputStorage
            }
        }
    }

    /// Whether the connection is open until the given time has passed, and then ends.
    private func ends(_ made: EmbeddedConnection, after time: TimeAmount) -> Bool {
        made.advance(time - .milliseconds(1))
        guard made.isOpen else { return false }
        made.advance(.milliseconds(1))
        return !made.isOpen
    }

    @Test(
        "Rule 70: a connection ends 5 s after its begin or 30 s after a head, 90 s after a response or 30 s if it is unread",
        arguments: [(false, nil, 5), (true, nil, 30), (true, true, 90), (true, false, 30)] as [(Bool, Bool?, Int64)])
    func idle(hasRequest: Bool, isTaken: Bool?, seconds: Int64) throws {
        let made = try EmbeddedConnection()
        if hasRequest { try made.receive() }
        if let isTaken { made.respond(isTaken: isTaken) }
        expect(ends(made, after: .seconds(seconds)))
    }

    @Test("Rule 70: a request body that is not complete within 30 s of the head ends the connection")
    func lateBody() throws {
        let made = try EmbeddedConnection()
        try made.receive("POST /live HTTP/1.1\r\nContent-Length: 100\r\n\r\n")
        for _ in 0..<29 {
            made.advance(.seconds(1))
            try made.receive("x")
        }
        expect(ends(made, after: .seconds(1)))
        expect(empty: made.served.requests)
    }

    @Test("Rule 70: a request head that arrives byte by byte ends 5 s after its first byte, also a later one")
    func slow() throws {
        let made = try EmbeddedConnection()
        try made.receive()
        made.respond()
        made.advance(.seconds(60))
        expect(made.isOpen)
        for byte in ["\r", "\n", "G", "E"] {
            try made.receive(byte)
            made.advance(.seconds(1))
        }
        expect(ends(made, after: .seconds(1)))
    }

    @Test("Rule 70: a request above 32 KiB ends its connection; requests of one connection are counted apart")
    func size() throws {
        func request(_ size: Int) -> String {
            let head = "POST /live HTTP/1.1\r\nHost: localhost\r\nContent-Length: 00000\r\n\r\n"
            let count = size - head.utf8.count
            return head.replacing("00000", with: "\(count)") + String(repeating: "a", count: count)
        }
        let made = try EmbeddedConnection()
        for _ in 0..<3 {
            try made.receive(request(AdminConnection.requestSize))
            made.respond()
        }
        expect(made.isOpen)
        try made.receive(request(AdminConnection.requestSize + 1))
        expect(!made.isOpen)
        expect(made.served.requests.count, equals: 3)
    }

    @Test("Rule 70: beyond 16 pages at the same time further ones are rejected, and an ended page makes room")
    func pages() async {
        let limit = AdminPageLimit()
        let gate = Gate()
        await withTaskGroup(of: Void.self) { tasks in
            for _ in 0..<AdminPageLimit.pages {
                tasks.addTask {
                    let response = await limit.run {
                        await gate.passed()
                        return AdminResponse.problem(.notFound, "")
                    }
                    expect(response != nil)
                }
            }
            for _ in 0..<AdminPageLimit.pages { await gate.waitForArrival() }
            let further = await limit.run { AdminResponse.problem(.notFound, "") }
            expect(further == nil)
            gate.open()
        }
        let later = await limit.run { AdminResponse.problem(.notFound, "") }
        expect(later != nil)
    }
}
