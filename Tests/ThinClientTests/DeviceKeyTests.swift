import Foundation
import Synchronization
import TestSupport
import Testing
import ThinClient

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

@Suite("The client library with a key of the device")
struct DeviceKeyTests {
    private struct ScriptedKey: DeviceKey {
        let publicKey = Data([4] + (0..<64))
        func sign(_ message: Data) async throws -> Data { Data(repeating: UInt8(message.count % 251), count: 64) }
    }

    private struct User: Decodable {}

    private let transport = ScriptedTransport()
    private static let gateway = "https://app.example.com"
    private static let offer = [
        "Content-Type": "application/json",
        "Secure-Session-Registration": #"(ES256);path="/auth/device";challenge="C1""#,
    ]

    private static func challenge(_ text: String) -> [String: String] {
        ["Secure-Session-Challenge": "\"\(text)\";id=\"00ab\""]
    }

    private func client(_ other: (any Transport)? = nil) throws -> GatewayClient {
        GatewayClient(
            gateway: try require(URL(string: Self.gateway)), fields: ["X-CSRF": "1"], transport: other ?? transport,
            deviceKey: ScriptedKey())
    }

    /// The response to a registration or a refresh.
    private func proof(_ status: Int, seconds: Int, next: String) {
        let cookie = "__Host-cloakroom-bound=P; Path=/; Secure; HttpOnly; SameSite=Strict; Max-Age=\(seconds)"
        transport.respond(status, "{}", Self.challenge(next).merging(["Set-Cookie": cookie]) { $1 })
    }

    /// A client that is signed in, and whose session has been bound.
    private func signedIn(seconds: Int) async throws -> GatewayClient {
        let client = try client()
        transport.respond(
            200,
            """
            {"user":{},"session":{"createdAt":"2026-11-21T11:20:42Z","expiresAt":"2026-11-21T19:20:42Z",\
            "idleTimeoutSeconds":900}}
            """, Self.offer)
        proof(200, seconds: seconds, next: "C2")
        _ = try await client.signIn(name: "jo@example.com", password: "x", as: User.self)
        return client
    }

    /// The parts of a proof, the first two decoded.
    private func parts(of sent: ScriptedTransport.Sent) throws -> [String] {
        let field = try require(sent.fields["secure-session-response"])
        return field.split(separator: ".").enumerated().map { index, part in
            let padded = String(part).replacing("-", with: "+").replacing("_", with: "/")
            let data = Data(base64Encoded: padded + String(repeating: "=", count: (4 - padded.count % 4) % 4))
            return index == 2 ? "\(data?.count ?? 0)" : String(decoding: data ?? Data(), as: UTF8.self)
        }
    }

    private var paths: [String] {
        transport.sent.map { ($0.method ?? "") + ($0.url ?? "").dropFirst(Self.gateway.count) }
    }

    @Test("registers the key after a sign-in, with the challenge of its response")
    func registers() async throws {
        let client = try await signedIn(seconds: 600)
        transport.respond(200, "[]")
        _ = try await client.data("GET", "/videos")
        expect(paths, equals: ["POST/auth", "POST/auth/device", "GET/videos"])
        let sent = transport.sent[1]
        expect(sent.fields["x-csrf"] == "1" && sent.fields["sec-secure-session-id"] == nil && sent.body == nil)
        let x = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"
        let y = "ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8"
        try expect(
            parts(of: sent),
            equals: [
                #"{"typ":"dbsc+jwt","alg":"ES256","jwk":{"kty":"EC","crv":"P-256","x":"\#(x)","y":"\#(y)"}}"#,
                #"{"jti":"C1"}"#, "64",
            ])
        expect(transport.sent[2].fields["secure-session-response"], equals: nil)
    }

