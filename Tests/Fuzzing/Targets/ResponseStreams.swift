import CloakroomCore
import CloakroomWire
import NIOCore

extension FuzzTarget {
    /// An upstream connection: a sequence of responses, and their forwarded form.
    static let responses = FuzzTarget(
        "responses",
        words: FuzzDictionary.all + [
            "HTTP/1.1 200 OK\r\n", "HTTP/1.1 100 \r\n\r\n", "HTTP/1.1 204 \r\n", "HTTP/1.0 304\r\n", "Set-Cookie: ",
            "Content-Type: text/event-stream",
        ]
    ) { bytes throws(Violation) in
        for isToHead in [false, true] {
            let stream = try MessageChecks.read(bytes, isToHead: isToHead, as: ResponseHead.self)
            for message in stream.messages {
                let plain = try PlainHead(message.head.bytes)
                try ResponseChecks.checkStartLine(message.head, plain)
                try plain.check(message.head.fields, in: message.head.bytes)
                guard let framing = message.framing else { continue }
                let status = message.head.status
                let hasBody = !isToHead && status >= 200 && status != 204 && status != 304
                try MessageChecks.checkFraming(framing, of: plain, hasBody: hasBody, isResponse: true)
                if message.isComplete { try ResponseChecks.forward(message, plain, isToHead: isToHead) }
            }
        }
    }
}

extension FuzzTarget {
    /// The value of each field that may have references, in a response of a route that rewrites paths.
    static let references = FuzzTarget(
        "references",
        words: [
            "/", "//", "/a", "/v2", "http://", "HTTPS://", "api.test", ":443", ":", "<", ">", ",", ";", "\"", "\\", "'",
            "=", "url=", "5;", "Path=", "Domain=", "__Host-", "?", "#", "@", "\t", " ", "javascript:", "..",
        ],
        times: [
            LinearTime([
                .repeated("targets", "</>,"), .repeated("open targets", "<"), .repeated("closed targets", "<>"),
                .repeated("quotation marks", "\""), .repeated("backslashes", "\\", prefix: "\""),
                .repeated("paths", ";path=/"), .repeated("domains", ";domain=api.test"), .repeated("semicolons", ";"),
                .repeated("equals signs", "="), .repeated("digits", "1"),
                .repeated("blanks", " ", prefix: "5;", suffix: "u"),
                .repeated("slashes", "/"), .repeated("a long path", "/v2/a"),
                .repeated("a long host", "a", prefix: "http://"), .repeated("origins", "http://api.test"),
            ]) { bytes in
                for name in ReferenceChecks.names {
                    _ = ReferenceChecks.rewrite(name, bytes, ReferenceChecks.stripping)
                }
            }
        ]
    ) { bytes throws(Violation) in
        for name in ReferenceChecks.names {
            guard let once = ReferenceChecks.rewrite(name, bytes, ReferenceChecks.stripping) else { continue }
            if let twice = ReferenceChecks.rewrite(name, once, ReferenceChecks.stripping) {
                try require(PlainHead.trimmed(once[...]) == twice, "\(name) changes again")
            }
            guard name == "Location" else { continue }
            for rewrite in [ReferenceChecks.stripping, ReferenceChecks.adding] {
                guard let result = ReferenceChecks.rewrite(name, bytes, rewrite),
                    result != PlainHead.trimmed(bytes[...])
                else { continue }
                // Browsers ignore tabs, and read a backslash as a slash.
                try require(result.first == UInt8(ascii: "/"), "a changed reference is not a path")
                let second = result.dropFirst().first
                try require(second.map { $0 > 0x20 && !"/\\".utf8.contains($0) } ?? true, "a path became an origin")
            }
        }
    }
}

private enum ReferenceChecks {
    static let names = ["Location", "Refresh", "Link", "Set-Cookie"]
    static let stripping = rewrite("/a/*", "/*")
    static let adding = rewrite("/*", "/v2/*")

