public import CloakroomWire
import NIOCore

/// The session cookie: read from requests, removed from forwarded requests, set and cleared in responses.
///
/// Immutable; a class, because every request uses it several times.
public final class SessionCookie: Sendable {
    /// The name as bytes.
    private let name: [UInt8]
    /// What the names of login cookies begin with; `nil` if no provider is configured.
    private let loginPrefix: [UInt8]?
    /// The name of the bound cookie, which begins with ``name``; `nil` if no session is bound to a device.
    private let boundName: [UInt8]?
    private let configuration: CookieConfiguration
    /// What follows the value in `Set-Cookie`. Browsers delete a cookie only with the `Domain` that it was set with (RFC
    /// 6265bis §5.7).
    private let attributes: String

    /// Creates the cookie from its configuration.
    /// - Parameters:
    ///   - hasLogins: Whether there are login cookies, which no upstream may receive, set or clear.
    ///   - hasDevices: Whether there is a bound cookie, for which the same holds.
    public init(_ configuration: CookieConfiguration, hasLogins: Bool = false, hasDevices: Bool = false) {
        self.configuration = configuration
        boundName = hasDevices ? Array(configuration.boundName.utf8) : nil
        self.name = Array(configuration.name.utf8)
        loginPrefix = hasLogins ? Array(configuration.loginPrefix.utf8) : nil
        let domain = configuration.domain.map { "; Domain=\($0)" } ?? ""
        let secure = configuration.isSecure ? "; Secure" : ""
        let partitioned = configuration.isPartitioned && configuration.sameSite == .always ? "; Partitioned" : ""
        attributes =
            "; Path=/\(domain); HttpOnly\(secure); SameSite=\(configuration.sameSite.rawValue)\(partitioned)"
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
        var others = OtherCookies()
        return read(head, others: &others)
    }

    /// Reads the ticket, and finds the other cookies.
    package func read(_ head: borrowing RequestHead, others: inout OtherCookies) -> ParseResult {
        let bytes = head.bytes.readableBytesUInt8Span
        var reading = ParseResult.absent
        for field in head.fields where field.name == .cookie {
            var pairs = CookiePairIterator(field.valueRange)
            while let pair = pairs.next(bytes) {
                guard isSessionCookie(pair, bytes) else {
                    let isBound = isBoundCookie(pair.name, bytes)
                    if isBound { others.bound.add(pair.value) } else { others.hasForeign = true }
                    continue
                }
                let value = bytes.extracting(pair.value.start..<pair.value.end)
                guard let ticket = SessionTicket(cookieValue: value), reading == .absent || reading == .ticket(ticket)
                else {
                    // The rest is not read.
                    others.hasForeign = true
                    return .invalid
                }
                reading = .ticket(ticket)
            }
        }
        return reading
    }

    /// The maximum number of tickets of one request whose sessions are ended.
    private static let maxTickets = 4

    /// The tickets of a request, also of one whose cookies are ``ParseResult/invalid``: the last four different ones,
    /// because browsers send those of the path `/`, as the gateway's own, last (RFC 6265 §5.4). They admit nothing. A
    /// sign-out ends their sessions, so that a cookie which another host has set does not prevent it.
    public func tickets(_ head: borrowing RequestHead) -> [SessionTicket] {
        var tickets: [SessionTicket] = []
        let bytes = head.bytes.readableBytesUInt8Span
        for field in head.fields where field.name == .cookie {
            var pairs = CookiePairIterator(field.valueRange)
            while let pair = pairs.next(bytes) {
                guard isSessionCookie(pair, bytes),
                    let ticket = SessionTicket(cookieValue: bytes.extracting(pair.value.start..<pair.value.end)),
                    !tickets.contains(ticket)
                else { continue }
                if tickets.count == Self.maxTickets { tickets.removeFirst() }
                tickets.append(ticket)
            }
        }
        return tickets
    }

