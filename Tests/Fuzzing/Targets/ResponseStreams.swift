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
