import CloakroomCore
import CloakroomTelemetry
import CloakroomWire
import NIOCore

extension FuzzTarget {
    /// `X-Forwarded-For` of a trusted peer, one field a line: the client address.
    static let forwardedFor = FuzzTarget(
        "forwarded-for",
        words: [
            "10.0.0.1", "203.0.113.7", "::1", "[2001:db8::1]:443", "203.0.113.7:80", ",", ", ", "\n", "unknown",
            "_hidden", "127.1", "010.0.0.1", "::ffff:10.0.0.1", "fe80::1%eth0", "\"", "é", " ", "\t",
        ],
        times: [
            LinearTime([
                .repeated("commas", ","), .repeated("blanks", " "), .repeated("trusted addresses", "10.0.0.1,"),
                .repeated("colons", ":"), .repeated("brackets", "[", suffix: "]"), .repeated("dots", "."),
                .repeated("digits", "1"), .repeated("zeros between colons", "0:"),
                .repeated("addresses with ports", "[fd00::1]:80, "), .repeated("fields", "10.0.0.1\n"),
                .repeated("bytes outside ASCII", "é"),
            ]) { bytes in
                guard let head = FieldLines.head("X-Forwarded-For", bytes) else { return }
                _ = ClientAddress.resolve(head, peer: "10.0.0.9", trusted: FieldLines.trusted)
            }
        ]
    ) { bytes throws(Violation) in
        guard let head = FieldLines.head("X-Forwarded-For", bytes) else { return }
        let found = ClientAddress.resolve(head, peer: "10.0.0.9", trusted: FieldLines.trusted)
        try require(IPAddress.bytes(of: found) != nil, "\(found) is not an address")
        let members = bytes.split { $0 == UInt8(ascii: ",") || $0 == 0x0a }.map { PlainHead.trimmed($0) }
            .filter { !$0.isEmpty }.map { String(decoding: $0, as: UTF8.self) }
        try require(
            found == "10.0.0.9"
                || members.contains { $0 == found || $0.hasPrefix(found + ":") || $0.hasPrefix("[" + found + "]") },
            "\(found) is not in the input")
        // Addresses before the first untrusted one must have no effect.
        guard let longer = FieldLines.head("X-Forwarded-For", Array("198.51.100.1\n".utf8) + bytes) else { return }
        let isTrusted = FieldLines.trusted.contains { $0.contains(found) }
        try require(
            isTrusted || ClientAddress.resolve(longer, peer: "10.0.0.9", trusted: FieldLines.trusted) == found,
            "an untrusted address changes the result")
    }

    /// `traceparent`, and the same bytes as lines of `tracestate` (W3C Trace Context §3).
    static let traceContexts = FuzzTarget(
        "trace-contexts",
        words: [
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "00", "ff", "01", "-", "-00", "-03", "A", "0",
            "\n", "a=b", ",", " ", "\t", "é",
        ],
        times: [
            LinearTime([
                .repeated("digits", "0"), .repeated("dashes", "-"),
                .repeated("a later version", "-00", prefix: "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
                .repeated("members", "a=b,"), .repeated("fields", "a=b\n"), .repeated("empty fields", "\n"),
            ]) { bytes in
                _ = TraceContext(traceparent: bytes.span)
                guard let head = FieldLines.head("tracestate", bytes, also: FieldLines.parent) else { return }
                var buffer = ByteBuffer()
                buffer.writeHead(reserving: 256) { TraceContextFields.read(head).writeTracestate(of: head, into: &$0) }
            }
        ]
    ) { bytes throws(Violation) in
        if let context = TraceContext(traceparent: bytes.span) {
            try require(!context.traceID.isZero && context.spanID != 0, "an id of zeros was accepted")
            let text = context.traceparentText
            try require(
                TraceContext(traceparent: text.utf8.span) == context, "a written context is parsed differently")
            try require(
                bytes[2..<52].elementsEqual(Array(text.utf8)[2..<52]), "other ids were parsed than received")
        }
        guard let head = FieldLines.head("tracestate", bytes, also: FieldLines.parent) else { return }
        var buffer = ByteBuffer()
        buffer.writeHead(reserving: 256) { TraceContextFields.read(head).writeTracestate(of: head, into: &$0) }
        let lines = FieldLines.lines(bytes).map { PlainHead.trimmed($0) }.filter { !$0.isEmpty }
        let expected =
            lines.isEmpty ? [] : Array("tracestate: ".utf8) + Array(lines.joined(separator: [0x2c])) + [0x0d, 0x0a]
        try require(Array(buffer.readableBytesView) == expected, "another trace state is forwarded than received")
    }

    /// The value of `Origin` (RFC 6454 §7).
    static let origins = FuzzTarget(
        "origins",
        words: [
            "https://", "http://", "HTTPS://", "null", "a.example", ":443", ":80", ":", ":99999", ":100000", "[::1]",
            "@",
            "/", "?", "#", ".", "..", "é", " ", "\u{0}",
        ],
        times: [
            LinearTime([
                .repeated("a long host", "a", prefix: "https://"), .repeated("digits", "1", prefix: "https://a:"),
                .repeated("colons", ":", prefix: "https://"),
                .repeated("a long address", ":", prefix: "https://[", suffix: "]"),
                .repeated("dots", ".", prefix: "http://"),
            ]) { _ = WebOrigin(String(decoding: $0, as: UTF8.self)) }
        ]
    ) { bytes throws(Violation) in
        let text = String(decoding: bytes, as: UTF8.self)
        guard let origin = WebOrigin(text) else { return }
        try require(WebOrigin(origin.description) == origin, "the written form of \(origin) is parsed differently")
        try require(
            text.lowercased().hasPrefix(origin.isSecure ? "https://\(origin.host)" : "http://\(origin.host)"),
            "\(origin) was read")
        try require((0...99_999).contains(origin.port), "the port \(origin.port)")
        try require(!origin.host.isEmpty && !origin.host.utf8.contains { "@/?#\\ ".utf8.contains($0) }, "a host")
    }
}

/// Field lines built from an input.
private enum FieldLines {
    static let trusted = ["10.0.0.0/8", "fd00::/8"].compactMap(CIDRBlock.init)
    static let parent = "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n"

    static func lines(_ bytes: [UInt8]) -> [ArraySlice<UInt8>] {
        bytes.split(separator: 0x0a, omittingEmptySubsequences: false)
    }

    /// A request with one field for each line of the input; `nil` if that is not a valid request.
    static func head(_ name: String, _ bytes: [UInt8], also field: String = "") -> RequestHead? {
        var buffer = ByteBuffer(string: "GET / HTTP/1.1\r\n" + field)
        for line in lines(bytes) {
            buffer.writeString(name + ": ")
            buffer.writeBytes(line)
            buffer.writeString("\r\n")
        }
        buffer.writeString("\r\n")
        var parser = HeadParser(limits: HeadLimits(head: 65_535, fields: 1_000))
        var head = RequestHead()
        guard let isComplete = try? parser.parse(&buffer, into: &head), isComplete, buffer.readableBytes == 0 else {
            return nil
        }
        return head
    }
}
