import CloakroomWire
import NIOCore
import TestSupport
import Testing

@testable import CloakroomHTTP2

@Suite("The request head built from a header block")
struct RequestAssemblyTests {
    private let decoder = TestDecoder()

    private static let pseudo = [
        (":method", "GET"), (":scheme", "https"), (":authority", "a.test"), (":path", "/p?q"),
    ]

    private static func decode(_ fields: [(String, String)]) throws -> DecodedRequest {
        let decoder = TestDecoder()
        return try decoder.request(BlockWriter(fields).bytes)
    }

    /// The result, which does not depend on the representation of the fields.
    private static func result(
        _ fields: [(String, String)], limits: HeadLimits = TestDecoder.limits
    ) throws -> RequestBlockResult {
        let decoder = TestDecoder()
        let result = try decoder.result(BlockWriter(fields).bytes, limits: limits)
        for huffman in [false, true] {
            let inserting = TestDecoder()
            let again = try inserting.result(
                BlockWriter(fields, .inserted, huffman: huffman).bytes, limits: limits)
            expect(again, equals: result)
            // The same request as indices, which is what the verdicts of the entries are for.
            var indexed = BlockWriter()
            for index in fields.indices { indexed.indexed(61 + fields.count - index) }
            if inserting.tableLines.count == fields.count {
                try expect(inserting.result(indexed.bytes, limits: limits), equals: result)
            }
        }
        return result
    }

    @Test("Lines in their order; the authority is the first field; method and target are values of pseudo-fields")
    func text() throws {
        let request = try Self.decode(Self.pseudo + [("accept", "a, b"), ("x", "")])
        expect(
            request.text,
            equals: ":method: GET\r\n:scheme: https\r\n:authority: a.test\r\n:path: /p?q\r\naccept: a, b\r\nx: \r\n\r\n"
        )
        expect(request.method, equals: "GET")
        expect(request.target, equals: "/p?q")
        expect(request.fields, equals: [":authority=a.test", "accept=a, b", "x="])
        expect(request.block, equals: RequestBlock())
    }

    @Test("Has the fields that parsing the same head as HTTP/1.1 has")
    func equalsParsed() throws {
        let fields = [("x-a", ""), ("accept", "a, b"), ("cookie", "c=d"), ("x", "\u{ef} \u{fb01}")]
        var head = RequestHead()
        let result = try TestDecoder().decode(
            BlockWriter(Self.pseudo + fields).bytes, limits: HeadLimits(), into: &head)
        expect(result, equals: .request(RequestBlock()))
        var parser = HeadParser(limits: HeadLimits())
        var parsed = RequestHead()
        var text = ByteBuffer(string: "GET /p?q HTTP/1.1\r\nhost: a.test\r\n")
        text.writeString(fields.map { "\($0.0): \($0.1)\r\n" }.joined() + "\r\n")
        try expect(parser.parse(&text, into: &parsed))
        expect(head.text, equals: parsed.text)
        expect(head.fields.map(\.name), equals: parsed.fields.map(\.name))
        expect(head.minorVersion, equals: parsed.minorVersion)
        // The fields after the host are adjacent lines up to the empty line, as consumers expect.
        let last = try require(head.fields.last)
        expect(last.valueRange.end + 4, equals: head.bytes.readableBytes)
        for (field, next) in zip(head.fields.dropFirst(), head.fields.dropFirst(2)) {
            expect(field.valueRange.end + 2, equals: Int(next.nameStart))
        }
    }

    @Test("Fields that policy uses are known, whether they are literals or indices")
    func knownFields() throws {
        var head = RequestHead()
        let fields = Self.pseudo + [("user-agent", "u"), ("content-length", "1"), ("x", "y"), ("cookie", "a")]
        for block in [BlockWriter(fields, .inserted).bytes, [0xc5, 0xc4, 0xc3, 0xc2, 0xc1, 0xc0, 0xbf, 0xbe]] {
            let result = try decoder.decode(block, limits: HeadLimits(), into: &head)
            expect(result, equals: .request(RequestBlock()))
            expect(head.fields.map(\.name), equals: [.host, .userAgent, .contentLength, .other, .cookie])
        }
    }

    @Test("RFC 9113 §8.2.3: cookie fields are joined to one, at the position of the first")
    func cookies() throws {
        let adjacent = try Self.decode(
            Self.pseudo + [("cookie", "a=1"), ("cookie", "b"), ("cookie", "c=3"), ("x", "y")])
        expect(adjacent.fields, equals: [":authority=a.test", "cookie=a=1; b; c=3", "x=y"])
        expect(adjacent.text.hasSuffix("/p?q\r\ncookie: a=1; b; c=3\r\nx: y\r\n\r\n"))
        let scattered = try Self.decode(
            Self.pseudo + [
                ("x", "y"), ("cookie", "a=1"), ("z", ""), ("cookie", "b"), ("cookie", "c"), ("y", "1"), ("cookie", "d"),
            ])
        expect(scattered.fields, equals: [":authority=a.test", "x=y", "cookie=a=1; b; c; d", "z=", "y=1"])
        expect(scattered.text.hasSuffix("/p?q\r\nx: y\r\ncookie: a=1; b; c; d\r\nz: \r\ny: 1\r\n\r\n"))
        expect(scattered.method == "GET" && scattered.target == "/p?q")
    }

