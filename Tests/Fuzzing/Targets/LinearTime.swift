import TestSupport

/// Limits for the parsing time of expensive inputs: the time per byte must not grow with the length, and has an upper
/// bound.
///
/// Measures the CPU time of the thread, so that other work on the machine has little effect, and uses the shortest of
/// several runs.
public struct LinearTime: Sendable {
    /// Inputs of one kind, of any length.
    public struct Family: Sendable, CustomStringConvertible {
        /// The repeated part of the inputs.
        public let name: String
        fileprivate let make: @Sendable (Int) -> [UInt8]

        /// Repeats a text between a prefix and a suffix.
        package static func repeated(_ name: String, _ text: String, prefix: String = "", suffix: String = "") -> Family
        {
            Family(name: name) { count in
                let fixed = prefix.utf8.count + suffix.utf8.count
                let copies = max(1, (count - fixed) / max(1, text.utf8.count))
                return Array(prefix.utf8) + Array(repeatElement(Array(text.utf8), count: copies).joined())
                    + Array(suffix.utf8)
            }
        }

        /// Numbered elements with a separator.
        package static func numbered(
            _ name: String, prefix: String = "", suffix: String = "", separator: String,
            _ element: @escaping @Sendable (Int) -> String
        ) -> Family {
            Family(name: name) { count in
                var bytes = Array(prefix.utf8)
                var number = 0
                while bytes.count < count - suffix.utf8.count {
                    if number > 0 { bytes += separator.utf8 }
                    bytes += element(number).utf8
                    number += 1
                }
                return bytes + Array(suffix.utf8)
            }
        }

        /// Inputs from a function of the length.
        package static func made(_ name: String, _ make: @escaping @Sendable (Int) -> [UInt8]) -> Family {
            Family(name: name, make: make)
        }

        /// The name.
        public var description: String { name }
    }

    /// The length of the shortest inputs, in bytes; the others are 4 and 16 times as long.
    let shortest: Int
    /// The limit per byte in a debug build, in nanoseconds. Release builds are many times faster.
    let nanosecondsPerByte: Double
    /// The kinds of input.
    public let families: [Family]
    private let read: @Sendable ([UInt8]) -> Void

    /// The limit for the time per byte of the longest input, relative to the shortest. With quadratic time the factor
    /// would be 16.
    private static let growth = 4.0
    /// Shorter runs are not used for the growth, in nanoseconds.
    private static let shortestMeasured = 200_000.0
    /// The fixed cost allowed for a run, in nanoseconds.
    private static let allowance = 2_000_000.0
    private static let runs = 5
    /// A single run of this length is enough if it is within the limit, in nanoseconds.
    private static let longMeasured = 20_000_000.0
    /// After this total time an input is not run again, in nanoseconds.
    private static let longestMeasured = 3_000_000_000.0

    package init(
        _ families: [Family], shortest: Int = 2_048, nanosecondsPerByte: Double = 10_000,
        read: @escaping @Sendable ([UInt8]) -> Void
    ) {
        self.families = families
        self.shortest = shortest
        self.nanosecondsPerByte = nanosecondsPerByte
        self.read = read
    }

    /// Measures the parsing time of inputs of one kind.
    /// - Returns: The time per byte of the longest input, in nanoseconds.
    /// - Throws: ``Violation`` if the time grows faster than the length, or the time per byte exceeds the limit.
    @discardableResult
    public func check(_ family: Family) throws(Violation) -> Double {
        var first: Double?
        var last = 0.0
        for size in [shortest, 4 * shortest, 16 * shortest] {
            let input = family.make(size)
            let count = Double(input.count)
            let limit = Self.allowance + nanosecondsPerByte * count
            let growthLimit = first.map { max(Self.growth * $0 * count, Self.shortestMeasured) } ?? limit
            let time = fastest(input, enough: min(limit, growthLimit))
            last = time / count
            try require(
                time <= limit,
                "\(family): \(input.count) bytes take \(Int(time / 1_000)) µs, which is \(Int(last)) ns per byte")
            try require(
                time <= growthLimit,
                "\(family): \(Int(last)) ns per byte with \(input.count) bytes, and \(Int(first ?? 0)) ns with fewer")
            // Runs that are too short to be measured count with the shortest measurable time.
            if first == nil { first = max(time, Self.shortestMeasured / 16) / count }
        }
        return last
    }

    /// The shortest of several runs; fewer if they are long, and more only if none was within the limit.
    private func fastest(_ input: [UInt8], enough: Double) -> Double {
        var best = Double.infinity
        var total = 0.0
        for run in 1...Self.runs {
            let start = threadTime()
            read(input)
            let time = threadTime() - start
            best = min(best, time)
            total += time
            if best <= enough, run >= 3 || total >= Self.longMeasured { break }
            if total >= Self.longestMeasured { break }
        }
        return best
    }
}
