import CloakroomCore
import CloakroomWire
import NIOCore

extension FuzzTarget {
    /// A client's connection: requests one after the other, and what the upstream would be sent of them.
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
        injectable: Forbidden.injectable, cookie: SessionCookie(CookieConfiguration()))
    static let trailers = TrailerPolicy(injectable: Forbidden.injectable)

    static func checkStartLine(_ head: RequestHead, _ plain: PlainHead) throws(Violation) {
        let words = plain.startLine.split(separator: 0x20, omittingEmptySubsequences: false).map(Array.init)
        try require(words.count == 3, "a request line of \(words.count) words was accepted")
        let bytes = Array(head.bytes.readableBytesView)
        try require(Array(bytes[head.method.start..<head.method.end]) == words[0], "the method was read differently")
        try require(Array(bytes[head.target.start..<head.target.end]) == words[1], "the target was read differently")
        try require(!words[0].isEmpty && words[0].allSatisfy(PlainHead.isToken), "a method that is no token")
        try require(!words[1].isEmpty && !words[1].contains { $0 <= 0x20 || $0 == 0x7f }, "a target with controls")
        let version = String(decoding: words[2], as: UTF8.self)
        try require(version.hasPrefix("HTTP/1.") && version.utf8.count == 8, "the version \(version) was accepted")
        try require(head.minorVersion == (version.hasSuffix("0") ? 0 : 1), "the version was read differently")
    }

    /// Writes a request as it goes on, reads that as an upstream would, and compares.
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
        try require(received.error == nil, "what is sent on is refused: \(received.error.map { "\($0)" } ?? "")")
        guard let again = received.messages.first, received.messages.count == 1, received.leftover.isEmpty else {
            throw Violation("one request was read, and \(received.messages.count) are sent on")
        }
        try require(again.isComplete && again.body == message.body, "the body is not the same behind us")
        var second = again.head
        _ = policy.apply(&second, isTrusted: isTrusted)
        try require(MessageChecks.keptLines(second) == kept, "what went on would not go on again")
        for field in try PlainHead(again.head.bytes).fields where !isTrusted && field.name != "transfer-encoding" {
            try require(!Forbidden.inRequests(field.name), "the field \(field.name) goes on")
        }
        if let section = message.trailers { try MessageChecks.checkTrailers(section, policy: trailers) }
    }
}
