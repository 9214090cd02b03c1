import CloakroomCore
import CloakroomTelemetry

extension FuzzTarget {
    /// A collector's response to a batch of spans (`ExportTraceServiceResponse`, in protobuf).
    static let collectorResponses = FuzzTarget(
        "collector-answers",
        words: ["\u{a}\u{2}\u{8}\u{5}", "\u{a}", "\u{8}", "\u{12}\u{3}bad", "\u{9}", "\u{d}", "\u{b}", "\u{7f}"],
        times: [
            LinearTime([
                .repeated("varints with continuation bits", "\u{7f}"),
                .made("unterminated varints") { Array(repeating: 0xff, count: $0) },
                .repeated("empty messages", "\u{a}\u{0}"),
                .repeated("messages of another field", "\u{12}\u{2}\u{8}\u{5}"),
                .repeated("numbers", "\u{8}\u{1}"),
                .repeated("partial successes without a count", "\u{a}\u{4}\u{12}\u{2}no"),
                .made("one long message") { [0x12, 0xff, 0xff, 0x7f] + Array(repeating: 0x20, count: $0) },
            ]) { _ = TelemetryWire.rejectedSpans($0) }
        ]
    ) { bytes throws(Violation) in
        let count = TelemetryWire.rejectedSpans(bytes)
        try require(count == PlainProtobuf.rejectedSpans(bytes), "\(count) spans are reported as rejected")
        try require(count >= 0, "a negative number of spans")
    }

    /// The value of `Retry-After` (RFC 9110 §10.2.3).
    static let retryAfter = FuzzTarget(
        "retry-after",
        words: [
            "0", "120", "4294967296", "-1", "+1", "1.5", " ", "\t", "Sun, ", "06 ", "Nov ", "1994 ", "08:49:37", " GMT",
            "Sunday, 06-Nov-94 08:49:37 GMT", "31 Feb 2030", "0000", "9999", "٣", "5\u{301}",
        ],
        times: [
            LinearTime([
                .repeated("digits", "1"), .repeated("zeros", "0"), .repeated("blanks", " "),
                .repeated("blanks in a date", " ", prefix: "Sun, 06"),
                .repeated("colons", ":", prefix: "Sun, 06 Nov 1994 "),
                .repeated("digits in a date", "1", prefix: "Sun, 06 Nov 1994 ", suffix: " GMT"),
                .repeated("combining marks", "\u{301}", prefix: "1"), .repeated("flags", "\u{1f1e9}"),
            ]) { _ = TelemetryWire.retryAfter(String(decoding: $0, as: UTF8.self), now: WallTime(seconds: 0)) }
        ]
    ) { bytes throws(Violation) in
        let text = String(decoding: bytes, as: UTF8.self)
        let now = WallTime(seconds: 784_111_777)
        guard let pause = TelemetryWire.retryAfter(text, now: now) else {
            let digits = bytes.drop { $0 == 0x20 || $0 == 0x09 }
            try require(
                digits.isEmpty || !digits.allSatisfy { (0x30...0x39).contains($0) }, "a number of seconds is rejected")
            return
        }
        try require(pause >= .zero, "a negative delay")
        let trimmed = Array(text.drop { $0 == " " || $0 == "\t" }.utf8)
        if trimmed.allSatisfy({ (0x30...0x39).contains($0) }) {
            let seconds = UInt32(String(decoding: trimmed, as: UTF8.self)) ?? .max
            try require(pause == .seconds(seconds), "\(seconds) s are parsed as \(pause)")
        } else {
            try require(trimmed.suffix(4) == Array(" GMT".utf8), "neither a date nor a number")
        }
    }
}

/// A reference parser of a protobuf message.
private enum PlainProtobuf {
    static func rejectedSpans(_ bytes: [UInt8]) -> Int {
        for field in fields(bytes) where field.number == 1 {
            guard let message = field.bytes else { continue }
            for field in fields(message) where field.number == 1 {
                if let value = field.value { return Int64(bitPattern: value) < 0 ? 0 : Int(value) }
            }
        }
        return 0
    }

    private static func fields(_ bytes: [UInt8]) -> [(number: UInt64, value: UInt64?, bytes: [UInt8]?)] {
        var fields: [(number: UInt64, value: UInt64?, bytes: [UInt8]?)] = []
        var index = 0
        while let key = number(bytes, &index) {
            switch key % 8 {
            case 0:
                guard let value = number(bytes, &index) else { return fields }
                fields.append((key / 8, value, nil))
            case 1, 5:
                let count = key % 8 == 1 ? 8 : 4
                guard bytes.count - index >= count else { return fields }
                let value = bytes[index..<(index + count)].enumerated().reduce(UInt64(0)) {
                    $0 | UInt64($1.element) << UInt64(8 * $1.offset)
                }
                fields.append((key / 8, value, nil))
                index += count
            case 2:
                guard let count = number(bytes, &index), count <= UInt64(bytes.count - index) else { return fields }
                fields.append((key / 8, nil, Array(bytes[index..<(index + Int(count))])))
                index += Int(count)
            default: return fields
            }
        }
        return fields
    }

    /// A varint of at most ten bytes; bits beyond 64 are dropped.
    private static func number(_ bytes: [UInt8], _ index: inout Int) -> UInt64? {
        let run = bytes[index...].prefix { $0 >= 0x80 }
        guard run.count < 10, index + run.count < bytes.count else { return nil }
        let digits = bytes[index...(index + run.count)]
        index += digits.count
        return digits.reversed().reduce(UInt64(0)) { $0 << 7 | UInt64($1 & 0x7f) }
    }
}
