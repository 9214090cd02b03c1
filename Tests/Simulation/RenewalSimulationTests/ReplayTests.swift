import RefreshSimulation
import Testing

@Suite("A seed", .timeLimit(.minutes(3)))
struct ReplayTests {
    @Test("replays exactly: the same trace, whether or not anybody looks")
    func sameTrace() {
        for seed in 0..<100 as Range<UInt64> {
            let first = Simulation.run(seed: seed, isTraced: true)
            let second = Simulation.run(seed: seed, isTraced: true)
            let unseen = Simulation.run(seed: seed)
            #expect(first.trace == second.trace)
            #expect(first.trace.count > 20)
            #expect(unseen.eventCount == first.eventCount)
        }
    }

    @Test("replays exactly in another process, where dictionaries have another order")
    func otherProcess() async throws {
        let other = try await #require(
            processExitsWith: .success, observing: [\.standardOutputContent]
        ) {
            print("digest \(Self.digest)")
        }
        let output = String(decoding: other.standardOutputContent, as: UTF8.self)
        #expect(output.contains("digest \(Self.digest)\n"))
    }

    /// FNV-1a over the traces of some seeds.
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
