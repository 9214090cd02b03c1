import CloakroomCore
import Logging
import NIOCore
import TestSupport
import Testing

@testable import CloakroomProxy

@Suite("The targets that requests and identity calls share", .serialized)
struct UpstreamTargetsTests {
    private struct Rejected: Error {}

    private func targets(_ count: Int) throws -> UpstreamTargets {
        let configuration = UpstreamConfiguration(name: "api", targets: (1...count).map { .http("127.0.0.1", $0) })
        return try UpstreamTargets(configuration, logger: RecordedLog().logger)
    }

    @Test("A failure that an identity call reports is one to requests, in the circuit and in the log")
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

    @Test("A failure that a request finds is one to identity calls until its back-off ends")
    func requestFailure() throws {
        let targets = try self.targets(2)
        targets.failed(
            0, .unreachable, Rejected(), startedAt: 0, now: 0, time: Timestamp(seconds: 1), random: 0)
        #expect(targets.chooseTarget(isFollowUp: false, tried: [], now: 999_999_999) == 1)
        #expect(targets.chooseTarget(isFollowUp: true, tried: [], now: 999_999_999) == 1)
        #expect(targets.chooseTarget(isFollowUp: false, tried: [], now: 1_000_000_000) == 0)
    }

    @Test("What one event loop finds out spares the others: each skips a target that is down")
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
                    // On each loop: the first waits half of the time for the target that is deaf.
                    let first = ContinuousClock.now
                    #expect(try await gateway.client().exchange(Ask.get()).text == "ok")
                    #expect(ContinuousClock.now - first > .seconds(3))
                    let others = ContinuousClock.now
                    // Within the back-off of 1 s, or little later: connections are spread over the loops.
                    for _ in 0..<12 { #expect(try await gateway.client().exchange(Ask.get()).text == "ok") }
                    #expect(ContinuousClock.now - others < .seconds(7))
                }
        }
    }
}
