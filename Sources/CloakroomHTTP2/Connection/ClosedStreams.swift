/// How the client's most recent streams ended, which decides what later frames on them mean (RFC 9113 §5.1).
///
/// Two bits for each of the last 1,024 streams; older ones count as forgotten.
struct ClosedStreams {
    enum End: UInt8 {
        /// Not closed, never used, or too long ago.
        case unknown
        /// The gateway has reset it: frames sent before the client noticed are ignored.
        case reset
        /// The client has ended it, or both sides have: it must send no more frames that carry a request.
        case ended
    }

    private static let count = 1_024
    private static let perWord = 32
    private var words = InlineArray<32, UInt64>(repeating: 0)
    /// Number of the newest stream: `(id - 1) / 2`.
    private var newest = -1

    private static func number(of id: UInt32) -> Int { Int(id >> 1) }

    /// A new stream is open; it replaces the oldest.
    mutating func open(_ id: UInt32) {
        let number = Self.number(of: id)
        // Ids that were skipped are never used.
        var next = max(newest + 1, number - Self.count + 1)
        while next <= number {
            set(next, .unknown)
            next += 1
        }
        newest = number
    }

    mutating func close(_ id: UInt32, _ end: End) {
        let number = Self.number(of: id)
        guard number <= newest, number > newest - Self.count else { return }
        set(number, end)
    }

    func end(of id: UInt32) -> End {
        let number = Self.number(of: id)
        guard number <= newest, number > newest - Self.count else { return .unknown }
        let position = number % Self.count
        let bits = words[position / Self.perWord] >> UInt64(position % Self.perWord * 2) & 3
        return End(rawValue: UInt8(truncatingIfNeeded: bits)) ?? .unknown
    }

    private mutating func set(_ number: Int, _ end: End) {
        let position = number % Self.count
        let shift = UInt64(position % Self.perWord * 2)
        words[position / Self.perWord] = words[position / Self.perWord] & ~(3 << shift) | UInt64(end.rawValue) << shift
    }
}
