import TestSupport
import Testing

@testable import CloakroomAdmin

@Suite("Percentiles of a histogram")
struct HistogramQuantileTests {
    private let bounds = [0.1, 0.5, 1.0]

    @Test("An empty histogram has no percentiles")
    func empty() {
        expect(HistogramQuantile(0.5, bounds: bounds, cumulative: [0, 0, 0, 0]), equals: nil)
        expect(HistogramQuantile(0.5, bounds: [], cumulative: [3]), equals: nil)
        expect(HistogramQuantile(0.5, bounds: bounds, cumulative: [1, 2]), equals: nil)
    }

    @Test(
        "Values within a bucket are assumed to be distributed evenly",
        arguments: [(0.5, 0.1), (0.25, 0.05), (0.75, 0.3), (1, 0.5)])
    func interpolation(quantile: Double, expected: Double) throws {
        let found = try require(HistogramQuantile(quantile, bounds: bounds, cumulative: [10, 20, 20, 20]))
        expect(!found.isLowerBound)
        #expect(abs(found.seconds - expected) < 1e-9)
    }

    @Test(
        "A bucket without values is skipped, also by the lowest percentile, and one out of 0 to 1 is clamped",
        arguments: [
            (0, [0, 0, 4, 4], 0.5), (0.5, [0, 0, 4, 4], 0.75), (7, [10, 10, 10, 10], 0.1), (-1, [10, 10, 10, 10], 0),
        ] as [(Double, [UInt64], Double)])
    func edges(quantile: Double, cumulative: [UInt64], seconds: Double) {
        expect(HistogramQuantile(quantile, bounds: bounds, cumulative: cumulative), equals: .init(seconds: seconds))
    }

    @Test("Beyond the last bound only a lower bound is known")
    func beyond() {
        let last = HistogramQuantile(0.99, bounds: bounds, cumulative: [10, 10, 10, 20])
        expect(last, equals: .init(seconds: 1, isLowerBound: true))
        expect(HistogramQuantile(0.5, bounds: bounds, cumulative: [10, 10, 10, 20]), equals: .init(seconds: 0.1))
    }
}
