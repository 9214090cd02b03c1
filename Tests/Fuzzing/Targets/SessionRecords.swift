@testable import CloakroomSessions

extension FuzzTarget {
    /// The contents of a session record after it was opened. Only the gateway writes them, but a defect of an earlier
    /// release must not stop this one.
    static let sessionRecords = FuzzTarget(
        "session-records",
        words: [
            "\0\0\0\0", "\0\0\0\u{1}", "\0\0\0\u{8}", "\0\0\0\u{8}\0\0\0\0\0\0\0\u{3}", "\0\0\0\u{2}\u{1}a",
            "\0\0\0\u{8}Bearer a", "\u{1}", "\u{7f}\u{7f}\u{7f}\u{7f}", "é",
        ],
        times: [
            LinearTime(
                [
                    .repeated("empty fields", "\0\0\0\0"), .repeated("fields of one byte", "\0\0\0\u{1}a"),
                    .repeated("times", "\0\0\0\u{8}aaaaaaaa"), .repeated("zeros", "\0"),
                    .made("one long field") { count in
                        (0..<4).map { UInt8(truncatingIfNeeded: (count - 4) >> (24 - 8 * $0)) }
                            + [UInt8](repeating: 0x61, count: max(0, count - 4))
                    },
                ]
            ) { _ = SessionParts($0) }
        ]
    ) { bytes throws(Violation) in
        for format in [SessionFormat.one, .two] {
            guard let parts = SessionParts(bytes, format) else { continue }
            try require(SessionParts(parts.bytes, format) == parts, "a session is another one after it was written")
        }
    }
}
