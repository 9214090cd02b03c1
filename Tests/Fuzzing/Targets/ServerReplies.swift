import CloakroomSessions

extension FuzzTarget {
    /// What a Valkey or Redis server sends (RESP3).
    static let serverReplies = FuzzTarget(
        "server-replies",
        words: [
            "+OK\r\n", "-ERR no\r\n", ":1\r\n", "$5\r\nhello\r\n", "$-1\r\n", "*2\r\n", "*-1\r\n", "%1\r\n", "~1\r\n",
            ">2\r\n",
            "|1\r\n", "_\r\n", "#t\r\n", ",1.5\r\n", "(123\r\n", "!5\r\nERROR\r\n", "=8\r\ntxt:text\r\n", "\r\n", "\r",
            "$10\r\ninvalidate\r\n", "9223372036854775807", "-1", "?", ";0\r\n", ".\r\n",
        ]
    ) { bytes throws(Violation) in
        let whole = ValkeyWire.read([bytes])
        for cuts in [Pieces.single(in: bytes), Pieces.random(in: bytes)] {
            var start = 0
            let pieces = cuts.map { end in
                defer { start = end }
                return Array(bytes[start..<end])
            }
            try require(ValkeyWire.read(pieces) == whole, "read differently when cut at \(cuts.prefix(16))")
        }
        guard let whole else { return }
        try require(whole <= bytes.count, "more values than bytes")
    }
}