    @Test("Empty cookie fields are joined, unless the last one leaves white space at the end")
    func emptyCookies() throws {
        try expect(Self.decode(Self.pseudo + [("cookie", "")]).fields.last, equals: "cookie=")
        try expect(Self.decode(Self.pseudo + [("cookie", ""), ("cookie", "a")]).fields.last, equals: "cookie=; a")
        try expect(
            Self.decode(Self.pseudo + [("cookie", ""), ("x", "y"), ("cookie", "a")]).fields,
            equals: [":authority=a.test", "cookie=; a", "x=y"])
        try expect(Self.result(Self.pseudo + [("cookie", "a"), ("cookie", "")]), equals: .malformed)
        try expect(Self.result(Self.pseudo + [("cookie", "a"), ("x", "y"), ("cookie", "")]), equals: .malformed)
    }

    @Test("RFC 9113 §8.3.1: a host field equals the authority and is redundant, or replaces it")
    func host() throws {
        let both = try Self.decode(Self.pseudo + [("x", "y"), ("host", "a.test"), ("z", "")])
        expect(both.text.hasSuffix("/p?q\r\nx: y\r\nz: \r\n\r\n"))
        expect(both.fields, equals: [":authority=a.test", "x=y", "z="])
        try expect(Self.result(Self.pseudo + [("host", "b.test")]), equals: .malformed)
        try expect(Self.result(Self.pseudo + [("host", "a.tes")]), equals: .malformed)
        let pseudo = Self.pseudo.filter { $0.0 != ":authority" }
        try expect(Self.decode(pseudo + [("x", "y"), ("host", "b.test")]).fields, equals: ["x=y", "host=b.test"])
        try expect(Self.result(pseudo), equals: .malformed)
    }

    @Test("Cookies around a redundant host field are joined")
    func cookiesAroundHost() throws {
        let request = try Self.decode(Self.pseudo + [("cookie", "a"), ("host", "a.test"), ("cookie", "b"), ("x", "")])
        expect(request.text.hasSuffix("/p?q\r\ncookie: a; b\r\nx: \r\n\r\n"))
    }

    @Test("RFC 8441 §4: an extended CONNECT is a GET with the requested protocol")
    func tunnel() throws {
        var fields = Self.pseudo
        fields[0] = (":method", "CONNECT")
        let webSocket = try Self.decode(fields + [(":protocol", "websocket"), ("x", "y")])
        expect(webSocket.method == "GET" && webSocket.target == "/p?q" && webSocket.block.tunnel == .webSocket)
        expect(webSocket.fields, equals: [":authority=a.test", "x=y"])
        try expect(Self.decode([(":protocol", "connect-udp")] + fields).block.tunnel, equals: .other)
        try expect(Self.decode(fields + [(":protocol", "WebSocket")]).block.tunnel, equals: .other)
        try expect(Self.result(Self.pseudo + [(":protocol", "websocket")]), equals: .malformed)
        let withoutAuthority = fields.filter { $0.0 != ":authority" }
        try expect(
            Self.result(withoutAuthority + [(":protocol", "websocket"), ("host", "a.test")]), equals: .malformed)
    }

    @Test("An inserted CONNECT remains a CONNECT in the table")
    func tunnelEntry() throws {
        var fields = Self.pseudo
        fields[0] = (":method", "CONNECT")
        _ = try decoder.request(BlockWriter(fields + [(":protocol", "websocket")], .inserted).bytes)
        expect(decoder.tableLines.last, equals: ":method: CONNECT\r\n")
    }

    @Test("RFC 9113 §8.5: a plain CONNECT has its authority as target")
    func connect() throws {
        let request = try Self.decode([(":method", "CONNECT"), (":authority", "a.test:443")])
        expect(request.method == "CONNECT" && request.target == "a.test:443" && request.block.tunnel == .none)
        expect(request.fields, equals: [":authority=a.test:443"])
        for extra in [(":scheme", "https"), (":path", "/")] {
            try expect(Self.result([(":method", "CONNECT"), (":authority", "a.test"), extra]), equals: .malformed)
        }
        try expect(Self.result([(":method", "CONNECT"), ("host", "a.test")]), equals: .malformed)
    }

