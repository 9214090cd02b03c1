import CloakroomCore
import CloakroomWire
import NIOCore

extension FuzzTarget {
    /// The values of `Cookie` fields, one a line, and `Set-Cookie` values (RFC 6265 §4.2).
    static let cookies = FuzzTarget(
        "cookies",
        words: [
            "__Host-cloakroom=", "__Host-cloakroom", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
            "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAE", ";", "; ", "=", " ", "\t", "\n", ",", "\"", "a=b",
        ],
        times: [
            LinearTime(CookieChecks.families) { bytes in
                let values = bytes.split(separator: 0x0a, omittingEmptySubsequences: false).map(Array.init)
                guard let head = CookieChecks.head(values) else { return }
                let cookie = SessionCookie(.defaults)
                _ = cookie.read(head)
                var buffer = ByteBuffer()
                var hasWritten = false
                buffer.writeHead(reserving: head.bytes.readableBytes + 16) { writer in
                    hasWritten = false
                    for field in head.fields {
                        hasWritten = cookie.writeOtherCookies(
                            of: field, from: head.bytes.readableBytesUInt8Span, into: &writer, hasWritten: hasWritten)
                    }
                }
                _ = cookie.setsSessionCookie(by: bytes.span)
            }
        ]
    ) { bytes throws(Violation) in
        let values = bytes.split(separator: 0x0a, omittingEmptySubsequences: false).prefix(50).map(Array.init)
        guard let head = CookieChecks.head(values) else { return }
        let cookie = SessionCookie(.defaults)
        let ours = values.flatMap(CookieChecks.pairs).filter { $0.name == CookieChecks.name }.map(\.value)
        switch cookie.read(head) {
        case .absent: try require(ours.isEmpty, "the session cookie is present, and was not found")
        case .invalid:
            try require(!ours.isEmpty, "no session cookie is present")
            let distinct = Set(ours)
            try require(
                distinct.count > 1 || distinct.contains { $0.count != 43 || !CookieChecks.isTicket($0) },
                "a valid ticket was rejected")
        case .ticket(let ticket):
            try require(Set(ours) == [Array(ticket.cookieValue.utf8)], "another ticket was parsed than received")
            try require(
                cookie.setsSessionCookie(by: Array(cookie.setCookieValue(ticket).utf8).span),
                "a written session cookie is not detected")
        }
        try CookieChecks.checkOthers(head, values, cookie)
        for value in values where String(decoding: value, as: UTF8.self).hasPrefix("__Host-cloakroom=") {
            try require(cookie.setsSessionCookie(by: value.span), "a received session cookie is not detected")
        }
    }
}

private enum CookieChecks {
    static let name = Array("__Host-cloakroom".utf8)
    static let families: [LinearTime.Family] = [
        .repeated("semicolons", ";"), .repeated("equals signs", "="), .repeated("blanks", " ", prefix: "a=b;"),
        .repeated("blanks between", "; "), .repeated("pairs", "a=b; "), .repeated("names", "a;"),
        .repeated("session cookie prefixes", "__Host-cloakroo="), .repeated("session cookies", "__Host-cloakroom=a; "),
        .repeated("tickets", "__Host-cloakroom=" + String(repeating: "A", count: 43) + "; "),
        .repeated("one long value", "a", prefix: "__Host-cloakroom="), .repeated("fields", "__Host-cloakroom=a\n"),
        .repeated("quotes", "\"", prefix: "a="), .repeated("commas", ","),
        .numbered("many names", separator: "; ") { "name\($0)=\($0)" },
    ]

    static func head(_ values: [[UInt8]]) -> RequestHead? {
        var buffer = ByteBuffer(string: "GET / HTTP/1.1\r\n")
        for value in values {
            buffer.writeString("Cookie: ")
            buffer.writeBytes(value)
            buffer.writeString("\r\n")
        }
        buffer.writeString("\r\n")
        var parser = HeadParser(limits: HeadLimits(head: 65_535))
        var head = RequestHead()
        guard let isComplete = try? parser.parse(&buffer, into: &head), isComplete, buffer.readableBytes == 0 else {
            return nil
        }
        return head
    }

    /// The pairs of a value, by a reference parser. A pair without equals sign has no value.
    static func pairs(_ value: [UInt8]) -> [(name: [UInt8], value: [UInt8])] {
        value.split(separator: UInt8(ascii: ";")).map { PlainHead.trimmed($0) }.filter { !$0.isEmpty }.map { pair in
            guard let equals = pair.firstIndex(of: UInt8(ascii: "=")) else { return (pair, []) }
            return (PlainHead.trimmed(pair[..<equals]), PlainHead.trimmed(pair[(equals + 1)...]))
        }
    }

    /// 32 bytes in base64url: the last of the 43 characters carries only four bits.
    static func isTicket(_ value: [UInt8]) -> Bool {
        let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".utf8)
        guard let last = value.last.flatMap({ alphabet.firstIndex(of: $0) }) else { return false }
        return value.allSatisfy(alphabet.contains) && last.isMultiple(of: 4)
    }

    /// The forwarded field must contain all other pairs in their order, and no session cookie.
    static func checkOthers(_ head: RequestHead, _ values: [[UInt8]], _ cookie: SessionCookie) throws(Violation) {
        var buffer = ByteBuffer()
        var hasWritten = false
        buffer.writeHead(reserving: head.bytes.readableBytes + 16) { writer in
            hasWritten = false
            for field in head.fields {
                hasWritten = cookie.writeOtherCookies(
                    of: field, from: head.bytes.readableBytesUInt8Span, into: &writer, hasWritten: hasWritten)
            }
        }
        try require(hasWritten == (buffer.readableBytes > 0), "the result does not match the written bytes")
        let expected = values.flatMap(pairs).filter { $0.name != name }
        guard hasWritten else {
            try require(expected.isEmpty, "other cookies were dropped")
            return
        }
        try require(buffer.readString(length: 8) == "Cookie: ", "the forwarded line is not a Cookie field")
        let line = Array(buffer.readableBytesView)
        let kept = pairs(line)
        try require(
            kept.count == expected.count
                && zip(kept, expected).allSatisfy { $0.name == $1.name && $0.value == $1.value },
            "other cookies were changed")
        guard let again = Self.head([line]) else { throw Violation("the forwarded Cookie field is rejected") }
        try require(cookie.read(again) == .absent, "the session cookie is forwarded")
    }
}
