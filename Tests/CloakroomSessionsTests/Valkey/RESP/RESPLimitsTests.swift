import NIOCore
import TestSupport
import Testing

@testable import CloakroomCore
@testable import CloakroomSessions

@Suite("The limits of the RESP parser", .timeLimit(.minutes(3)))
struct RESPLimitsTests {
    private func parse(_ text: String, limits: RESPLimits = RESPLimits()) throws -> RESPValue? {
        var parser = RESPParser(limits: limits)
        parser.append(ByteBuffer(string: text))
        return try parser.next()
    }

    @Test("Lines have 64 KiB, strings 128 KiB, a value 16 MiB, 1,000,000 members and 16 levels")
    func defaults() {
        let limits = RESPLimits()
        expect((limits.line, limits.blob, limits.bytes) == (65_536, 131_072, 16_777_216))
        expect((limits.members, limits.depth) == (1_000_000, 16))
    }

    @Test("The largest session that identity calls permit is a string within the limit")
    func largestSession() throws {
        func text(_ count: Int) -> String { String(repeating: "a", count: count) }
        let tokens = TokenSet(
            authorization: Secret("Bearer \(text(16_384))"), refreshToken: Secret(text(16_384)),
            accessTokenExpiresAt: WallTime(seconds: 1), obtainedAt: WallTime(seconds: 0))
        // The claims of an ID token are three quarters of it.
        let provenance = SessionProvenance(
            identity: text(64), issuer: text(2_048), subject: text(12_288), providerSession: nil,
            authenticatedAt: WallTime(seconds: 0), acr: nil, nonceHash: [UInt8](repeating: 0, count: 32),
            claims: [UInt8](repeating: 0x61, count: 16_384), idToken: Secret(text(16_384)))
        let user = UserProfile(json: [UInt8](repeating: 0x61, count: 16_384), account: provenance.account)
        let parts = SessionParts(user: user, tokens: tokens, source: Sample.source, provenance: provenance)
        // With the format, the id of the secret, the nonce and the tag.
        #expect(parts.bytes.count + 33 <= RESPLimits().blob)
    }

    @Test("Lines and texts cost linear time, also those that are slow to normalize")
    func linear() {
        let keys = ValkeyKeys(prefix: "p")
        let reads: [(String) -> Void] = [
            { _ = RESPValue.blob(ByteBuffer(string: $0)).text == "done" },
            { _ = RESPValue.map([.blob(ByteBuffer(string: $0)), .null]).member("mode") },
            { _ = keys.session(named: ByteBuffer(string: $0)) }, { _ = keys.cutoff(named: ByteBuffer(string: $0)) },
        ]
        let lines = "*$-+:#,(".map { type in { (text: String) in _ = try? parse("\(type)\(text)\r\n") } }
        for read in reads + lines {
            let ratio = LinearTime.ratio(ofMarks: read)
            #expect(ratio < 4, "\(ratio)")
        }
    }