    /// Whether requests may have other cookies of the gateway.
    var hasOthers: Bool { loginPrefix != nil || boundName != nil }

    /// The login cookies of a request. Their values are not verified. The limits of a request's head bound their
    /// number.
    public func loginCookies(_ head: borrowing RequestHead) -> [ReceivedCookie] {
        var cookies: [ReceivedCookie] = []
        guard loginPrefix != nil else { return cookies }
        let bytes = head.bytes.readableBytesUInt8Span
        for field in head.fields where field.name == .cookie {
            var pairs = CookiePairIterator(field.valueRange)
            while let pair = pairs.next(bytes) {
                guard isLoginCookie(pair.name, bytes) else { continue }
                let name = head.copy(of: pair.name)
                // A name that could end the value of `Set-Cookie` is not cleared.
                guard name.allSatisfy(Byte.isToken) else { continue }
                cookies.append(
                    ReceivedCookie(name: String(decoding: name, as: UTF8.self), value: head.copy(of: pair.value)))
            }
        }
        return cookies
    }

    /// Writes the cookies of a `Cookie` field other than those of the gateway: `Cookie: ` before the first, `; ` before
    /// the others, no line end.
    /// - Returns: Whether anything was written, by this call or by an earlier one as passed in `hasWritten`.
    public func writeOtherCookies(
        of field: FieldSlice, from bytes: Span<UInt8>, into writer: inout HeadWriter, hasWritten: Bool
    ) -> Bool {
        let value = field.valueRange
        // Often it is the only one.
        if value.count > name.count, bytes[value.start + name.count] == UInt8(ascii: "="),
            Self.isName(name, ByteRange(start: value.start, count: name.count), bytes),
            FieldScan.first(UInt8(ascii: ";"), in: bytes, from: value.start, to: value.end) == value.end
        {
            return hasWritten
        }
        var hasWritten = hasWritten
        var pairs = CookiePairIterator(value)
        while let pair = pairs.next(bytes) {
            guard !isSessionCookie(pair, bytes), !isLoginCookie(pair.name, bytes), !isBoundCookie(pair.name, bytes)
            else { continue }
            if hasWritten { writer.append("; ") } else { writer.append("Cookie: ") }
            writer.append(bytes.bytes, pair.whole)
            hasWritten = true
        }
        return hasWritten
    }

    /// Whether a `Set-Cookie` value sets or clears the session cookie, a login cookie or the bound cookie. Upstreams must not
    /// do either.
    public func setsSessionCookie(by value: Span<UInt8>) -> Bool {
        var index = 0
        // Browsers return a cookie without a name as its value alone: `=name=value` would set the session cookie.
        while index < value.count, value[index] == 0x20 || value[index] == 0x09 || value[index] == UInt8(ascii: "=") {
            index += 1
        }
        var end = index
        while end < value.count, value[end] != UInt8(ascii: "="), value[end] != UInt8(ascii: ";") { end += 1 }
        while end > index, value[end - 1] == 0x20 || value[end - 1] == 0x09 { end -= 1 }
        let range = ByteRange(start: index, count: end - index)
        return isLoginCookie(range, value) || isBoundCookie(range, value) || Self.isName(name, range, value)
    }

    /// The `Set-Cookie` value that sends a ticket after sign-in.
    /// - Parameter maxAge: The lifetime of the cookie, rounded down to seconds; `nil` for one that expires with the browser
    ///   session. See ``CookieConfiguration/maxAge(isRequested:sessionEnd:now:)``.
    public func setCookieValue(_ ticket: SessionTicket, maxAge: Duration? = nil) -> String {
        let lifetime = maxAge.map { "; Max-Age=\($0.components.seconds)" } ?? ""
        return "\(configuration.name)=\(ticket.cookieValue)\(attributes)\(lifetime)"
    }

    /// The `Set-Cookie` value that clears the ticket.
    public var clearCookieValue: String {
        "\(configuration.name)=\(attributes); Max-Age=0"
    }

