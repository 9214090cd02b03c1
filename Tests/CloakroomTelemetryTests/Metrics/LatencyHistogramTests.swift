import TestSupport
import Testing

@testable import CloakroomTelemetry

@Suite("Histograms of latencies with two digits")
struct LatencyHistogramTests {
    @Test("The middle of a slot differs by less than 0.8 % from every value in it, from 65 µs to 69 s")
    func precision() throws {
        var nanoseconds: UInt64 = 65_536
        while nanoseconds < 68_719_476_736 {
            for value in [nanoseconds, nanoseconds + nanoseconds / 130] where value < 68_719_476_736 {
                let middle = try require(LatencyHistogram.middle(of: LatencyHistogram.slot(of: value)))
                let exact = Double(value) / 1e9
                #expect(abs(middle - exact) / exact < 0.008, "\(value)")
            }
            nanoseconds += nanoseconds / 97 + 1
        }
    }

    @Test("Slots ascend, and values outside of the range have a slot of their own")
    func slots() {
        expect(LatencyHistogram.slot(of: 0), equals: 0)
        expect(LatencyHistogram.slot(of: 65_535), equals: 0)
        expect(LatencyHistogram.slot(of: 65_536), equals: 1)
        expect(LatencyHistogram.slot(of: 68_719_476_735), equals: LatencyHistogram.slots - 2)
        expect(LatencyHistogram.slot(of: 68_719_476_736), equals: LatencyHistogram.slots - 1)
        expect(LatencyHistogram.slot(of: .max), equals: LatencyHistogram.slots - 1)
        expect(LatencyHistogram.middle(of: LatencyHistogram.slots - 1), equals: nil)
        let middles = (0..<LatencyHistogram.slots - 1).compactMap { LatencyHistogram.middle(of: $0) }
        expect(middles.count, equals: LatencyHistogram.slots - 1)
        expect(zip(middles, middles.dropFirst()).allSatisfy { $0 < $1 })
    }

    @Test("Percentiles are those of the recorded values")
    func percentiles() throws {
        let histogram = LatencyHistogram()
        expect(histogram.reading().quantile(0.5) == nil)
        for milliseconds in 1...1_000 { histogram.record(nanoseconds: UInt64(milliseconds) * 1_000_000) }
        let counts = histogram.reading()
        expect(counts.count, equals: 1_000)
        for (quantile, exact) in [(0.0, 0.001), (0.5, 0.5), (0.95, 0.95), (0.99, 0.99), (1, 1)] {
            let found = try require(counts.quantile(quantile))
            #expect(abs(found.seconds - exact) / exact < 0.01, "\(quantile)")
            expect(!found.isLowerBound)
        }
        histogram.record(nanoseconds: 100_000_000_000)
        let longest = try require(histogram.reading().quantile(1))
        expect(longest.isLowerBound && longest.seconds == LatencyHistogram.highest)
    }

    @Test("The difference of two readings has the values in between; sums have the values of both")
    func arithmetic() throws {
        let histogram = LatencyHistogram()
        for _ in 0..<10 { histogram.record(nanoseconds: 1_000_000) }
        let earlier = histogram.reading()
        histogram.record(nanoseconds: 200_000)
        for _ in 0..<2 { histogram.record(nanoseconds: 5_000_000_000) }
        let change = histogram.reading().subtracting(earlier)
        expect(change.count, equals: 3)
        #expect(try abs(require(change.quantile(0.01)).seconds - 0.0002) < 0.000_002)
        #expect(try abs(require(change.quantile(1)).seconds - 5) < 0.05)
        var sum = LatencyCounts()
        sum.add(earlier)
        sum.add(change)
        sum.add(LatencyCounts())
        expect(sum, equals: histogram.reading())
        expect(earlier.subtracting(earlier).quantile(0.5) == nil)
    }

    @Test("At most 32 routes have a histogram of their own; the others share one")
    func routes() {
        let latencies = RouteLatencies()
        for index in 0..<40 { latencies.histogram(ofRoute: "r\(index)").record(nanoseconds: 1_000_000) }
        latencies.histogram(ofRoute: "r39").record(nanoseconds: 1_000_000)
        let reading = latencies.reading()
        expect(reading.routes.count, equals: RouteLatencies.maxRoutes)
        expect(reading.routes["r0"]?.count, equals: 1)
        expect(reading.routes["r39"], equals: nil)
        expect(reading.all.count, equals: 41)
        expect(latencies.histogram(ofRoute: "r0") === latencies.histogram(ofRoute: "r0"))
    }
}
