import CloakroomCore
import CloakroomIdentity
import TestSupport
import Testing

@Suite("Identity requests and the targets shared with forwarded requests", .timeLimit(.minutes(3)))
struct SharedTargetsTests {
    private static let tokens = ScriptedServer.response(
        "200 OK", #"{"accessToken":"access","refreshToken":"refresh"}"#)
    private static let user = ScriptedServer.response("200 OK", "{}")
    private static let held = TokenSet(
        authorization: Secret("Bearer access"), refreshToken: Secret("refresh"), obtainedAt: Upstreams.now)

    @Test("A rejected connection and the end of each call are reported; the user call follows its sign-in")
    func reports() async throws {
        let rejecting = try await ScriptedServer.rejectingPort()
        try await ScriptedServer.run([Self.tokens, Self.user]) { port, _ in
            let targets = RecordedTargets(2)
            let configuration = Upstreams.configuration(port: rejecting, others: [port])
            _ = try await Upstreams.withClient(configuration, targets: targets) { client in
                _ = try await client.signIn(try Upstreams.credentials(), traceparent: nil, now: Upstreams.now)
            }
            expect(
                targets.reports,
                equals: [
                    .connectFailed(0, .unreachable), .connected(1), .ended(1, .succeeded), .ended(1, .succeeded),
                ])
            expect(targets.isBalanced)
        }
    }

    @Test("A target that does not respond uses the connect timeout, is reported, and leaves half of the time")
    func blackHole() async throws {
        let deaf = try await BlackholePort(.isDeaf)
        defer { deaf.release() }
        try await ScriptedServer.run([Self.tokens]) { port, upstream in
            for (connect, identity) in [
                (Duration.seconds(3), Duration.seconds(30)), (.seconds(30), .seconds(6)),
            ] {
                let targets = RecordedTargets(2)
                let configuration = Upstreams.configuration(port: deaf.port, others: [port])
                _ = try await Upstreams.withClient(
                    configuration, timeout: identity, connectTimeout: connect, targets: targets
                ) { client in
                    _ = try await client.refresh(Self.held, traceparent: nil, now: Upstreams.now)
                }
                expect(
                    targets.reports, equals: [.connectFailed(0, .timedOut), .connected(1), .ended(1, .succeeded)])
                expect(targets.isBalanced)
            }
            expect(upstream.requests.count, equals: 2)
        }
    }

    @Test("A call that times out before its connection attempt reports the target too")
    func callEndsFirst() async throws {
        let deaf = try await BlackholePort(.isDeaf)
        defer { deaf.release() }
        let targets = RecordedTargets(1)
        _ = try await Upstreams.withClient(
            Upstreams.configuration(port: deaf.port), timeout: .seconds(30), connectTimeout: .seconds(4),
            targets: targets
        ) { client in
            // The call takes at most 2 s. The client ends with the connection attempt.
            await #expect(throws: TokenClientError(.timedOut, in: .revoke, isUnjudged: true)) {
                try await client.revoke(Self.held, traceparent: nil)
            }
        }
        expect(targets.reports, equals: [.connectFailed(0, .timedOut)])
        expect(targets.isBalanced)
    }

    @Test("A connected target that does not respond is reported as failed, not as unreachable")
    func slow() async throws {
        let targets = RecordedTargets(1)
        _ = try await Upstreams.withScript([.silence], timeout: .seconds(3), targets: targets) { client, _ in
            await #expect(throws: TokenClientError(.timedOut, in: .refresh)) {
                try await client.refresh(Self.held, traceparent: nil, now: Upstreams.now)
            }
        }
        expect(targets.reports, equals: [.connected(0), .ended(0, .failed)])
        expect(targets.isBalanced)
    }

    @Test(
        "The statuses 502 to 504 are reported as failures of the target, others are not",
        arguments: [401, 500, 502, 503, 504])
    func statuses(_ status: Int) async throws {
        let targets = RecordedTargets(1)
        let act = ScriptedServer.response("\(status) Status", "{}")
        _ = try await Upstreams.withScript([act], targets: targets) { client, _ in
            await #expect(throws: TokenClientError.self) {
                try await client.refresh(Self.held, traceparent: nil, now: Upstreams.now)
            }
        }
        let outcome: TargetOutcome = [502, 503, 504].contains(status) ? .failed : .succeeded
        expect(targets.reports, equals: [.connected(0), .ended(0, outcome)])
    }

    @Test(
        "A refresh whose connection was lost after it was sent is sent to no target again",
        arguments: [ScriptedServer.Act.close, .reset])
    func notSentTwice(act: ScriptedServer.Act) async throws {
        try await ScriptedServer.run([Self.tokens]) { port, other in
            try await Upstreams.withScript(
                [act, Self.tokens],
                change: {
                    $0.targets.append(UpstreamTargetConfiguration(HostAndPort(host: "127.0.0.1", port: port)))
                }
            ) { client, first in
                await #expect(throws: TokenClientError(.unreachable, in: .refresh)) {
                    try await client.refresh(Self.held, traceparent: nil, now: Upstreams.now)
                }
                expect(first.requests.count, equals: 1)
                expect(empty: other.requests)
            }
        }
    }
}
