import Synchronization

/// A histogram of durations with two significant digits: the layout of HdrHistogram with 64 slots per power of two, from
/// 65 µs to 69 s. A slot is at most 1/64 as wide as its values, so its middle differs from them by less than 0.8 %.
///
/// Recording is one relaxed atomic addition and allocates nothing. HdrHistogram's Swift library has no concurrent
/// recording, and the loops would have to be stopped to read it.
final class LatencyHistogram: Sendable {
    /// Slots per power of two, and the number of powers.
    static let slotsPerOctave = 64
    static let octaves = 20
    /// Slot 0 holds shorter durations, the last one longer ones.
    static let slots = slotsPerOctave * octaves + 2
    /// The exponents of the lowest bound and of ``slotsPerOctave``: 2^16 ns, 2^6.
    private static let lowestExponent = 16
    private static let slotBits = 6
    /// The lowest and the highest bound, in seconds.
    static let lowest = Double(1 << lowestExponent) / 1e9
    static let highest = Double(1 << (lowestExponent + octaves)) / 1e9

    /// 5 KB. Each count wraps; differences of two readings are correct up to 4,294,967,295 values in between.
    private let counts = InlineArray<1_282, Atomic<UInt32>> { _ in Atomic<UInt32>(0) }

    /// Records a duration.
    func record(nanoseconds: UInt64) {
        counts[Self.slot(of: nanoseconds)].wrappingAdd(1, ordering: .relaxed)
    }

    /// The slot of a duration: its exponent and the six bits after its highest one.
    static func slot(of nanoseconds: UInt64) -> Int {
        let exponent = 63 - nanoseconds.leadingZeroBitCount
        guard exponent >= lowestExponent else { return 0 }
        guard exponent < lowestExponent + octaves else { return slots - 1 }
        let mantissa = Int(nanoseconds >> UInt64(exponent - slotBits)) & (slotsPerOctave - 1)
        return 1 + (exponent - lowestExponent) * slotsPerOctave + mantissa
    }

    /// The middle of a slot, in seconds; `nil` for the last one, whose values are unknown.
    static func middle(of slot: Int) -> Double? {
        guard slot > 0 else { return lowest / 2 }
        guard slot < slots - 1 else { return nil }
        let (octave, mantissa) = (slot - 1).quotientAndRemainder(dividingBy: slotsPerOctave)
        let start = Double(1 << (lowestExponent + octave))
        return start * (1 + (Double(mantissa) + 0.5) / Double(slotsPerOctave)) / 1e9
    }

    /// The current content.
    func reading() -> LatencyCounts {
        var first = 0
        while first < Self.slots, counts[first].load(ordering: .relaxed) == 0 { first += 1 }
        guard first < Self.slots else { return LatencyCounts() }
        var last = Self.slots - 1
        while last > first, counts[last].load(ordering: .relaxed) == 0 { last -= 1 }
        return LatencyCounts(first: first, counts: (first...last).map { counts[$0].load(ordering: .relaxed) })
    }
}

/// What a ``LatencyHistogram`` contained at one moment, or the difference of two moments.
public struct LatencyCounts: Sendable, Equatable {
    private var first = 0
    private var counts: [UInt32] = []

    /// No values.
    public init() {}

    init(first: Int, counts: [UInt32]) {
        self.first = first
        self.counts = counts
    }

    /// The number of values.
    public var count: UInt64 { counts.reduce(0) { $0 + UInt64($1) } }

    private subscript(slot: Int) -> UInt32 {
        counts.indices.contains(slot - first) ? counts[slot - first] : 0
    }

    /// Adds the values of another histogram.
    public mutating func add(_ other: LatencyCounts) {
        guard !other.counts.isEmpty else { return }
        guard !counts.isEmpty else {
            self = other
            return
        }
        let start = min(first, other.first)
        let end = max(first + counts.count, other.first + other.counts.count)
        counts = (start..<end).map { self[$0] &+ other[$0] }
        first = start
    }

    /// The values since an earlier reading of the same histogram.
    public func subtracting(_ earlier: LatencyCounts) -> LatencyCounts {
        LatencyCounts(first: first, counts: counts.indices.map { counts[$0] &- earlier[first + $0] })
    }

    /// The values in seconds in ascending order, with the errors of ``quantile(_:)``.
    /// - Returns: `nil` if there are no values, or as many as `limit`.
    public func samples(fewerThan limit: UInt64) -> [Double]? {
        guard (1..<max(limit, 1)).contains(count) else { return nil }
        return counts.indices.flatMap { index in
            Array(
                repeating: LatencyHistogram.middle(of: first + index) ?? LatencyHistogram.highest,
                count: Int(counts[index]))
        }
    }

    /// The percentile in seconds, with an error below 0.8 %.
    /// - Parameter quantile: 0...1; 0.95 is the 95th percentile.
    /// - Returns: `isLowerBound` if the value is only known to be larger, than 69 s; `nil` if there are no values.
    public func quantile(_ quantile: Double) -> (seconds: Double, isLowerBound: Bool)? {
        let total = count
        guard total > 0 else { return nil }
        let rank = max(1, (min(max(quantile, 0), 1) * Double(total)).rounded(.up))
        var running: UInt64 = 0
        for (offset, one) in counts.enumerated() where one > 0 {
            running += UInt64(one)
            guard Double(running) >= rank else { continue }
            guard let middle = LatencyHistogram.middle(of: first + offset) else { break }
            return (middle, false)
        }
        return (LatencyHistogram.highest, true)
    }
}

/// The latencies of the routes, for the status page. The first ``maxRoutes`` names have a histogram of their own, the
/// others share one: at most 33 histograms of 5 KB.
public final class RouteLatencies: Sendable {
    /// The maximum number of routes with a histogram of their own since the start of the process.
    public static let maxRoutes = 32

    private let routes = Mutex<[String: LatencyHistogram]>([:])
    private let others = LatencyHistogram()

    /// The histogram of a route. Takes a lock: call it once per route table and keep the histogram.
    func histogram(ofRoute name: String) -> LatencyHistogram {
        routes.withLock { routes in
            if let found = routes[name] { return found }
            guard routes.count < Self.maxRoutes else { return others }
            let made = LatencyHistogram()
            routes[name] = made
            return made
        }
    }

    /// The current content, by route, and that of all routes.
    public func reading() -> (routes: [String: LatencyCounts], all: LatencyCounts) {
        let routes = routes.withLock { $0 }.mapValues { $0.reading() }
        var all = others.reading()
        for one in routes.values { all.add(one) }
        return (routes.filter { $0.value.count > 0 }, all)
    }
}
