import CloakroomCore
import CloakroomWire
import NIOCore
import NIOHPACK
import TestSupport
import Testing

@testable import CloakroomProxy

@Suite("Heads of HTTP/2 responses (RFC 9113 §8)")
struct HTTP2ResponseHeadTests {
    private func convert(_ fields: [(String, String)], limits: HeadLimits = HeadLimits()) throws -> ResponseHead {
        var head = ResponseHead()
        try HTTP2ResponseHead(limits: limits).convert(HPACKHeaders(fields), into: &head)
        return head
    }

    @Test("A head equals the one that is parsed from HTTP/1.1")
    func equalsParsed() throws {
        let fields = [("content-type", "text/plain"), ("set-cookie", "a=b"), ("x-empty", ""), ("date", "today")]
        let head = try convert([(":status", "203")] + fields)
        var bytes = head.bytes
        var parsed = ResponseHead()
        var parser = HeadParser(limits: HeadLimits())
        try expect(parser.parse(&bytes, into: &parsed))
        expect(bytes.readableBytes, equals: 0)
        expect(parsed.fields, equals: head.fields)
        expect(parsed.status, equals: 203)
        expect(parsed.reason, equals: head.reason)
        expect(head.minorVersion, equals: parsed.minorVersion)
    }

    @Test(
        "Malformed heads are rejected",
        arguments: [
            [], [("content-type", "a")], [(":status", "")], [(":status", "20")], [(":status", "2000")],
            [(":status", "2a0")], [(":status", "099")], [(":status", "101")], [(":status", "200"), (":status", "200")],
            [("a", "b"), (":status", "200")], [(":status", "200"), ("a", "b"), (":path", "/")],
            [(":status", "200"), (":path", "/")], [(":method", "GET")], [(":status", "200"), ("A", "b")],
            [(":status", "200"), ("a b", "c")], [(":status", "200"), ("a:", "c")], [(":status", "200"), ("", "c")],
            [(":status", "200"), ("a", "b\r\nc: d")], [(":status", "200"), ("a", "b\nc")],
            [(":status", "200"), ("a", "\0")],
            [(":status", "200"), ("a", " b")], [(":status", "200"), ("a", "b\t")],
            [(":status", "200"), ("connection", "close")], [(":status", "200"), ("transfer-encoding", "chunked")],
            [(":status", "200"), ("keep-alive", "timeout=5")], [(":status", "200"), ("upgrade", "h2c")],
            [(":status", "200"), ("proxy-connection", "close")],
        ] as [[(String, String)]])
    func malformed(fields: [(String, String)]) {
        #expect(throws: HTTP2ResponseHead.Problem.malformed) { try convert(fields) }
    }

    @Test("Names and values cost linear time, also texts that are slow to normalize")
    func linear() {
        let heads: [(String) -> [(String, String)]] = [
            { [(":\($0)", "200")] }, { [($0, "200")] }, { [(":status", $0)] }, { [(":status", "200"), ("a", $0)] },
        ]
        for head in heads {
            let ratio = LinearTime.ratio(ofMarks: { _ = try? convert(head($0)) })
            #expect(ratio < 4, "\(ratio)")
        }
    }

    @Test("The limits of heads apply to one response")
    func limits() throws {
        let limits = HeadLimits(head: 1_024, fields: 3)
        _ = try convert([(":status", "200"), ("a", String(repeating: "b", count: 900))], limits: limits)
        #expect(throws: HTTP2ResponseHead.Problem.tooLarge) {
            try convert([(":status", "200"), ("a", String(repeating: "b", count: 1_100))], limits: limits)
        }
        #expect(throws: HTTP2ResponseHead.Problem.tooLarge) {
            try convert([(":status", "200")] + (0..<4).map { ("a\($0)", "b") }, limits: limits)
        }
    }

    @Test("Trailers are checked like fields, and pseudo-fields are none")
    func trailers() throws {
        let converter = HTTP2ResponseHead(limits: HeadLimits())
        let section = try converter.trailers(HPACKHeaders([("grpc-status", "0"), ("a", "b")]))
        expect(section.map { String(buffer: $0.bytes) }, equals: "grpc-status: 0\r\na: b\r\n")
        try expect(converter.trailers(HPACKHeaders()), equals: nil)
        for bad in [(":status", "200"), ("A", "b"), ("a", "b\r\n"), ("connection", "close")] {
            #expect(throws: HTTP2ResponseHead.Problem.malformed) { try converter.trailers(HPACKHeaders([bad])) }
        }
    }
}