    /// The attributes of the bound cookie but its lifetime. Those of the session cookie, so that both are sent with the same
    /// requests.
    package var boundAttributes: String { String(attributes.dropFirst(2)) }

    /// The `Set-Cookie` value with a proof.
    package func boundCookieValue(_ proof: String, maxAge: Duration) -> String {
        "\(configuration.boundName)=\(proof)\(attributes); Max-Age=\(maxAge.components.seconds)"
    }

    /// The field line that clears the ticket.
    package var clearingLine: [UInt8] { Array("Set-Cookie: \(clearCookieValue)\r\n".utf8) }

    /// Names that differ only in case are other cookies (RFC 6265 §4.1.1).
    private func isLoginCookie(_ range: ByteRange, _ bytes: Span<UInt8>) -> Bool {
        guard let loginPrefix, range.count >= loginPrefix.count else { return false }
        return Self.isName(loginPrefix, ByteRange(start: range.start, count: loginPrefix.count), bytes)
    }

    private func isBoundCookie(_ range: ByteRange, _ bytes: Span<UInt8>) -> Bool {
        guard let boundName else { return false }
        return Self.isName(boundName, range, bytes)
    }

    private func isSessionCookie(_ pair: CookiePairIterator.Pair, _ bytes: Span<UInt8>) -> Bool {
        Self.isName(name, pair.name, bytes)
    }

    @inline(__always)
    private static func isName(_ name: [UInt8], _ range: ByteRange, _ bytes: Span<UInt8>) -> Bool {
        range.count == name.count && bytes.extracting(range.start..<range.end).isSameSecret(as: name.span)
    }
}

/// The cookies of a request besides the session cookie.
package struct OtherCookies: Sendable, Equatable {
    /// The position of the bound cookie's value.
    package var bound = SingletonField.absent
    /// Whether there may be one that is not the gateway's. Login cookies count as such.
    package var hasForeign = false

    package init() {}
}

/// A cookie of a request. Its value is not verified.
public struct ReceivedCookie: Sendable, Equatable, Unprintable {
    /// The name: a token.
    public var name: String
    /// The value as it was sent.
    public var value: [UInt8]

    package init(name: String, value: [UInt8]) {
        self.name = name
        self.value = value
    }
}

extension CookieConfiguration {
    /// What the names of login cookies begin with. They are for this host only, with a session cookie for several too.
    package var loginPrefix: String {
        let host = domain == nil ? name : Self.hostPrefix + name.dropFirst(Self.securePrefix.count)
        return host + "-login-"
    }

    /// The name of the bound cookie. It is for this host only: a session that several hosts share is bound to no device.
    package var boundName: String { name + "-bound" }
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
        index = FieldScan.first(UInt8(ascii: ";"), in: bytes, from: start, to: end)
        var valueStart = FieldScan.first(UInt8(ascii: "="), in: bytes, from: start, to: index)
        let nameEnd = trimmed(bytes, from: start, to: valueStart)
        if valueStart < index {
            valueStart += 1
            while valueStart < index, bytes[valueStart] == 0x20 || bytes[valueStart] == 0x09 { valueStart += 1 }
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

/// Encrypts and authenticates the content of a cookie that only the gateway reads, with AES-256-GCM under a key that is
/// used for nothing else.
///
/// The name of the cookie is part of the authenticated data: the content of one cookie is invalid in another.
/// Implemented by `CloakroomSessions`.
public protocol CookieSealing: Sendable {
    /// Seals content under the newest secret.
    /// - Returns: `nil` if the cipher fails, which is not expected.
    func seal(_ content: [UInt8], name: String) -> [UInt8]?
    /// Opens content that was sealed for the same name under a known secret.
    /// - Returns: `nil` for anything else; the reason is not revealed.
    func open(_ sealed: [UInt8], name: String) -> [UInt8]?
}
