import CloakroomWire
import NIOCore
import Testing

@testable import CloakroomHTTP2

/// The head that a header block results in, against the rules for heads of HTTP/1.1.
@Suite("The request head of a header block")
struct RequestHeadTests {
    private static let limits = HeadLimits(head: 1_024, fields: 5, target: 64)
    private static let pseudo = [
        (":method", "GET"), (":scheme", "https"), (":authority", "a.test"), (":path", "/p?q"),
    ]

    /// Encodes fields as literals that are not indexed, whatever bytes they have.
    private static func block(_ fields: [([UInt8], [UInt8])]) -> [UInt8] {
        fields.flatMap { name, value in [0] + string(name) + string(value) }
    }

    private static func string(_ bytes: [UInt8]) -> [UInt8] {
        guard bytes.count >= 127 else { return [UInt8(bytes.count)] + bytes }
        let rest = bytes.count - 127
        return [0x7f, UInt8(rest & 0x7f | 0x80), UInt8(rest >> 7)] + bytes
    }

    private static func result(
        _ fields: [(String, String)], limits: HeadLimits = limits
    ) throws -> (result: RequestBlockResult, head: RequestHead) {
        var decoder = HPACKDecoder()
        var head = RequestHead()
        let block = block(fields.map { (Array($0.0.utf8), Array($0.1.utf8)) })
        return (try decoder.decodeRequest(block.span, limits: limits, into: &head), head)
    }

    private static func isMalformed(_ fields: [(String, String)]) throws -> Bool {
        try result(fields).result == .malformed
    }

    private static func replacing(_ name: String, _ value: String) -> [(String, String)] {
        pseudo.map { $0.0 == name ? (name, value) : $0 }
    }

    @Test("Has the fields that parsing the same head as HTTP/1.1 has")
    func equalsParsed() throws {
        let fields = [("x-a", ""), ("accept", "a, b"), ("cookie", "c=d"), ("x", "\u{ef} \u{fb01}")]
        let (result, head) = try Self.result(Self.pseudo + fields)
        #expect(result == .request(RequestBlock()))
        var parser = HeadParser(limits: Self.limits)
        var parsed = RequestHead()
        var text = ByteBuffer(string: "GET /p?q HTTP/1.1\r\nhost: a.test\r\n")
        text.writeString(fields.map { "\($0.0): \($0.1)\r\n" }.joined() + "\r\n")
        #expect(try parser.parse(&text, into: &parsed))
        #expect(head.text == parsed.text)
        #expect(head.fields.map(\.name) == parsed.fields.map(\.name))
        #expect(head.minorVersion == parsed.minorVersion)
        // The fields after the host are adjacent lines up to the empty line, as consumers expect.
        let last = try #require(head.fields.last)
        #expect(last.valueRange.end + 4 == head.bytes.readableBytes)
        for (field, next) in zip(head.fields.dropFirst(), head.fields.dropFirst(2)) {
            #expect(field.valueRange.end + 2 == Int(next.nameStart))
        }
    }

    @Test("RFC 9113 §8.3.1: the authority is the host; cookie fields are one field")
    func authorityAndCookies() throws {
        let (_, head) = try Self.result(Self.pseudo + [("cookie", "a=1"), ("x", "y"), ("cookie", "b=2")])
        #expect(head.fields.first?.name == .host)
        let names: [KnownField] = head.fields.map(\.name)
        #expect(names.count == 3)
        #expect(names.filter { $0 == .cookie }.count == 1)
        #expect(head.text.contains("cookie: a=1; b=2"))
        #expect(head.text.contains("x: y"))
    }

    @Test("RFC 8441 §4: an extended CONNECT is a GET with the requested protocol")
    func tunnel() throws {
        let connect = Self.replacing(":method", "CONNECT")
        for (name, tunnel) in [("websocket", TunnelProtocol.webSocket), ("connect-udp", .other)] {
            let (result, head) = try Self.result(connect + [(":protocol", name)])
            guard case .request(let request) = result else {
                Issue.record("\(result)")
                return
            }
            #expect(request.tunnel == tunnel)
            #expect(head.text == "GET /p?q")
        }
    }