@Suite("Responses on a stream of an HTTP/2 connection to an upstream")
struct UpstreamStreamStateMachineTests {
    private static func makeRequest(isHead: Bool = false) throws -> UpstreamRequest {
        UpstreamRequest(
            isHeadRequest: isHead, upgrade: .none,
            responsePolicy: try GatewaySetup().makeConfig().responsePolicy, injectedSecrets: .none)
    }

    /// Applies a script of frames: field lists, and numbers of bytes.
    private enum Frame { case head([(String, String)], ends: Bool), data(Int, ends: Bool) }

    private func run(_ frames: [Frame], isHead: Bool = false) throws -> [String] {
        var machine = UpstreamStreamStateMachine(try Self.makeRequest(isHead: isHead), limits: HeadLimits())
        return frames.map { frame in
            switch frame {
            case .head(let fields, let ends):
                var head = ResponseHead()
                return switch machine.headersReceived(HPACKHeaders(fields), endsStream: ends, into: &head) {
                case .informational: "informational"
                case .head(_, let framing, let isEnd): "head \(framing)\(isEnd ? " end" : "")"
                case .end(let trailers): "end \(trailers?.fields.count ?? 0)"
                case .fail: "fail"
                case .ignore: "ignore"
                }
            case .data(let count, let ends): return "\(machine.dataReceived(count, endsStream: ends))"
            }
        }
    }

    @Test("Interim responses, head, body and trailers in this order")
    func order() throws {
        let ok = Frame.head([(":status", "200")], ends: false)
        try expect(
            run([
                .head([(":status", "103")], ends: false), ok, .data(3, ends: false), .data(0, ends: false),
                .head([("a", "b")], ends: true), .data(1, ends: false),
            ]), equals: ["informational", "head chunked", "deliver", "deliver", "end 1", "ignore"])
        try expect(run([ok, .data(3, ends: true)]), equals: ["head chunked", "deliverAndEnd"])
        try expect(run([.data(3, ends: false), ok]), equals: ["fail", "ignore"])
        try expect(run([ok, .head([("a", "b")], ends: false)]), equals: ["head chunked", "fail"])
        try expect(run([.head([(":status", "103")], ends: true)]), equals: ["fail"])
    }

    @Test("The body has the length that the head announces")
    func length() throws {
        let five = Frame.head([(":status", "200"), ("content-length", "5")], ends: false)
        try expect(
            run([five, .data(2, ends: false), .data(3, ends: true)]),
            equals: [
                "head length(5)", "deliver", "deliverAndEnd",
            ])
        try expect(run([five, .data(6, ends: false)]), equals: ["head length(5)", "fail"])
        try expect(run([five, .data(4, ends: true)]), equals: ["head length(5)", "fail"])
        try expect(run([five, .head([("a", "b")], ends: true)]), equals: ["head length(5)", "fail"])
        try expect(run([.head([(":status", "200"), ("content-length", "5")], ends: true)]), equals: ["fail"])
        for value in ["a", "-1", "5, 5", ""] {
            try expect(run([.head([(":status", "200"), ("content-length", value)], ends: false)]), equals: ["fail"])
        }
        try expect(
            run([.head([(":status", "200"), ("content-length", "5"), ("content-length", "5")], ends: false)]),
            equals: [
                "fail"
            ])
    }

    @Test("Responses without a body")
    func bodyless() throws {
        let announced = Frame.head([(":status", "200"), ("content-length", "5")], ends: true)
        try expect(run([announced], isHead: true), equals: ["head none end"])
        try expect(run([.head([(":status", "304"), ("content-length", "5")], ends: true)]), equals: ["head none end"])
        try expect(
            run([.head([(":status", "204")], ends: false), .data(1, ends: true)]), equals: ["head none", "fail"])
        try expect(
            run([.head([(":status", "204")], ends: false), .data(0, ends: true)]),
            equals: ["head none", "deliverAndEnd"])
        try expect(run([.head([(":status", "200")], ends: true)]), equals: ["head none end"])
    }

    @Test("A head that ends the stream gets a length, unless it is the only section of a gRPC response")
    func headOnly() throws {
        for (type, expected) in [("text/plain", true), ("application/grpc+proto", false)] {
            var machine = UpstreamStreamStateMachine(try Self.makeRequest(), limits: HeadLimits())
            var head = ResponseHead()
            let list = HPACKHeaders([(":status", "200"), ("content-type", type)])
            _ = machine.headersReceived(list, endsStream: true, into: &head)
            expect(String(buffer: head.bytes).contains("content-length: 0\r\n"), equals: expected)
            expect(String(buffer: head.bytes).hasSuffix("\r\n\r\n"))
            expect(head.fields.count, equals: (expected ? 2 : 1))
        }
    }
}