    @Test(
        "RFC 9113 §8.3: pseudo-fields that are missing, doubled, unknown, late or invalid",
        arguments: [
            [(":method", "GET"), (":scheme", "https"), (":path", "/")], [(":scheme", "https"), (":path", "/")],
            [(":method", "GET"), (":path", "/"), (":authority", "a")],
            [(":method", "GET"), (":scheme", "https"), (":authority", "a")], Request.fields + [(":path", "/")],
            Request.fields + [(":method", "GET")], Request.fields + [(":authority", "a.test")],
            Request.fields + [(":status", "200")], Request.fields + [(":x", "y")], Request.fields + [(":", "")],
            Request.fields + [("x", "y"), (":protocol", "websocket")],
            Array(Request.fields.dropLast()) + [("x", "y"), (":authority", "a")],
            [(":Method", "GET")] + Request.fields.dropFirst(), [], [("host", "a.test")],
            Request.fields + [(":scheme", "https")],
        ])
    func pseudoFields(fields: [(String, String)]) throws {
        try expect(Self.result(fields), equals: .malformed)
    }

    @Test(
        "RFC 9113 §8.3.1: values of pseudo-fields",
        arguments: [
            (":method", "", false), (":method", "G ET", false), (":method", String(repeating: "A", count: 33), false),
            (":method", String(repeating: "A", count: 32), true), (":method", "M-SEARCH", true),
            (":scheme", "ftp", false),
            (":scheme", "", false), (":authority", "a\r\nx: y", false), (":method", "GET\r\n", false),
            (":method", "G\0", false),
            (":method", "GÉT", false), (":method", "(", false), (":path", "/\r\n", false),
            (":path", "/a HTTP/1.1\r\nx: y", false), (":path", "http://b/a", false), (":path", "/\0", false),
            (":scheme", "HTTPS", false), (":scheme", "http", true), (":path", "", false), (":path", "a", false),
            (":path", "*", false), (":path", "/a b", false), (":path", "/\u{7f}", false), (":path", "/\t", false),
            (":path", "/é", true), (":authority", "", true), (":authority", " a", false),
            (":authority", "a\u{0}", false),
        ])
    func values(name: String, value: String, isValid: Bool) throws {
        let fields = Request.fields.map { $0.0 == name ? (name, value) : $0 }
        expect(try Self.result(fields) == .request(RequestBlock()), equals: isValid)
    }

    @Test("RFC 9113 §8.3.1: the target * is only for OPTIONS")
    func asterisk() throws {
        let fields = [(":method", "OPTIONS"), (":scheme", "https"), (":path", "*"), (":authority", "a")]
        try expect(Self.decode(fields).target, equals: "*")
    }

    @Test(
        "RFC 9113 §8.2: names and values that make a request malformed",
        arguments: [
            ("", "a"), ("A", "b"), ("aB", "c"), ("a b", "c"), ("a:", "b"), ("a\u{7f}", "b"), ("é", "b"),
            ("a\r\nb", "c"), ("cookie", "a=b\r\nx: y"), ("a\r\n", "b"), ("a\0", "b"),
            ("a", "b\rc"), ("a", "b\nc"), ("a", "\r\n"), ("te", "trailers "), ("te", "Trailers, gzip"),
            ("a", "\r"), ("a", "\n"), ("a", "b\r\nc: d"), ("a", "\u{0}"), ("a", "b\u{7f}c"), ("a", " b"), ("a", "b "),
            ("a", "\tb"), ("a", "b\t"), ("a", " "), ("connection", "close"), ("keep-alive", "1"),
            ("proxy-connection", "a"), ("transfer-encoding", "chunked"), ("upgrade", "a"), ("http2-settings", "a"),
            ("te", "gzip"), ("te", "Trailers"), ("te", ""), ("te", "trailers, gzip"), ("Host", "a.test"),
            ("Cookie", "a"), ("TE", "trailers"),
        ])
    func malformed(name: String, value: String) throws {
        try expect(Self.result(Request.fields + [(name, value)]), equals: .malformed)
        try expect(Self.result(Request.fields + [(name, value), ("x", "y")]), equals: .malformed)
    }

    @Test(
        "RFC 9113 §8.2.1: each of several cookie fields is a valid value",
        arguments: [" a", "a ", "\ta", "a\t", "a\rb", "a\nb", "a\0", "a\u{7f}", "\r\n", " "])
    func cookieValue(_ value: String) throws {
        try expect(Self.result(Self.pseudo + [("cookie", "a"), ("cookie", value)]), equals: .malformed)
    }