    @Test("RFC 9113 §8.5: a plain CONNECT has its authority as target")
    func connect() throws {
        let (result, head) = try Self.result([(":method", "CONNECT"), (":authority", "a.test:443")])
        #expect(result == .request(RequestBlock()))
        #expect(head.text == "CONNECT a.test:443")
    }

    @Test("RFC 9113 §8.2.2: te may be trailers and nothing else")
    func te() throws {
        #expect(try !Self.isMalformed(Self.pseudo + [("te", "trailers")]))
        for value in ["trailers ", "Trailers, gzip", "gzip", ""] {
            #expect(try Self.isMalformed(Self.pseudo + [("te", value)]))
        }
    }

    @Test("Rule 15, RFC 9110 §15.5: exceeded limits differ from malformed heads, and many small cookies count as one")
    func limits() throws {
        let long = String(repeating: "a", count: 64)
        #expect(try Self.result(Self.replacing(":path", "/" + long)).result == .tooLarge(.targetTooLong))
        #expect(
            try Self.result(Self.pseudo + (0..<5).map { ("x-\($0)", "a") }).result == .tooLarge(.tooManyFields))
        #expect(
            try Self.result(Self.pseudo + (0..<4).map { ("x-\($0)", String(repeating: "a", count: 300)) }).result
                == .tooLarge(.headTooLarge))
        // Many small cookie fields are joined to a large one.
        #expect(try Self.result(Self.pseudo + (0..<10).map { ("cookie", "c\($0)=a") }).head.fields.count == 2)
        #expect(
            try Self.result(Self.pseudo + (0..<30).map { ("cookie", "c\($0)=\(long)") }).result
                == .tooLarge(.headTooLarge))
    }

    @Test(
        "RFC 9110 §9.1: a method is a token of at most 32 bytes",
        arguments: ["", "GE T", "GET\r\n", "G\0", "GÉT", "(", String(repeating: "A", count: 33)])
    func method(_ method: String) throws {
        #expect(try Self.isMalformed(Self.replacing(":method", method)))
        #expect(try !Self.isMalformed(Self.replacing(":method", String(repeating: "A", count: 32))))
    }

    @Test(
        "RFC 9112 §3.2: a target is not empty and has no blanks or controls",
        arguments: ["", "/ a", "/\t", "/\r\n", "/\0", "/\u{7f}", "a", "*", "http://a/"])
    func target(_ target: String) throws {
        #expect(try Self.isMalformed(Self.replacing(":path", target)))
    }

    @Test(
        "RFC 9113 §8.2.1: a name is a token in lower case",
        arguments: ["", "A", "x-A", "a b", "a:", "a\r\n", "a\0", "é", ":a"])
    func name(_ name: String) throws {
        #expect(try Self.isMalformed(Self.pseudo + [(name, "v")]))
    }

    @Test(
        "RFC 9113 §8.2.1: a value has no controls and no surrounding blanks",
        arguments: [" a", "a ", "\ta", "a\t", "a\rb", "a\nb", "a\0", "a\u{7f}", "\r\n", " "])
    func value(_ value: String) throws {
        #expect(try Self.isMalformed(Self.pseudo + [("x", value)]))
        #expect(try Self.isMalformed(Self.pseudo + [("cookie", "a"), ("cookie", value)]))
    }

    @Test("The limit of the head is that of the bytes written")
    func headLimit() throws {
        let size = try Self.result(Self.pseudo + [("y", "")]).head.bytes.readableBytes
        for (excess, isAccepted) in [(0, true), (1, false)] {
            let value = String(repeating: "a", count: 1_024 - size + excess)
            let (result, head) = try Self.result(Self.pseudo + [("y", value)])
            #expect((result == .request(RequestBlock())) == isAccepted)
            if isAccepted {
                #expect(head.bytes.readableBytes == 1_024)
            } else {
                #expect(result == .tooLarge(.headTooLarge))
            }
        }
    }
}
