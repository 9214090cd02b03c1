import CloakroomCore
import NIOCore

@testable import CloakroomSessions

extension FuzzTarget {
    /// Replies of a Valkey or Redis server (RESP3), and what is chosen by one that lists sessions.
    static let serverReplies = FuzzTarget(
        "server-replies",
        words: [
            "+OK\r\n", "-ERR no\r\n", ":1\r\n", "$5\r\nhello\r\n", "$-1\r\n", "*2\r\n", "*-1\r\n", "%1\r\n", "~1\r\n",
            ">2\r\n",
            "|1\r\n", "_\r\n", "#t\r\n", ",1.5\r\n", "(123\r\n", "!5\r\nERROR\r\n", "=8\r\ntxt:text\r\n", "\r\n", "\r",
            "$10\r\ninvalidate\r\n", "9223372036854775807", "-1", "?", ";0\r\n", ".\r\n",
            "*33\r\n", ":9223372036854775807\r\n", ":4294967295\r\n", "$16\r\n00000000000000ff\r\n",
        ],
        times: [
            LinearTime(
                [
                    .repeated("nests", "*1\r\n"), .repeated("small nests", "*1\r\n*1\r\n:1\r\n"),
                    .repeated("numbers", ":1\r\n"),
                    .repeated("empty rows", "*0\r\n"), .repeated("attributes", "|1\r\n+a\r\n:1\r\n"),
                    .repeated("members of one row", ":1\r\n", prefix: "*999999\r\n"),
                    .repeated("members of one map", "+a\r\n", prefix: "%499999\r\n"),
                    .repeated("pushes", ">1\r\n$10\r\ninvalidate\r\n"), .repeated("empty strings", "$0\r\n\r\n"),
                    .repeated("one long line", "a", prefix: "+"),
                    .repeated("one long string", "a", prefix: "$9999999\r\n"),
                    .repeated("zeros before a length", "0", prefix: "$"),
                    .repeated("carriage returns", "\r", prefix: "+"),
                    .repeated("a long number", "1", prefix: "("), .repeated("a long fraction", "1", prefix: ",0."),
                    .repeated("promises", "*1000000\r\n"),
                ], shortest: 1_024, nanosecondsPerByte: 50_000
            ) { bytes in
                _ = RESPTexts.count([bytes])
                _ = RESPTexts.count(bytes.lazy.map { [$0] })
            }
        ]
    ) { bytes throws(Violation) in
        let whole = RESPTexts.count([bytes])
        for cuts in [Segments.single(in: bytes), Segments.random(in: bytes)] {
            var start = 0
            let pieces = cuts.map { end in
                defer { start = end }
                return Array(bytes[start..<end])
            }
            try require(RESPTexts.count(pieces) == whole, "parsed differently when cut at \(cuts.prefix(16))")
        }
        if let chosen = RESPTexts.chosenSessions(bytes, limit: bytes.count % 40) {
            try require((0...16).contains(chosen), "\(chosen) sessions would be ended")
        }
        guard let whole else { return }
        try require(whole <= bytes.count, "more values than bytes")
    }
}

/// Bytes as they would arrive from a server.
enum RESPTexts {
    /// The number of values in pieces; `nil` for invalid RESP.
    static func count(_ pieces: some Sequence<[UInt8]>) -> Int? {
        var parser = RESPParser()
        var count = 0
        do {
            for piece in pieces {
                parser.append(ByteBuffer(bytes: piece))
                while try parser.next() != nil { count += 1 }
            }
            return count
        } catch {
            return nil
        }
    }

    /// The first value; `nil` if it is incomplete or invalid.
    static func first(_ bytes: [UInt8]) -> RESPValue? {
        var parser = RESPParser()
        parser.append(ByteBuffer(bytes: bytes))
        return try? parser.next()
    }

    /// The number of sessions that would be ended by a reply that lists sessions, if all of them were active; `nil` for
    /// an invalid reply.
    static func chosenSessions(_ bytes: [UInt8], limit: Int) -> Int? {
        guard let reply = first(bytes), let (total, ids) = try? ListedSample.parse(reply, limit: limit) else {
            return nil
        }
        let now = SessionTime(milliseconds: 0)
        let rule = SurplusRule(limit: limit, accounts: [0], usedAfter: now - .seconds(1), new: SessionID(0))
        let records = ids.map { id in
            SurplusRule.Candidate(id: id, account: 0, createdAt: now, expiresAt: now + .seconds(1), lastUsedAt: now)
        }
        let surplus = rule.surplus(in: SurplusRule.Sample(total: total, ids: ids, records: records), now: now)
        return if case .records(let chosen) = surplus { chosen.count } else { 0 }
    }
}