    @Test(
        "Values that are passed on unchanged",
        arguments: [("te", "trailers"), ("a", "b\tc"), ("a", "b  c"), ("a", ""), ("a", "ü"), ("!#$%&'*+-.^_`|~1", "~")])
    func passed(name: String, value: String) throws {
        try expect(Self.decode(Request.fields + [(name, value)]).fields.last, equals: "\(name)=\(value)")
    }

    @Test("Bytes that are not UTF-8 are passed on unchanged")
    func obsoleteText() throws {
        var block = BlockWriter()
        block.append(Request.block)
        block.literal(name: [0x78], value: [0x61, 0xff, 0x80, 0x62], huffman: true)
        var head = RequestHead()
        _ = try decoder.decode(block.bytes, limits: HeadLimits(), into: &head)
        let value = try require(head.fields.last).valueRange
        expect(head.bytes.getBytes(at: value.start, length: value.count), equals: [0x61, 0xff, 0x80, 0x62])
    }

    @Test("Rule 15, RFC 9110 §15.5: exceeded limits differ from malformed heads, and many small cookies count as one")
    func limits() throws {
        let long = String(repeating: "a", count: 100)
        var target = Self.pseudo
        target[3] = (":path", "/" + long)
        try expect(Self.result(target), equals: .tooLarge(.targetTooLong))
        target[3] = (":path", "/" + String(repeating: long, count: 20))
        try expect(Self.result(target), equals: .tooLarge(.targetTooLong))
        try expect(
            Self.result(Self.pseudo + (0..<10).map { ("x-\($0)", "a") }), equals: .tooLarge(.tooManyFields))
        try expect(Self.result(Self.pseudo + (0..<9).map { ("x-\($0)", "a") }), equals: .request(RequestBlock()))
        let large = Self.pseudo + (0..<9).map { ("x-\($0)", long + long) }
        try expect(Self.result(large), equals: .tooLarge(.headTooLarge))
        try expect(
            Self.result(Self.pseudo + (0..<30).map { ("cookie", "c\($0)=\(long)") }), equals: .tooLarge(.headTooLarge))
        try expect(Self.decode(Self.pseudo + (0..<10).map { ("cookie", "c\($0)=a") }).fields.count, equals: 2)
        // Fields after the target, whose name is not known when it is dropped.
        let early = [(":path", "/" + String(repeating: long, count: 20)), (":method", "GET"), (":scheme", "https")]
        try expect(Self.result(early + [(":authority", "a")]), equals: .tooLarge(.targetTooLong))
        let both = [("x", String(repeating: long, count: 11)), ("connection", "close")]
        for fields in [Self.pseudo + both, Self.pseudo + both.reversed()] {
            let decoder = TestDecoder()
            // A request that is both is malformed.
            try expect(decoder.result(BlockWriter(fields, .inserted).bytes), equals: .malformed)
        }
    }

    @Test("The limit of the head is exact: its bytes, with the pseudo-fields and the empty line")
    func exactLimit() throws {
        let fixed = try Self.decode(Self.pseudo + [("x", "")]).text.utf8.count
        let fits = ("x", String(repeating: "a", count: 1_024 - fixed))
        try expect(Self.decode(Self.pseudo + [fits]).text.utf8.count, equals: 1_024)
        try expect(Self.result(Self.pseudo + [("x", fits.1 + "a")]), equals: .tooLarge(.headTooLarge))
    }

    @Test("Many small cookies count as one field, whether or not they are next to each other")
    func cookieLimits() throws {
        let cookies = (0..<50).map { ("cookie", "\($0)") }
        try expect(Self.decode(Self.pseudo + cookies).fields.count, equals: 2)
        let scattered = (0..<8).flatMap { [("cookie", "\($0)"), ("x\($0)", "")] }
        try expect(Self.decode(Self.pseudo + scattered).fields.count, equals: 10)
        try expect(Self.result(Self.pseudo + scattered + [("y", "")]), equals: .tooLarge(.tooManyFields))
    }

    @Test(
        "RFC 9218 §4: urgency and incremental; invalid members are ignored",
        arguments: [
            ("", 3, false), ("u=0", 0, false), ("u=7, i", 7, true), ("i", 3, true), ("i=?1,u=5", 5, true),
            ("u=8", 3, false), ("u=-1", 3, false), ("u=10", 3, false), ("i=?0", 3, false), ("i, i=?0", 3, false),
            ("u=1;a=b , i;c", 1, true), ("u", 3, false), (",,u=2,", 2, false), ("U=1", 3, false),
            ("u=1, u=4", 4, false),
            ("i=1", 3, false), ("x=\"a,b\", u=2", 2, false),
        ])
    func priority(value: String, urgency: UInt8, isIncremental: Bool) throws {
        let block = try Self.decode(Self.pseudo + [("priority", value)]).block
        expect(block.urgency, equals: urgency)
        expect(block.isIncremental, equals: isIncremental)
    }
}