    @Test("refreshes the proof 60 seconds before its end, and not after it: then the gateway sends a challenge")
    func refreshes() async throws {
        for (seconds, isRefreshed) in [(600, false), (59, true), (0, false)] {
            let earlier = transport.sent.count
            let client = try await signedIn(seconds: seconds)
            if isRefreshed { proof(204, seconds: 600, next: "C3") }
            transport.respond(200, "[]")
            _ = try await client.data("GET", "/videos")
            let sent = Array(transport.sent.dropFirst(earlier + 2))
            expect(sent.count, equals: (isRefreshed ? 2 : 1), "\(seconds)")
            guard isRefreshed, let refresh = sent.first else { continue }
            expect(refresh.fields["sec-secure-session-id"], equals: "\"00ab\"")
            try expect(parts(of: refresh), equals: [#"{"typ":"dbsc+jwt","alg":"ES256"}"#, #"{"jti":"C2"}"#, "64"])
        }
    }

    @Test("proves after a 401 `unproven`, also as a new client, and sends the request once more")
    func unproven() async throws {
        let client = try client()
        let problem = #""code":"unauthorized","reason":"unproven""#
        transport.problem(401, problem, Self.challenge("C7"))
        proof(204, seconds: 600, next: "C8")
        transport.respond(201, "[]")
        _ = try await client.data("POST", "/videos", body: Data("v".utf8))
        expect(paths, equals: ["POST/videos", "POST/auth/device", "POST/videos"])
        try expect(parts(of: transport.sent[1])[1] == #"{"jti":"C7"}"# && transport.sent[2].body == "v")

        transport.problem(401, problem, Self.challenge("C9"))
        proof(204, seconds: 600, next: "C10")
        transport.problem(401, problem, Self.challenge("C11"))
        await #expect(throws: ClientError.self) { try await client.data("GET", "/videos") }
        expect(transport.sent.count, equals: 6)

        transport.problem(401, problem, Self.challenge("C12"))
        transport.respond(403, "", Self.challenge("C13"))
        await #expect(throws: ClientError.self) { try await client.data("GET", "/videos") }
        transport.problem(401, #""code":"unauthorized","reason":"revoked""#)
        await #expect(throws: ClientError.self) { try await client.data("GET", "/videos") }
        expect(transport.sent.count, equals: 9)
    }

    @Test(
        "registers with the next request if the gateway could not, and not if it rejected the key",
        arguments: [503, 403])
    func failures(status: Int) async throws {
        let client = try client()
        transport.respond(200, "", Self.offer)
        transport.respond(status)
        _ = try await client.data("POST", "/auth")
        if status == 503 { proof(200, seconds: 600, next: "C2") }
        for _ in 0..<2 {
            transport.respond(200)
            _ = try await client.data("GET", "/videos")
        }
        let device = "POST/auth/device"
        expect(paths, equals: ["POST/auth", device] + (status == 503 ? [device] : []) + ["GET/videos", "GET/videos"])
    }

    /// Rejects all requests until there is a proof.
    private final class UnprovenTransport: Transport {
        let proofs = Mutex((requested: 0, made: 0))

        func send(_ request: URLRequest) async throws -> (Data, HTTPURLResponse) {
            let url = try require(request.url)
            var (status, fields) = (200, ["Content-Type": "application/problem+json"])
            if url.path().hasSuffix("/device") {
                proofs.withLock { $0.requested += 1 }
                for _ in 0..<100 { await Task.yield() }
                proofs.withLock { $0.made += 1 }
                fields["Set-Cookie"] = "a=b; Max-Age=600"
            } else if proofs.withLock({ $0.made == 0 }) {
                status = 401
            }
            fields["Secure-Session-Challenge"] = #""C";id="00ab""#
            let body = #"{"code":"unauthorized","detail":"d","reason":"unproven"}"#
            let response = HTTPURLResponse(url: url, statusCode: status, httpVersion: nil, headerFields: fields)
            return (Data(body.utf8), try require(response))
        }
    }

    @Test("requests one proof for all requests that wait for it")
    func oneFlight() async throws {
        let transport = UnprovenTransport()
        let client = try client(transport)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<20 { group.addTask { _ = try await client.data("GET", "/videos") } }
            try await group.waitForAll()
        }
        let proofs = transport.proofs.withLock { [$0.requested, $0.made] }
        expect(proofs, equals: [1, 1])
    }
}
