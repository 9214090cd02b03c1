import RefreshSimulation
import TestSupport
import Testing

@Suite("Replay of a simulation seed", .timeLimit(.minutes(3)))
struct ReplayTests {
    @Test("The same seed gives the same run, with and without a trace")
    func sameTrace() {
        for seed in 0..<100 as Range<UInt64> {
            let first = Simulation.run(seed: seed, isTraced: true)
            let second = Simulation.run(seed: seed, isTraced: true)
            let unseen = Simulation.run(seed: seed)
            expect(first.trace, equals: second.trace)
            #expect(first.trace.count > 20)
            expect(unseen.eventCount, equals: first.eventCount)
        }
    }

    @Test("The same seed gives the same trace in another process, where dictionaries have another order")
    func otherProcess() async throws {
        let other = try await #require(
            processExitsWith: .success, observing: [\.standardOutputContent]
        ) {
            print("digest \(Self.digest)")
        }
        let output = String(decoding: other.standardOutputContent, as: UTF8.self)
        expect(output.contains("digest \(Self.digest)\n"))
    }

    /// The FNV-1a hash of the traces of seeds 0 to 19.
    private static var digest: UInt64 {
        var digest: UInt64 = 0xcbf2_9ce4_8422_2325
        for seed in 0..<20 as Range<UInt64> {
            for line in Simulation.run(seed: seed, isTraced: true).trace {
                for byte in line.utf8 { digest = (digest ^ UInt64(byte)) &* 0x0100_0000_01b3 }
            }
        }
        return digest
    }
}
