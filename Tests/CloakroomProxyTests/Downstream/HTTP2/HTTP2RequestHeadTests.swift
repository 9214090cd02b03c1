import CloakroomWire
import NIOCore
import NIOHPACK
import Testing

@testable import CloakroomProxy

@Suite("The request head built from HTTP/2 fields")
struct HTTP2RequestHeadTests {
    private static let pseudo = [
        (":method", "GET"), (":scheme", "https"), (":authority", "a.test"), (":path", "/p?q"),
    ]

    private static func write(
        _ fields: [(String, String)], limits: HeadLimits = HeadLimits(head: 1_024, fields: 10, target: 100)
    ) throws -> (text: String, head: RequestHead, protocolName: String?) {
        var head = RequestHead()
        var writer = HTTP2RequestHead(limits: limits)
        try writer.write(HPACKHeaders(fields), into: &head)
        return (String(buffer: head.bytes), head, writer.tunnelProtocol)
    }

    @Test("RFC 9113 §8.3.1: equals the one of HTTP/1.1, with the authority as host and one cookie field at its end")
    func text() throws {
        let (text, head, tunnel) = try Self.write(Self.pseudo + [("cookie", "a=1"), ("x", "y"), ("cookie", "b=2")])
        #expect(text == "GET /p?q HTTP/1.1\r\nhost: a.test\r\nx: y\r\ncookie: a=1; b=2\r\n\r\n")
        let names: [KnownField] = head.fields.map(\.name)
        #expect(names == [.host, .other, .cookie])
        #expect(tunnel == nil)
    }

    @Test("Equals the result of parsing its bytes as HTTP/1.1")
    func parses() throws {
        let (_, head, _) = try Self.write(Self.pseudo + [("x-a", ""), ("accept", "a, b"), ("cookie", "c=d")])
        var parser = HeadParser(limits: HeadLimits(head: 1_024, fields: 10, target: 100))
        var parsed = RequestHead()
        var bytes = head.bytes
        _ = try parser.parse(&bytes, into: &parsed)
        #expect(parsed.fields == head.fields)
        #expect(parsed.method == head.method)
        #expect(parsed.target == head.target)
        #expect(parsed.bytes == head.bytes)
    }

    @Test("Invalid UTF-8 is rejected and not replaced; valid UTF-8 is kept")
    func replacement() throws {
        let value = "na\u{ef}ve \u{fb01}"
        #expect(try Self.write(Self.pseudo + [("x", value)]).text.contains("x: \(value)\r\n"))
        let broken = String(decoding: [0x61, 0xff, 0x62], as: UTF8.self)
        #expect(throws: HTTP2HeadError.malformed) { try Self.write(Self.pseudo + [("x", broken)]) }
    }

    @Test("RFC 8441 §4: an extended CONNECT is a GET with the requested protocol")
    func tunnel() throws {
        var fields = Self.pseudo
        fields[0] = (":method", "CONNECT")
        let (text, _, tunnel) = try Self.write(fields + [(":protocol", "websocket")])
        #expect(text.hasPrefix("GET /p?q HTTP/1.1\r\n"))
        #expect(tunnel == "websocket")
    }

    @Test("RFC 9113 §8.5: a plain CONNECT has its authority as target")
    func connect() throws {
        let (text, _, tunnel) = try Self.write([(":method", "CONNECT"), (":authority", "a.test:443")])
        #expect(text == "CONNECT a.test:443 HTTP/1.1\r\nhost: a.test:443\r\n\r\n")
        #expect(tunnel == nil)
    }

    @Test("RFC 9113 §8.2.2: te may be trailers and nothing else")
    func te() throws {
        #expect(try Self.write(Self.pseudo + [("te", "trailers")]).text.contains("te: trailers\r\n"))
        #expect(throws: HTTP2HeadError.malformed) { try Self.write(Self.pseudo + [("te", "trailers ")]) }
        #expect(throws: HTTP2HeadError.malformed) { try Self.write(Self.pseudo + [("te", "Trailers, gzip")]) }
    }

    @Test("Rule 15, RFC 9110 §15.5: exceeded limits differ from malformed heads, and many small cookies count as one")
    func limits() {
        let long = String(repeating: "a", count: 101)
        var target = Self.pseudo
        target[3] = (":path", "/" + long)
        #expect(throws: HTTP2HeadError.tooLarge(.targetTooLong)) { try Self.write(target) }
        #expect(throws: HTTP2HeadError.tooLarge(.tooManyFields)) {
            try Self.write(Self.pseudo + (0..<10).map { ("x-\($0)", "a") })
        }
        #expect(throws: HTTP2HeadError.tooLarge(.headTooLarge)) {
            try Self.write(Self.pseudo + (0..<9).map { ("x-\($0)", long + long) })
        }
        // Many small cookie fields are joined to a large one.
        #expect(throws: HTTP2HeadError.tooLarge(.headTooLarge)) {
            try Self.write(Self.pseudo + (0..<30).map { ("cookie", "c\($0)=\(long)") })
        }
    }
}