    @Test("Lengths near the largest number, negative ones and those in another form are errors at once")
    func lengths() {
        for type in "$=!" {
            for length in ["9223372036854775807", "9223372036854775806", "131073"] {
                #expect(throws: RESPProtocolError.tooLong) { try parse("\(type)\(length)\r\n") }
            }
        }
        for type in "*~>%|" {
            for length in ["9223372036854775807", "4611686018427387904", "1000001"] {
                #expect(throws: RESPProtocolError.tooMany) { try parse("\(type)\(length)\r\n") }
            }
        }
        for length in [
            "-2", "-0", "-9223372036854775808", "9223372036854775808", "00000000000000000001", "+1", " 1", "1 ", "0x1",
            "1e3", "1_000", "\u{ff11}", "",
        ] {
            for type in "$=!*~>%|" {
                #expect(throws: RESPProtocolError.malformedNumber, "\(type)\(length)") {
                    try parse("\(type)\(length)\r\n")
                }
            }
        }
        // Only a string and an array can be absent.
        for type in "=!~>%|" {
            #expect(throws: RESPProtocolError.malformedNumber) { try parse("\(type)-1\r\n") }
        }
    }

    @Test("A length of 64 KiB of zeros is an error when it is complete: it would be parsed again with each piece")
    func longLength() throws {
        var parser = RESPParser()
        parser.append(ByteBuffer(string: "$" + String(repeating: "0", count: 65_000)))
        try expect(parser.next(), equals: nil)
        parser.append(ByteBuffer(string: "5\r\n"))
        #expect(throws: RESPProtocolError.malformedNumber) { try parser.next() }
    }

    @Test(
        "Values are nested at most 16 deep, whatever their types",
        arguments: ["*1\r\n", "~1\r\n", "%1\r\n", "|1\r\n"])
    func depth(_ opening: String) throws {
        let depth = RESPLimits().depth
        try expect(parse(String(repeating: opening, count: depth)), equals: nil)
        #expect(throws: RESPProtocolError.tooDeep) { try parse(String(repeating: opening, count: depth + 1)) }
        #expect(throws: RESPProtocolError.tooDeep) { try parse(String(repeating: opening, count: 1_000_000)) }
    }

    @Test("The members of a map and of all nested values count")
    func members() throws {
        try expect(parse("%500000\r\n"), equals: nil)
        #expect(throws: RESPProtocolError.tooMany) { try parse("%500001\r\n") }
        #expect(throws: RESPProtocolError.tooMany) { try parse("*1000000\r\n*1\r\n") }
        #expect(throws: RESPProtocolError.tooMany) { try parse(">2\r\n+invalidate\r\n*1000000\r\n") }
        // An attribute without members stores nothing, and could be repeated without end within a value.
        var limits = RESPLimits()
        limits.members = 1_000
        try expect(parse("*2\r\n+a\r\n" + String(repeating: "|0\r\n", count: 998), limits: limits), equals: nil)
        #expect(throws: RESPProtocolError.tooMany) {
            try parse("*2\r\n+a\r\n" + String(repeating: "|0\r\n", count: 999), limits: limits)
        }
        // Members that were announced and never arrive.
        try expect(parse("*2\r\n*2\r\n*2\r\n*999994\r\n"), equals: nil)
    }

    @Test("Lines count like strings, so that many long lines are no way around the limit of a value")
    func lines() throws {
        var limits = RESPLimits()
        limits.bytes = 10
        for line in ["+abcd", "-abcd", "(1234", ":1234", ",1234"] {
            try expect(parse("*2\r\n\(line)\r\n\(line)\r\n", limits: limits) != nil)
            #expect(throws: RESPProtocolError.tooLong, "\(line)") {
                try parse("*3\r\n\(line)\r\n\(line)\r\n\(line)\r\n", limits: limits)
            }
        }
        #expect(throws: RESPProtocolError.tooLong) {
            try parse("*2\r\n$4\r\nabcd\r\n+abcdefg\r\n", limits: limits)
        }
    }

    @Test("An error is a line: with a length prefix it is limited as without")
    func errors() throws {
        #expect(throws: RESPProtocolError.tooLong) { try parse("!65537\r\n") }
        let text = "ERR Error running script " + String(repeating: "a ", count: 30_000)
        try expect(parse("!\(text.utf8.count)\r\n\(text)\r\n"), equals: .error(RESPError(line: "ERR x")))
    }

    @Test("A string keeps little more than its own bytes, however the message is cut into pieces")
    func retention() throws {
        let count = 20_000
        var parser = RESPParser()
        parser.append(ByteBuffer(string: "*\(count)\r\n$1\r\n"))
        var value = try parser.next()
        // Each piece completes one string and begins the next one.
        for _ in 1..<count {
            parser.append(ByteBuffer(string: "x\r\n$1\r\n"))
            value = try parser.next()
        }
        expect(value, equals: nil)
        parser.append(ByteBuffer(string: "x\r\n"))
        let strings = try require(parser.next()?.elements)
        expect(strings.count, equals: count)
        let kept = strings.map { $0.bytes?.storageCapacity ?? .max }.max()
        #expect(try require(kept) <= 1_024)
    }

    @Test("A string of 16 MiB in small pieces costs linear time")
    func largeString() throws {
        var limits = RESPLimits()
        limits.blob = 16 << 20
        let count = limits.blob
        let piece = ByteBuffer(repeating: 0x61, count: 512)
        let start = ContinuousClock.now
        limits.bytes = 2 * count
        var parser = RESPParser(limits: limits)
        parser.append(ByteBuffer(string: "+OK\r\n$\(count)\r\n"))
        try expect(parser.next(), equals: .simple("OK"))
        for _ in 0..<(count / 512) {
            parser.append(piece)
            try expect(parser.next(), equals: nil)
        }
        parser.append(ByteBuffer(string: "\r\n"))
        try expect(parser.next()?.bytes?.readableBytes, equals: count)
        // Copying what has arrived with each piece would move 256 GiB.
        #expect(ContinuousClock.now - start < .seconds(20))
    }

    /// The largest storage of a string relative to ``StorageProperty/ordinaryBound(unread:)`` for its bytes.
    private static func excess(of value: RESPValue) -> Int {
        if let members = value.elements { return members.map(excess).max() ?? 0 }
        if case .push(let members) = value { return members.map(excess).max() ?? 0 }
        guard case .blob(let bytes) = value else { return 0 }
        return bytes.storageCapacity - StorageProperty.ordinaryBound(unread: bytes.readableBytes)
    }

    @Test(
        "Rule 77: replies, pushes and attributes without end keep little storage, in all splits, and so do their strings",
        arguments: [
            ("+OK\r\n", 0), ("-ERR a\r\n", 0), ("$5\r\nhello\r\n", 0), ("*2\r\n$1\r\na\r\n:1\r\n", 2),
            (">2\r\n$10\r\ninvalidate\r\n*1\r\n$3\r\nkey\r\n", 3), ("|1\r\n+k\r\n$1\r\nv\r\n+OK\r\n", 2),
            (String(repeating: "*1\r\n", count: 16) + "+a\r\n", 16),
            ("%200\r\n" + String(repeating: "$1\r\na\r\n", count: 400), 400),
            ("$20000\r\n\(String(repeating: "a", count: 20_000))\r\n", 0),
            // A sentinel's reply.
            ("*2\r\n$9\r\n127.0.0.1\r\n$4\r\n6379\r\n", 2),
        ])
    func storage(unit: String, members: Int) throws {
        let stream = PeerStream(unit)
        let bound =
            StorageProperty.ordinaryBound(unread: stream.unit) + 4 * members * MemoryLayout<RESPValue>.stride
        try StorageProperty.check(stream, bound: bound) {
            var parser = RESPParser()
            return { read in
                parser.append(read)
                while let value = try parser.next() {
                    if Self.excess(of: value) > 0 { Issue.record("a string has more storage than it needs") }
                }
                return parser.storage
            }
        }
    }
}