    private static func rewrite(_ path: String, _ sent: String) -> PathRewrite? {
        guard let path = try? PathPattern(path), let sent = try? PathPattern(sent) else { return nil }
        return try? PathRewrite(from: path, to: sent)
    }

    /// The value that a field becomes; `nil` if it is not a valid value.
    static func rewrite(_ name: String, _ value: [UInt8], _ rewrite: PathRewrite?) -> [UInt8]? {
        var buffer = ByteBuffer(string: "HTTP/1.1 200 OK\r\n\(name): ")
        buffer.writeBytes(value)
        buffer.writeString("\r\n\r\n")
        var parser = HeadParser(limits: HeadLimits(head: 65_535))
        var head = ResponseHead()
        guard let rewrite, let isComplete = try? parser.parse(&buffer, into: &head), isComplete,
            buffer.readableBytes == 0, head.fields.count == 1
        else { return nil }
        var references = ReferenceRewriter(rewrite, isSecure: true)
        references.apply(&head, host: Array("api.test".utf8))
        return Array(references.lines.dropFirst(name.utf8.count + 2).dropLast(2))
    }
}

private enum ResponseChecks {
    static let policy = ResponseHeaderPolicy(cookie: SessionCookie(.defaults))
    static let trailers = TrailerPolicy(injectable: Forbidden.injectable)

    static func checkStartLine(_ head: ResponseHead, _ plain: PlainHead) throws(Violation) {
        let line = plain.startLine
        let text = String(decoding: line, as: UTF8.self)
        try require(text.hasPrefix("HTTP/1.") && line.count >= 12, "the status line \(text.debugDescription)")
        try require(
            String(decoding: line[9..<12], as: UTF8.self) == "\(head.status)", "the status was parsed differently")
        try require((100...999).contains(head.status), "the status \(head.status)")
        let bytes = Array(head.bytes.readableBytesView)
        try require(
            Array(bytes[head.reason.start..<head.reason.end]) == Array(line.dropFirst(13)),
            "the reason was parsed differently")
        try require(!line.contains { $0 < 0x20 && $0 != 0x09 || $0 == 0x7f }, "a control in a status line")
    }

    /// Writes a response in its forwarded form, parses that as a client would, and compares both.
    static func forward(
        _ message: MessageStream<ResponseHead>.Message, _ plain: PlainHead, isToHead: Bool
    ) throws(Violation) {
        var marked = message.head
        _ = policy.apply(&marked)
        let body = MessageChecks.body(message, policy: trailers)
        let kept = MessageChecks.keptLines(marked)
        let head = Array("HTTP/1.1".utf8) + Array(plain.startLine.dropFirst(8)) + [0x0d, 0x0a] + kept
        let sent = head + Array((body.field + "\r\n").utf8) + body.bytes
        let received = MessageStream<ResponseHead>(
            sent, limits: HeadLimits(head: 65_535, fields: 101), isToHead: isToHead, pieces: [sent.count])
        try require(received.error == nil, "forwarded response rejected: \(received.error.map { "\($0)" } ?? "")")
        guard let again = received.messages.first, received.messages.count == 1, received.leftover.isEmpty else {
            throw Violation("one response was parsed, and \(received.messages.count) are forwarded")
        }
        try require(again.isComplete && again.body == message.body, "the forwarded body differs")
        var second = again.head
        _ = policy.apply(&second)
        try require(MessageChecks.keptLines(second) == kept, "parsing a forwarded response drops lines")
        for field in try PlainHead(again.head.bytes).fields where field.name == "set-cookie" {
            let name = String(decoding: field.value, as: UTF8.self).drop { $0 == "=" || $0 == " " || $0 == "\t" }
            try require(!name.hasPrefix("__Host-cloakroom="), "an upstream set the session cookie")
        }
        if let section = message.trailers { try MessageChecks.checkTrailers(section, policy: trailers) }
    }
}
