import CloakroomCore

@testable import CloakroomSessions

extension FuzzTarget {
    /// What servers of a cluster send: replies to `CLUSTER SLOTS`, and redirections.
    static let clusterReplies = FuzzTarget(
        "cluster-replies",
        words: [
            "*1\r\n", "*3\r\n", "*4\r\n", ":0\r\n", ":16383\r\n", ":16384\r\n", ":-1\r\n", ":6379\r\n", "$0\r\n\r\n",
            "$1\r\n?\r\n", "_\r\n", "$9\r\n127.0.0.1\r\n", "$3\r\n::1\r\n", "$8\r\nhostname\r\n",
            "$2\r\nip\r\n", "%1\r\n", "%0\r\n",
            "MOVED ", "ASK ", "16383 ", ":65535", "[::1]", " ", ":", "?",
        ],
        times: [
            LinearTime(
                [
                    .repeated("rows of one slot", "*3\r\n:0\r\n:0\r\n*2\r\n$1\r\na\r\n:1\r\n", prefix: "*9999\r\n"),
                    .repeated(
                        "rows of all slots", "*3\r\n:0\r\n:16383\r\n*2\r\n$1\r\na\r\n:1\r\n", prefix: "*9999\r\n"),
                    .repeated("replicas", "*2\r\n$1\r\na\r\n:1\r\n", prefix: "*1\r\n*99999\r\n:0\r\n:1\r\n"),
                    .numbered("servers", prefix: "*999\r\n", separator: "") {
                        "*3\r\n:\($0)\r\n:\($0)\r\n*2\r\n$4\r\n\($0 % 9_000 + 1_000)\r\n:1\r\n"
                    },
                    .repeated("one long host", "a", prefix: "MOVED 1 ", suffix: ":1"),
                    .repeated("colons", ":", prefix: "ASK 1 "), .repeated("words", "1 ", prefix: "MOVED "),
                ], shortest: 1_024, nanosecondsPerByte: 50_000
            ) { bytes in
                _ = ClusterTexts.slots(bytes)
                _ = ClusterRedirection(line: String(decoding: bytes, as: UTF8.self))
            }
        ]
    ) { bytes throws(Violation) in
        if let slots = ClusterTexts.slots(bytes) {
            let owned = slots.owners.count { $0 != ClusterSlots.none }
            try require((0...16_384).contains(owned), "\(owned) slots")
            try require(slots.primaries.count <= owned, "a primary without slots")
            try require(slots.primaries.count <= 1_000 && slots.replicas.count <= 1_000, "too many servers")
        }
        if let other = ClusterRedirection(line: String(decoding: bytes, as: UTF8.self)) {
            try require((0..<16_384).contains(other.slot), "slot \(other.slot)")
            try require((1...65_535).contains(other.port), "port \(other.port)")
            // Empty for the host that sent the redirection.
            let host = other.address(from: HostAndPort(host: "", port: 1))?.host ?? "?"
            let isHost = host.utf8.count <= 253 && !host.utf8.contains { $0 <= 0x20 || $0 == 0x2f || $0 >= 0x7f }
            try require(isHost, "host \(host)")
        }
    }
}

private enum ClusterTexts {
    static func slots(_ bytes: [UInt8]) -> ClusterSlots? {
        RESPTexts.first(bytes).flatMap { try? ClusterSlots($0, asked: "asked.test") }
    }
}
