import CloakroomCore
import CloakroomWire
import NIOCore

extension FuzzTarget {
    /// A downstream connection: a sequence of requests, and their forwarded form.
    static let requests = FuzzTarget(
        "requests",
        words: FuzzDictionary.all + [
            "GET / HTTP/1.1\r\n", "POST ", "OPTIONS * ", "Host: a\r\n", "Cookie: __Host-cloakroom=",
        ]
    ) { bytes throws(Violation) in
        _ = try MessageChecks.read(bytes, limits: HeadLimits(fields: 2, target: 8), as: RequestHead.self)
        let stream = try MessageChecks.read(bytes, as: RequestHead.self)
        for message in stream.messages {
            let plain = try PlainHead(message.head.bytes)
            try RequestChecks.checkStartLine(message.head, plain)
            try plain.check(message.head.fields, in: message.head.bytes)
            guard let framing = message.framing else { continue }
            try MessageChecks.checkFraming(framing, of: plain, hasBody: true, isResponse: false)
            guard message.isComplete else { continue }
            try RequestChecks.forward(message, plain, isTrusted: false)
            try RequestChecks.forward(message, plain, isTrusted: true)
        }
    }
}

private enum RequestChecks {
    static let policy = RequestHeaderPolicy(
        injectable: Forbidden.injectable, cookie: SessionCookie(.defaults))
    static let trailers = TrailerPolicy(injectable: Forbidden.injectable)

    static func checkStartLine(_ head: RequestHead, _ plain: PlainHead) throws(Violation) {
        let words = plain.startLine.split(separator: 0x20, omittingEmptySubsequences: false).map(Array.init)
        try require(words.count == 3, "a request line of \(words.count) words was accepted")
        let bytes = Array(head.bytes.readableBytesView)
        try require(Array(bytes[head.method.start..<head.method.end]) == words[0], "the method was parsed differently")
        try require(Array(bytes[head.target.start..<head.target.end]) == words[1], "the target was parsed differently")
        try require(!words[0].isEmpty && words[0].allSatisfy(PlainHead.isToken), "a method that is not a token")
        try require(!words[1].isEmpty && !words[1].contains { $0 <= 0x20 || $0 == 0x7f }, "a target with controls")
        let version = String(decoding: words[2], as: UTF8.self)
        try require(version.hasPrefix("HTTP/1.") && version.utf8.count == 8, "the version \(version) was accepted")
        try require(head.minorVersion == (version.hasSuffix("0") ? 0 : 1), "the version was parsed differently")
    }

    /// Writes a request in its forwarded form, parses that as an upstream would, and compares both.
    static func forward(
        _ message: MessageStream<RequestHead>.Message, _ plain: PlainHead, isTrusted: Bool
    ) throws(Violation) {
        var marked = message.head
        _ = policy.apply(&marked, isTrusted: isTrusted)
        let body = MessageChecks.body(message, policy: trailers)
        let kept = MessageChecks.keptLines(marked)
        let head = Array(plain.startLine.dropLast(8)) + Array("HTTP/1.1\r\n".utf8) + kept
        let sent = head + Array((body.field + "\r\n").utf8) + body.bytes
        let received = MessageStream<RequestHead>(
            sent, limits: HeadLimits(head: 65_535, fields: 101), pieces: [sent.count])
        try require(received.error == nil, "forwarded request rejected: \(received.error.map { "\($0)" } ?? "")")
        guard let again = received.messages.first, received.messages.count == 1, received.leftover.isEmpty else {
            throw Violation("one request was parsed, and \(received.messages.count) are forwarded")
        }
        try require(again.isComplete && again.body == message.body, "the forwarded body differs")
        var second = again.head
        _ = policy.apply(&second, isTrusted: isTrusted)
        try require(MessageChecks.keptLines(second) == kept, "parsing a forwarded request drops lines")
        for field in try PlainHead(again.head.bytes).fields where !isTrusted && field.name != "transfer-encoding" {
            try require(!Forbidden.inRequests(field.name), "the field \(field.name) is forwarded")
        }
        if let section = message.trailers { try MessageChecks.checkTrailers(section, policy: trailers) }
    }
}
