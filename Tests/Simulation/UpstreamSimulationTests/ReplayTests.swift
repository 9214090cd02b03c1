import CloakroomCore
import TestSupport
import Testing
import UpstreamSimulation

@Suite("Replay of a simulation of upstreams", .timeLimit(.minutes(3)))
struct ReplayTests {
    /// A run with ejections, probes, retries, warm-up and a queue.
    private static var scenario: Scenario {
        var scenario = Goal.flappingTargetWithRetries.scenario
        scenario.rate = 200
        scenario.balance.slowStart = .seconds(5)
        scenario.incidents.append(Incident(5, .slow(20), 8..<20))
        return scenario
    }

    @Test("The same seed gives the same run, event by event; another seed gives another one")
    func sameRun() {
        let first = Simulation.run(Self.scenario, seed: 1)
        let second = Simulation.run(Self.scenario, seed: 1)
        #expect(first.eventCount > 10_000)
        expect(first.eventCount, equals: second.eventCount)
        expect(first.digest, equals: second.digest)
        expect(Simulation.run(Self.scenario, seed: 2).digest != first.digest)
    }

    @Test("The same seed gives the same run in another process, where sets have another order")
    func otherProcess() async throws {
        let other = try await #require(
            processExitsWith: .success, observing: [\.standardOutputContent]
        ) {
            print("digest \(Simulation.run(Self.scenario, seed: 1).digest)")
        }
        let output = String(decoding: other.standardOutputContent, as: UTF8.self)
        expect(output.contains("digest \(Simulation.run(Self.scenario, seed: 1).digest)\n"))
    }

    @Test(
        "A reload during an ejection, a back-off of retries and a slow start changes nothing",
        arguments: [6.1, 16.05, 27.5])
    func reload(_ second: Double) {
        let expected = Simulation.run(Self.scenario, seed: 1)
        var scenario = Self.scenario
        scenario.reloadAt = second
        let reloaded = Simulation.run(scenario, seed: 1)
        expect(reloaded.digest, equals: expected.digest)
        expect(reloaded.eventCount, equals: expected.eventCount)
        expect(Simulation.run(scenario, seed: 1, bug: .reloadForgets).digest != expected.digest)
    }
}
