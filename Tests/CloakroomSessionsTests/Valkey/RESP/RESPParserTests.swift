import NIOCore
import TestSupport
import Testing

@testable import CloakroomSessions

@Suite("The RESP parser")
struct RESPParserTests {
    /// Parses all values in these bytes, which arrive in two segments.
    private func parse(_ text: String, cutAt cut: Int? = nil, limits: RESPLimits = RESPLimits()) throws -> [RESPValue] {
        var parser = RESPParser(limits: limits)
        var values: [RESPValue] = []
        let bytes = Array(text.utf8)
        for piece in cut.map({ [bytes[..<$0], bytes[$0...]] }) ?? [bytes[...]] {
            parser.append(ByteBuffer(bytes: piece))
            while let value = try parser.next() { values.append(value) }
        }
        return values
    }

    private static func blob(_ text: String) -> RESPValue { .blob(ByteBuffer(string: text)) }

    private static let everything =
        "+OK\r\n-WRONGTYPE no\r\n:-42\r\n_\r\n,3.25\r\n,inf\r\n#t\r\n#f\r\n(123456789012345678901234567890\r\n"
        + "$5\r\nab\r\nc\r\n$0\r\n\r\n!6\r\nOOM no\r\n=7\r\ntxt:a\r\n\r\n*2\r\n:1\r\n*1\r\n$1\r\nx\r\n*0\r\n"
        + "%2\r\n+a\r\n:1\r\n+b\r\n%0\r\n~2\r\n:1\r\n:2\r\n>2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n"
        + "|1\r\n+ttl\r\n:9\r\n:7\r\n*2\r\n|1\r\n+a\r\n*1\r\n:0\r\n:5\r\n|0\r\n:6\r\n$-1\r\n*-1\r\n"

    private static let all: [RESPValue] = [
        .simple("OK"), .error(RESPError(line: "WRONGTYPE no")), .integer(-42), .null, .double(3.25), .double(.infinity),
        .boolean(true), .boolean(false), .bigNumber("123456789012345678901234567890"), blob("ab\r\nc"), blob(""),
        .error(RESPError(line: "OOM no")), .verbatim(format: "txt", ByteBuffer(string: "a\r\n")),
        .array([.integer(1), .array([blob("x")])]), .array([]),
        .map([
            .simple("a"), .integer(1), .simple("b"), .map([]),
        ]),
        .set([.integer(1), .integer(2)]), .push([blob("invalidate"), .array([blob("k")])]),
        .integer(7), .array([.integer(5), .integer(6)]), .null, .null,
    ]

    @Test("All types are parsed, and attributes are skipped")
    func types() throws {
        try expect(parse(Self.everything), equals: Self.all)
    }

    @Test("The segmentation of the bytes makes no difference")
    func cuts() throws {
        for cut in 0...Self.everything.utf8.count {
            try expect(parse(Self.everything, cutAt: cut), equals: Self.all, "cut at \(cut)")
        }
    }

    /// The number of values in pieces as they would arrive; `nil` for invalid RESP.
    private static func count(_ pieces: some Sequence<[UInt8]>) -> Int? {
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

    @Test("Parsing byte by byte gives the same values")
    func bytes() {
        expect(Self.count(Self.everything.utf8.map { [$0] }), equals: Self.all.count)
    }

    @Test(
        "Malformed RESP is a protocol error, and the parser stays failed",
        arguments: [
            ("x\r\n", RESPProtocolError.unknownType), ("+a\n", .malformedLine), ("+a\rb\r\n", .malformedLine),
            ("\r\n", .unknownType), (":\r\n", .malformedNumber), (":1x\r\n", .malformedNumber),
            (":9223372036854775808\r\n", .malformedNumber), ("$-2\r\n", .malformedNumber),
            ("$+1\r\n", .malformedNumber),
            ("*-2\r\n", .malformedNumber), ("%-1\r\n", .malformedNumber), ("*\r\n", .malformedNumber),
            ("$1\r\nab\r\n", .malformedString), ("=2\r\nab\r\n", .malformedString),
            ("=4\r\ntxta\r\n", .malformedString),
            ("_x\r\n", .malformedLine), ("#x\r\n", .malformedNumber), (",0x1p3\r\n", .malformedNumber),
            (",\r\n", .malformedNumber), ("(12a\r\n", .malformedNumber), ("(\r\n", .malformedNumber),
            ("$?\r\n", .streamed), ("*?\r\n", .streamed), (".\r\n", .streamed), (";4\r\n", .streamed),
            ("*1\r\n>1\r\n+a\r\n", .nestedPush), ("$99999999999999999999\r\n", .malformedNumber),
            ("$999999999999\r\n", .tooLong), ("*999999999999\r\n", .tooMany), ("%9223372036854775807\r\n", .tooMany),
            (String(repeating: "*1\r\n", count: 17), .tooDeep), ("+" + String(repeating: "a", count: 70_000), .tooLong),
        ])
    func malformed(_ text: String, _ kind: RESPProtocolError) throws {
        var parser = RESPParser()
        parser.append(ByteBuffer(string: text))
        #expect(throws: kind) { while try parser.next() != nil {} }
        parser.append(ByteBuffer(string: "+OK\r\n"))
        #expect(throws: kind) { try parser.next() }
    }

    @Test("Members and bytes are limited over a whole value, and counted anew for the next")
    func bounds() throws {
        var limits = RESPLimits()
        limits.members = 4
        limits.bytes = 4
        try expect(
            parse("*2\r\n*2\r\n:1\r\n:2\r\n:3\r\n*4\r\n:1\r\n:1\r\n:1\r\n:1\r\n", limits: limits).count, equals: 2)
        #expect(throws: RESPProtocolError.tooMany) { try parse("*2\r\n*3\r\n", limits: limits) }
        try expect(parse("$4\r\nabcd\r\n$4\r\nabcd\r\n", limits: limits).count, equals: 2)
        #expect(throws: RESPProtocolError.tooLong) {
            try parse("*2\r\n$3\r\nabc\r\n$2\r\nab\r\n", limits: limits)
        }
    }

    @Test("Script errors are reported with their inner error code, which Redis 6 wraps")
    func scriptErrors() {
        let line =
            "ERR Error running script (call to f_ab12): @user_script:1: @user_script: 1: -OOM command not allowed when used"
        expect(RESPError(line: line).code, equals: "OOM")
        expect(RESPError(line: "ERR -x").code, equals: "ERR")
        expect(RESPError(line: "").code, equals: "ERR")
        expect(RESPError(line: "READONLY You can't").code, equals: "READONLY")
    }

    @Test("A code is a short word in capital letters, because it is logged and printed")
    func codes() {
        let long = String(repeating: "A", count: 33)
        for word in ["\u{1b}[31mRED", "OOM\u{7}", "OOM\nstore", "err", "ÄRGER", long, "A-B"] {
            expect(RESPError(line: word + " text").code, equals: "UNKNOWN", "\(word)")
        }
        expect(RESPError(line: "ERR Error running script: -\u{1b}[31mRED x").code, equals: "UNKNOWN")
        expect(RESPError(line: String(long.dropLast()) + " text").code, equals: String(long.dropLast()))
    }
}
