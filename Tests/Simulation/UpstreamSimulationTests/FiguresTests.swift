import Foundation
import TestSupport
import Testing
import UpstreamSimulation

/// The figures of the documentation's pictures: `Benchmarks/plot.sh --upstreams` draws them.
@Suite("Figures of the simulation of upstreams", .timeLimit(.minutes(3)))
struct FiguresTests {
    /// Where the figures are written to; without it, the runs are shorter.
    private let directory = ProcessInfo.processInfo.environment["CLOAKROOM_SIMULATION_FIGURES"].map {
        URL(filePath: $0)
    }

    /// The values of a line: a name or numbers.
    private func rows(_ text: String) -> [[Substring]] {
        text.split(separator: "\n").dropFirst().map { $0.split(separator: ",") }
    }

    private func mean(_ values: [Double]) -> Double {
        values.isEmpty ? .nan : values.reduce(0, +) / Double(values.count)
    }

    @Test("The slow target gets few requests by latency, its share in turn, and only then requests take seconds")
    func latency() throws {
        let seconds = directory == nil ? 10 : 45
        let text = Figures.latency(seconds: seconds, seed: 1)
        let rows = rows(text)
        expect(rows.count, equals: 3 * seconds)
        func values(_ policy: String, column: Int, _ range: Range<Int>) -> [Double] {
            rows.filter { $0[0] == policy && Int($0[1]).map(range.contains) == true }.compactMap { Double($0[column]) }
        }
        // It becomes slow at 5 s.
        for policy in ["latency", "requests", "roundRobin"] {
            expect((0.05...0.15).contains(mean(values(policy, column: 4, 0..<5))), "\(policy)")
        }
        #expect(mean(values("latency", column: 4, 6..<10)) < 0.01)
        #expect(mean(values("requests", column: 4, 6..<10)) < 0.03)
        #expect(mean(values("roundRobin", column: 4, 6..<10)) > 0.08)
        expect(values("latency", column: 3, 6..<10).allSatisfy { $0 < 100 })
        expect(values("roundRobin", column: 3, 6..<10).contains { $0 > 5_000 })
        try directory.map { try text.write(to: $0.appending(path: "latency.csv"), atomically: true, encoding: .utf8) }
    }

    @Test("Shares are those of the weights, until the heavy target is slow")
    func shares() throws {
        let seconds = directory == nil ? 10 : 30
        let text = Figures.shares(seconds: seconds, seed: 1)
        let rows = rows(text)
        expect(rows.count, equals: 5 * seconds)
        func share(of target: Int, _ range: Range<Int>) -> Double {
            mean(
                rows.filter { Int($0[1]) == target && Int($0[0]).map(range.contains) == true }
                    .compactMap { Double($0[2]) })
        }
        let half = seconds / 2
        expect((0.45...0.55).contains(share(of: 0, 0..<half)))
        #expect(share(of: 0, half + 1..<seconds) < 0.2)
        for target in 1...4 {
            expect((0.08...0.17).contains(share(of: target, 0..<half)), "\(target)")
            #expect(share(of: target, half + 1..<seconds) > 0.14, "\(target)")
        }
        try directory.map { try text.write(to: $0.appending(path: "shares.csv"), atomically: true, encoding: .utf8) }
    }
}
