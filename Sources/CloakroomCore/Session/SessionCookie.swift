public import CloakroomWire
public import NIOCore

/// The session's cookie on the wire: read from requests, taken out of what is passed on, set and cleared in answers.
///
/// Immutable; a class, because every request asks it several times.
public final class SessionCookie: Sendable {
    /// The name as bytes.
    private let name: [UInt8]
    private let configuration: CookieConfiguration

    /// Makes it from its plan.
    public init(_ configuration: CookieConfiguration) {
        self.configuration = configuration
        self.name = Array(configuration.name.utf8)
    }

    /// What a request carries under the cookie's name.
    public enum ParseResult: Sendable, Equatable {
        /// Nothing.
        case absent
        /// Something that cannot be a ticket, or two different values: no session.
        case invalid
        /// One ticket.
        case ticket(SessionTicket)
    }

    /// Reads the ticket from a request's `Cookie` fields (RFC 6265 §4.2).
    public func read(_ head: borrowing RequestHead) -> ParseResult {
        let bytes = head.bytes.readableBytesUInt8Span
        var reading = ParseResult.absent
        for field in head.fields where field.name == .cookie {
            var pairs = CookiePairIterator(field.valueRange)
            while let pair = pairs.next(bytes) {
                guard isSessionCookie(pair, bytes) else { continue }
                guard let ticket = SessionTicket(cookieValue: bytes.extracting(pair.value.start..<pair.value.end))
                else {
                    return .invalid
                }
                switch reading {
                case .absent: reading = .ticket(ticket)
                case .ticket(let first) where first == ticket: continue
                case .ticket, .invalid: return .invalid
                }
            }
        }
        return reading
    }

    /// Writes what a `Cookie` field holds besides our pair: `Cookie: ` before the first of them, `; ` before the others,
    /// no line end.
    /// - Returns: Whether anything was written, by this or an earlier call as told by `hasWritten`.
    public func writeOtherCookies(
        of field: FieldSlice, from bytes: Span<UInt8>, into buffer: inout ByteBuffer, hasWritten: Bool
    ) -> Bool {
        var hasWritten = hasWritten
        var pairs = CookiePairIterator(field.valueRange)
        while let pair = pairs.next(bytes) {
            guard !isSessionCookie(pair, bytes) else { continue }
            if hasWritten { buffer.writeStaticString("; ") } else { buffer.writeStaticString("Cookie: ") }
            buffer.writeBytes(bytes.extracting(pair.whole.start..<pair.whole.end).bytes)
            hasWritten = true
        }
        return hasWritten
    }

    /// Whether a `Set-Cookie` value sets or clears our cookie. An upstream may not.
    public func setsSessionCookie(by value: Span<UInt8>) -> Bool {
        var index = 0
        // A cookie without a name comes back as its value alone: `=name=value` sets what looks like ours.
        while index < value.count, value[index] == 0x20 || value[index] == 0x09 || value[index] == UInt8(ascii: "=") {
            index += 1
        }
        var end = index
        while end < value.count, value[end] != UInt8(ascii: "="), value[end] != UInt8(ascii: ";") { end += 1 }
        while end > index, value[end - 1] == 0x20 || value[end - 1] == 0x09 { end -= 1 }
        guard end - index == name.count else { return false }
        for offset in name.indices where value[index + offset] != name[offset] { return false }
        return true
    }

    /// The `Set-Cookie` value that gives a ticket to who signed in. It ends with the browser's session.
    public func setCookieValue(_ ticket: SessionTicket) -> String {
        "\(configuration.name)=\(ticket.cookieValue)\(attributes)"
    }

    /// The `Set-Cookie` value that takes the ticket away again.
    public var clearCookieValue: String {
        "\(configuration.name)=\(attributes); Max-Age=0"
    }

    private var attributes: String {
        "; Path=/; HttpOnly\(configuration.isSecure ? "; Secure" : ""); SameSite=\(configuration.sameSite.rawValue)"
    }

    private func isSessionCookie(_ pair: CookiePairIterator.Pair, _ bytes: Span<UInt8>) -> Bool {
        guard pair.name.count == name.count else { return false }
        for offset in name.indices where bytes[pair.name.start + offset] != name[offset] { return false }
        return true
    }
}

/// Goes through the pairs of one `Cookie` field.
private struct CookiePairIterator {
    struct Pair {
        var whole: ByteRange
        var name: ByteRange
        var value: ByteRange
    }

    private var index: Int
    private let end: Int

    init(_ range: ByteRange) {
        index = range.start
        end = range.end
    }

    mutating func next(_ bytes: Span<UInt8>) -> Pair? {
        while index < end, isFiller(bytes[index]) { index += 1 }
        guard index < end else { return nil }
        let start = index
        while index < end, bytes[index] != UInt8(ascii: ";"), bytes[index] != UInt8(ascii: "=") { index += 1 }
        let nameEnd = trimmed(bytes, from: start, to: index)
        var valueStart = index
        if index < end, bytes[index] == UInt8(ascii: "=") {
            index += 1
            while index < end, bytes[index] == 0x20 || bytes[index] == 0x09 { index += 1 }
            valueStart = index
            while index < end, bytes[index] != UInt8(ascii: ";") { index += 1 }
        }
        let valueEnd = max(trimmed(bytes, from: start, to: index), valueStart)
        return Pair(
            whole: ByteRange(start: start, count: max(valueEnd, nameEnd) - start),
            name: ByteRange(start: start, count: nameEnd - start),
            value: ByteRange(start: valueStart, count: valueEnd - valueStart))
    }

    private func isFiller(_ byte: UInt8) -> Bool {
        byte == 0x20 || byte == 0x09 || byte == UInt8(ascii: ";")
    }

    private func trimmed(_ bytes: Span<UInt8>, from start: Int, to end: Int) -> Int {
        var end = end
        while end > start, bytes[end - 1] == 0x20 || bytes[end - 1] == 0x09 { end -= 1 }
        return end
    }
}
