import Glibc

/// Inputs that are made to be expensive, and what reading them may cost: time per byte does not grow with the length, and
/// stays below a limit.
///
/// Time is that of the thread on its processor, so other work on the machine hardly changes it, and of several runs the
/// shortest counts.
public struct LinearTime: Sendable {
    /// Inputs of one kind, of any length.
    public struct Family: Sendable, CustomStringConvertible {
        /// What they are full of.
        public let name: String
        fileprivate let make: @Sendable (Int) -> [UInt8]

        /// The given text again and again between a beginning and an end.
        package static func repeated(_ name: String, _ text: String, prefix: String = "", suffix: String = "") -> Family
        {
            Family(name: name) { count in
                let fixed = prefix.utf8.count + suffix.utf8.count
                let copies = max(1, (count - fixed) / max(1, text.utf8.count))
                return Array(prefix.utf8) + Array(repeatElement(Array(text.utf8), count: copies).joined())
                    + Array(suffix.utf8)
            }
        }

        /// Elements that differ by their number, with something between them.
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

        /// An input that depends on the length in a way of its own.
        package static func made(_ name: String, _ make: @escaping @Sendable (Int) -> [UInt8]) -> Family {
            Family(name: name, make: make)
        }

        /// The name.
        public var description: String { name }
    }

    /// The length of the shortest inputs, in bytes; the others are four and sixteen times as long.
    let shortest: Int
    /// What a byte may cost in a debug build, in nanoseconds. Release builds are many times faster.
    let nanosecondsPerByte: Double
    /// The kinds of input.
    public let families: [Family]
    private let read: @Sendable ([UInt8]) -> Void

    /// How much more a byte of the longest input may cost than one of the shortest. Sixteen times as long, it would cost
    /// sixteen times as much if time grew with the square of the length.
    private static let growth = 4.0
    /// Runs that are shorter say nothing about growth, in nanoseconds.
    private static let shortestMeasured = 200_000.0
    /// Whatever one run costs besides what its bytes cost, in nanoseconds.
    private static let allowance = 2_000_000.0
    private static let runs = 5
    /// One run of this length is enough if it is not too long, in nanoseconds.
    private static let longMeasured = 20_000_000.0
    /// No input is tried again after this, in nanoseconds.
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

    /// Reads inputs of one kind.
    /// - Returns: What a byte of the longest input costs, in nanoseconds.
    /// - Throws: ``Violation`` if time grows faster than the length, or a byte costs too much.
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
                "\(family): \(input.count) bytes take \(Int(time / 1_000)) µs, which is \(Int(last)) ns for each")
            try require(
                time <= growthLimit,
                "\(family): a byte costs \(Int(last)) ns among \(input.count), and \(Int(first ?? 0)) ns among fewer")
            // What is too short to be measured counts as much as could have been.
            if first == nil { first = max(time, Self.shortestMeasured / 16) / count }
        }
        return last
    }

    /// The shortest of several runs; fewer if they are long, and more only where none was short enough.
    private func fastest(_ input: [UInt8], enough: Double) -> Double {
        var best = Double.infinity
        var total = 0.0
        for run in 1...Self.runs {
            let start = Self.threadTime()
            read(input)
            let time = Self.threadTime() - start
            best = min(best, time)
            total += time
            if best <= enough, run >= 3 || total >= Self.longMeasured { break }
            if total >= Self.longestMeasured { break }
        }
        return best
    }

    /// How long this thread has run, in nanoseconds.
    private static func threadTime() -> Double {
        var time = timespec()
        guard clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time) == 0 else { return 0 }
        return Double(time.tv_sec) * 1e9 + Double(time.tv_nsec)
    }
}
