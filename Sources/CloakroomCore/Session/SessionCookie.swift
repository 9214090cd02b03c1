public import CloakroomWire
import NIOCore

/// The session cookie: read from requests, removed from forwarded requests, set and cleared in responses.
///
/// Immutable; a class, because every request uses it several times.
public final class SessionCookie: Sendable {
    /// The name as bytes.
    private let name: [UInt8]
    private let configuration: CookieConfiguration

    /// Creates the cookie from its configuration.
    public init(_ configuration: CookieConfiguration) {
        self.configuration = configuration
        self.name = Array(configuration.name.utf8)
    }

    /// The result of reading the cookie from a request.
    public enum ParseResult: Sendable, Equatable {
        /// The request has no such cookie.
        case absent
        /// A value that cannot be a ticket, or two different values: no session.
        case invalid
        /// One well-formed ticket.
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

    /// Writes the cookies of a `Cookie` field other than the session cookie: `Cookie: ` before the first, `; ` before
    /// the others, no line end.
    /// - Returns: Whether anything was written, by this call or by an earlier one as passed in `hasWritten`.
    public func writeOtherCookies(
        of field: FieldSlice, from bytes: Span<UInt8>, into writer: inout HeadWriter, hasWritten: Bool
    ) -> Bool {
        var hasWritten = hasWritten
        var pairs = CookiePairIterator(field.valueRange)
        while let pair = pairs.next(bytes) {
            guard !isSessionCookie(pair, bytes) else { continue }
            if hasWritten { writer.append("; ") } else { writer.append("Cookie: ") }
            writer.append(bytes.bytes, pair.whole)
            hasWritten = true
        }
        return hasWritten
    }

    /// Whether a `Set-Cookie` value sets or clears the session cookie. Upstreams must not do either.
    public func setsSessionCookie(by value: Span<UInt8>) -> Bool {
        var index = 0
        // Browsers return a cookie without a name as its value alone: `=name=value` would set the session cookie.
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

    /// The `Set-Cookie` value that sends a ticket after sign-in. The cookie expires with the browser session.
    public func setCookieValue(_ ticket: SessionTicket) -> String {
        "\(configuration.name)=\(ticket.cookieValue)\(attributes)"
    }

    /// The `Set-Cookie` value that clears the ticket.
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

/// Iterates over the pairs of one `Cookie` field.
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
            index = FieldScan.first(UInt8(ascii: ";"), in: bytes, from: index, to: end)
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
