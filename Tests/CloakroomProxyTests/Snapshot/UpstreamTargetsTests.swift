import CloakroomCore
import Logging
import NIOCore
import TestSupport
import Testing

@testable import CloakroomProxy

@Suite("Targets shared by requests and identity calls", .serialized)
struct UpstreamTargetsTests {
    private struct Rejected: Error {}

    private func targets(_ count: Int) throws -> UpstreamTargets {
        let configuration = UpstreamConfiguration(name: "api", targets: (1...count).map { .http("127.0.0.1", $0) })
        return try UpstreamTargets(configuration, logger: RecordedLog().logger)
    }

    @Test("A failure reported by an identity call also applies to requests, in the circuit and in the log")
    func identityFailure() throws {
        let targets = try self.targets(2)
        let now = NIODeadline.now().uptimeNanoseconds
        targets.targetFailed(0, .timedOut, Rejected(), startedAt: now, now: now)
        #expect((0..<3).map { _ in targets.selectTarget(tried: [], now: now) } == [1, 1, 1])
        #expect(targets.entries[0].status(now: now).circuit == .open)
        #expect(targets.entries[0].circuit.lastFailure?.reason.hasPrefix("connectTimeout: ") == true)
        #expect(targets.entries[1].status(now: now).circuit == .closed)
        targets.targetReached(0)
        #expect(targets.entries[0].status(now: now).circuit == .closed)
        #expect(targets.selectTarget(tried: [], now: now) == 0)
    }

    @Test("A failure found by a request also applies to identity calls until its back-off ends")
    func requestFailure() throws {
        let targets = try self.targets(2)
        targets.failed(
            0, .unreachable, Rejected(), startedAt: 0, now: 0, time: Timestamp(seconds: 1), random: 0)
        #expect(targets.chooseTarget(isFollowUp: false, tried: [], now: 999_999_999) == 1)
        #expect(targets.chooseTarget(isFollowUp: true, tried: [], now: 999_999_999) == 1)
        #expect(targets.chooseTarget(isFollowUp: false, tried: [], now: 1_000_000_000) == 0)
    }

    @Test("A failure found by one event loop applies to the others: each skips a failed target")
    func loops() async throws {
        let deaf = try await BlackholePort(.isDeaf)
        defer { deaf.release() }
        try await ScriptedUpstream.run([[.request, .send(Reply.ok), .close]]) { port, _ in
            try await GatewaySetup()
                .configuration {
                    $0.eventLoops = 4
                    $0.upstreams[0].targets = [.http("127.0.0.1", deaf.port), .http("127.0.0.1", port)]
                    $0.timeouts.connect = .seconds(8)
                }
                .run { gateway async throws in
                    // On the first event loop: half of the timeout is spent on the target that does not respond.
                    let first = ContinuousClock.now
                    #expect(try await gateway.client().exchange(Ask.get()).text == "ok")
                    #expect(ContinuousClock.now - first > .seconds(3))
                    let others = ContinuousClock.now
                    // Within the back-off of 1 s, or slightly later: connections are spread over the loops.
                    for _ in 0..<12 { #expect(try await gateway.client().exchange(Ask.get()).text == "ok") }
                    #expect(ContinuousClock.now - others < .seconds(7))
                }
        }
    }
}
