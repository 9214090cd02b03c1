import Logging
import NIOCore
import TestSupport
import Testing

@testable import CloakroomCore
@testable import CloakroomProxy

@Suite("Targets shared by requests and identity calls", .serialized)
struct UpstreamTargetsTests {
    private struct Rejected: Error {}

    private func targets(_ count: Int) throws -> UpstreamTargets {
        let configuration = UpstreamConfiguration(name: "api", targets: (1...count).map { .http("127.0.0.1", $0) })
        return try UpstreamTargets(configuration, logger: RecordedLog().logger)
    }

    private func pick(_ targets: UpstreamTargets, now: UInt64) -> [Int] {
        var turn: UInt32 = 0
        return (0..<20).compactMap { number in
            guard
                case .target(let choice) = TargetPicker.pick(
                    targets.board.table, random: UInt64(number) &* 0x9e37_79b9_7f4a_7c15, turn: &turn, now: now)
            else { return nil }
            return targets.targets.targets[choice.first].index
        }
    }

    @Test("A failure reported by an identity call also applies to requests, in the circuit and in the log")
    func identityFailure() throws {
        let log = RecordedLog()
        let configuration = UpstreamConfiguration(name: "api", targets: [.http("127.0.0.1", 1), .http("127.0.0.1", 2)])
        let targets = try UpstreamTargets(configuration, logger: log.logger)
        let now = NIODeadline.now().uptimeNanoseconds
        let state = targets.started(0, now: now)
        targets.record(0, .timedOut, Rejected(), now: now)
        targets.ended(0, state, .connectFailed, startedAt: now, now: now)
        expect(Set(pick(targets, now: now)), equals: [1])
        let failed = try require(targets.targets.target(configured: 0))
        expect(failed.status(now: now).circuit, equals: .open)
        expect(failed.failures.last?.reason, equals: "the connection attempt timed out")
        expect(failed.state.inFlight, equals: 0)
        expect(log.lines("message", "upstream connection failed").count, equals: 1)
        expect(targets.targets.target(configured: 1)?.status(now: now).circuit, equals: .closed)
        targets.connected(0, now: now)
        expect(failed.status(now: now).circuit, equals: .closed)
    }

    @Test("A failure found by a request also applies to identity calls until its back-off ends")
    func requestFailure() throws {
        let targets = try self.targets(2)
        let second: UInt64 = 1_000_000_000
        let first = try require(targets.targets.target(configured: 0))
        targets.board.connectFailed(first.state, startedAt: second, now: second, random: 0)
        expect(targets.order(now: second).first, equals: 1)
        expect(targets.order(now: 2 * second - 1_000_000).first, equals: 1)
        expect(Set(targets.order(now: second)), equals: [0, 1])
    }

    @Test("A reload that changes nothing keeps the targets; one that adds a target keeps the states of the others")
    func reload() throws {
        let logger = RecordedLog().logger
        let configuration = try GatewaySetup().makeConfig().configuration
        let first = try UpstreamTargets.make(configuration, keeping: [], logger: logger)
        try expect(UpstreamTargets.make(configuration, keeping: first, logger: logger)[0] === first[0])
        var other = configuration
        other.upstreams[0].targets.append(.http("127.0.0.1", 2))
        let second = try UpstreamTargets.make(other, keeping: first, logger: logger)
        expect(second[0] !== first[0])
        expect(second[0].targets.target(configured: 0)?.state === first[0].targets.target(configured: 0)?.state)
        expect(second[0].targets.targets.count, equals: 2)
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
                    // The first event loop that selects the target that does not respond spends half of the timeout on it.
                    var longest = Duration.zero
                    for _ in 0..<64 where longest < .seconds(3) {
                        let start = ContinuousClock.now
                        try await expect(gateway.client().exchange(Ask.get()).text, equals: "ok")
                        longest = max(longest, ContinuousClock.now - start)
                    }
                    #expect(longest > .seconds(3))
                    let others = ContinuousClock.now
                    // Within the back-off of 1 s, or slightly later: connections are spread over the loops.
                    for _ in 0..<12 { try await expect(gateway.client().exchange(Ask.get()).text, equals: "ok") }
                    #expect(ContinuousClock.now - others < .seconds(7))
                }
        }
    }
}
