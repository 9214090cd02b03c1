import CloakroomCore
import CloakroomIdentity
import Synchronization
import TestSupport
import Testing

/// Records attempts and failures of identity calls.
private final class RecordedCalls: IdentityCallObserver {
    private let state = Mutex<(attempts: [IdentityCallAttempt], failures: [IdentityCallFailure])>(([], []))

    var attempts: [IdentityCallAttempt] { state.withLock { $0.attempts } }
    var failures: [IdentityCallFailure] { state.withLock { $0.failures } }

    func identityCallAttempted(_ attempt: IdentityCallAttempt) { state.withLock { $0.attempts.append(attempt) } }
    func identityCallFailed(_ failure: IdentityCallFailure) { state.withLock { $0.failures.append(failure) } }
}

@Suite("Failures of identity calls are reported", .timeLimit(.minutes(3)))
struct IdentityCallFailureTests {
    private let calls = RecordedCalls()
    private static let tokens = ScriptedServer.response("200 OK", #"{"accessToken":"canary-access-token"}"#)

    /// Signs in against a script.
    /// - Returns: The port of the upstream, and the time of the calls.
    @discardableResult
    private func signIn(
        _ script: [ScriptedServer.Act], timeout: Duration = .seconds(10),
        change: @Sendable (inout UpstreamConfiguration) -> Void = { _ in }
    ) async throws -> (port: Int, time: UInt64) {
        try await ScriptedServer.run(script) { port, _ in
            var configuration = Upstreams.configuration(port: port)
            change(&configuration)
            let time = IdentityCallTime()
            try await Upstreams.withClient(configuration, timeout: timeout, calls: calls) { client in
                await IdentityCallTime.$current.withValue(time) {
                    _ = try? await client.signIn(try Upstreams.credentials(), traceparent: nil, now: Upstreams.now)
                }
            }
            return (port, time.nanoseconds)
        }
    }

    @Test("A wrong signIn.accessToken: the key, the expected member, and the members that were there")
    func wrongAccessToken() async throws {
        let body = #"{"data":{"jwt":"canary-access-token","expires":1},"user":{"id":7}}"#
        let port = try await signIn([ScriptedServer.response("200 OK", body)]) {
            $0.signIn?.accessToken = "data.token"
        }.port
        let failure = try require(calls.failures.first)
        expect(calls.failures.count, equals: 1)
        expect(failure.call, equals: .signIn)
        expect(failure.source, equals: .upstream("api"))
        expect(failure.server, equals: "127.0.0.1:\(port)")
        expect(failure.status, equals: 200)
        #expect(failure.nanoseconds > 0)
        expect(
            failure.defect,
            equals: IdentityCallFailure.Defect(
                "member_missing", key: "signIn.accessToken", expected: "data.token",
                found: ["data.expires", "data.jwt"]))
        expect(!"\(failure)".contains("canary"))
    }

    @Test("A wrong user.path: the call, its path and the status")
    func wrongUserPath() async throws {
        try await signIn([Self.tokens, ScriptedServer.response("404 Not Found", "{}")]) {
            $0.user?.path = "/wrong?key=canary"
        }
        let failure = try require(calls.failures.first { $0.call == .user })
        expect(failure.method, equals: "GET")
        expect(failure.path, equals: "/wrong")
        expect(failure.status, equals: 404)
        expect(failure.defect, equals: IdentityCallFailure.Defect("not_found"))
    }

    @Test("A response that is no JSON, a 5xx, and a rejected client each have their reason")
    func reasons() async throws {
        for (response, reason) in [
            (ScriptedServer.response("200 OK", "<html>"), "not_json"),
            (ScriptedServer.response("503 Service Unavailable", ""), "unreachable"),
            (ScriptedServer.response("401 Unauthorized", #"{"error":"invalid_client"}"#), "invalid_client"),
        ] {
            try await signIn([response])
            expect(calls.failures.last?.defect.reason, equals: reason)
        }
    }

    @Test("A wrong password is no failure")
    func wrongPassword() async throws {
        try await signIn([ScriptedServer.response("401 Unauthorized", "{}")])
        expect(empty: calls.failures)
        expect(calls.attempts.map(\.status), equals: [401])
    }

    @Test("Without a response the line names the server")
    func withoutResponse() async throws {
        let port = try await signIn([.silence], timeout: .milliseconds(100)).port
        let failure = try require(calls.failures.first)
        expect(failure.defect, equals: IdentityCallFailure.Defect("timed_out"))
        expect(failure.server, equals: "127.0.0.1:\(port)")
        expect(failure.status, equals: nil)
        expect(calls.attempts.map(\.errorType), equals: ["upstream_timeout"])
    }

    @Test("Each attempt is reported, and the calls of a request are added up")
    func attempts() async throws {
        let result = try await signIn([Self.tokens, ScriptedServer.response("200 OK", #"{"id":"7"}"#)])
        expect(empty: calls.failures)
        expect(calls.attempts.map(\.call), equals: [.signIn, .user])
        expect(calls.attempts.map(\.method), equals: ["POST", "GET"])
        expect(calls.attempts.allSatisfy { $0.serverPort == result.port && $0.status == 200 && $0.nanoseconds > 0 })
        #expect(result.time >= calls.attempts.reduce(0) { $0 + $1.nanoseconds })
    }

    @Test("Names of members are sorted, bounded and escaped")
    func names() throws {
        func names(_ json: String, _ path: String) -> [String] {
            IdentityCallFailure.Defect.names(in: JSONValue(document: Array(json.utf8)), along: path)
        }
        expect(names(#"{"b":1,"a":{"c":{}}}"#, "a.c.d"), equals: [])
        expect(names(#"{"b":1,"a":{"c":1}}"#, "a.x"), equals: ["a.c"])
        expect(names(#"{"b":1,"a":2}"#, "x.y"), equals: ["a", "b"])
        expect(names(#"["a"]"#, "a"), equals: [])
        expect(names(#"{"a\n\"b":1,"é":2}"#, "x"), equals: ["?", "a??b"])
        let long = String(repeating: "t", count: 41)
        expect(names(#"{"\#(long)":1}"#, "x"), equals: ["(41 bytes)"])
        // Identifiers of sessions and users, where an API has maps of them.
        expect(names(#"{"550e8400-e29b-41d4-a716-446655440000":1}"#, "x"), equals: ["(36 bytes)"])
        expect(names(#"{"a":{"deadbeef12345678":1}}"#, "a.x"), equals: ["a.(16 bytes)"])
        expect(names(#"{"alice@example.com":1}"#, "x"), equals: ["(17 bytes)"])
        expect(names(#"{"@type":1,"oauth2":2,"k999":3}"#, "x"), equals: ["@type", "k999", "oauth2"])
        let many = "{" + (10..<40).map { #""k\#($0)":1"# }.joined(separator: ",") + "}"
        expect(names(many, "x").count, equals: IdentityCallFailure.Defect.maxNames + 1)
        expect(names(many, "x").last, equals: "(14 more)")
    }
}
