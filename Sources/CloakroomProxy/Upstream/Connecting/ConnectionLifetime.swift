import CloakroomWire
import NIOCore

/// The maximum lifetime of an upstream connection.
struct ConnectionLifetime {
    private let until: UInt64
    /// The keep-alive timeout announced by the upstream, in nanoseconds.
    private(set) var idleLimit = UInt64.max

    /// - Parameter until: Time after which the connection is not kept; `UInt64.max` means no limit.
    init(until: UInt64 = .max) {
        self.until = until
    }

    /// Whether the connection must not be reused.
    func isOver(now: UInt64) -> Bool {
        now >= until || idleLimit == 0
    }

    /// Reads `Keep-Alive: timeout=N`, N in seconds (RFC 2068 §19.7.1.1). One second is subtracted: a request sent while
    /// the upstream closes the connection would be lost.
    mutating func applyKeepAliveTimeout(of head: borrowing ResponseHead) {
        let bytes = head.bytes.readableBytesUInt8Span
        for field in head.fields where field.name == .keepAlive {
            let range = field.valueRange
            guard let seconds = Self.timeout(bytes.extracting(range.start..<range.end)) else { continue }
            idleLimit = UInt64(max(seconds - 1, 0)) * 1_000_000_000
        }
    }

    private static func timeout(_ value: Span<UInt8>) -> Int? {
        let name = "timeout="
        guard value.count > name.utf8.count else { return nil }
        for start in 0..<(value.count - name.utf8.count) {
            var index = start
            for byte in name.utf8 where index >= 0 {
                index = value[index] | 0x20 == byte | 0x20 ? index + 1 : -1
            }
            guard index > 0 else { continue }
            var seconds = 0
            var digits = 0
            while index < value.count, case 0x30...0x39 = value[index], digits < 6 {
                seconds = seconds * 10 + Int(value[index] - 0x30)
                digits += 1
                index += 1
            }
            return digits > 0 ? seconds : nil
        }
        return nil
    }
}
