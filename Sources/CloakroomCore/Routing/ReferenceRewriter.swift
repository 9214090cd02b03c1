public import CloakroomWire
import NIOCore

/// Changes the references in a response of a route that rewrites paths, so that clients reach what the upstream means.
///
/// It changes path-absolute references, and absolute ones whose host is the one that the request was sent with; their
/// origin is dropped, so a reference never leads to another origin than before. If the path begins with the segments that
/// the rewrite made, they become those that were received. A path that begins with the latter already is not changed
/// again: some applications honour `X-Forwarded-Prefix`.
public struct ReferenceRewriter: Sendable {
    /// What was done about the references of a response.
    public struct Outcome: Sendable, Equatable {
        /// The fields that replace those that were marked as stripped: complete lines.
        public var lines: [UInt8] = []
        /// The number of references that changed.
        public var rewritten = 0
        /// The number of references to this origin for which the route has no path that clients can request.
        public var unmapped = 0
    }

    private enum Change {
        /// The reference stays as it is: it is relative, foreign, or complete already.
        case none
        case rewritten
        case unmapped
    }

    private static let location: StaticString = "location"
    private static let contentLocation: StaticString = "content-location"
    private static let refresh: StaticString = "refresh"
    private static let link: StaticString = "link"

    private let prefixes: PathRewrite.Prefixes?
    private let changesCookiePaths: Bool

    /// Creates the rewriter of a route.
    public init(_ rewrite: PathRewrite) {
        prefixes = rewrite.prefixes
        changesCookiePaths = rewrite.rewritesCookiePaths
    }

    /// Whether a response has a field that may contain a reference.
    public func concerns(_ head: borrowing ResponseHead) -> Bool {
        let bytes = head.bytes.readableBytesUInt8Span
        return head.fields.contains { !$0.isStripped && Self.kind($0, bytes) != nil }
    }

    /// Marks the fields that change as stripped.
    /// - Parameter host: The authority that the request was sent with.
    public func apply(_ head: inout ResponseHead, host: Span<UInt8>) -> Outcome {
        let buffer = head.bytes
        let bytes = buffer.readableBytesUInt8Span
        var outcome = Outcome()
        for index in head.fields.indices where !head.fields[index].isStripped {
            let field = head.fields[index]
            guard let kind = Self.kind(field, bytes) else { continue }
            let start = outcome.lines.count
            Self.copy(bytes, field.nameRange.start..<field.nameRange.end, to: &outcome.lines)
            outcome.lines += [UInt8(ascii: ":"), UInt8(ascii: " ")]
            let value = field.valueRange.start..<field.valueRange.end
            let isChanged =
                switch kind {
                case .reference: append(bytes, value, host, &outcome)
                case .refresh: appendRefresh(bytes, value, host, &outcome)
                case .link: appendLink(bytes, value, host, &outcome)
                case .cookie: appendCookie(bytes, value, host, &outcome)
                }
            if isChanged {
                outcome.lines += [0x0d, 0x0a]
                head.fields[index].isStripped = true
            } else {
                outcome.lines.removeLast(outcome.lines.count - start)
            }
        }
        return outcome
    }

    // MARK: - Fields

    private enum Kind { case reference, refresh, link, cookie }

    private static func kind(_ field: FieldSlice, _ bytes: Span<UInt8>) -> Kind? {
        guard field.name == .other else { return field.name == .setCookie ? .cookie : nil }
        let name = field.nameRange
        switch name.count {
        case link.utf8CodeUnitCount: return ASCII.equals(bytes, name, link) ? .link : nil
        case refresh.utf8CodeUnitCount: return ASCII.equals(bytes, name, refresh) ? .refresh : nil
        case location.utf8CodeUnitCount: return ASCII.equals(bytes, name, location) ? .reference : nil
        case contentLocation.utf8CodeUnitCount: return ASCII.equals(bytes, name, contentLocation) ? .reference : nil
        default: return nil
        }
    }

    /// Appends a reference; unchanged if it does not change.
    /// - Returns: Whether it changed.
    private func append(
        _ bytes: Span<UInt8>, _ range: Range<Int>, _ host: Span<UInt8>, _ outcome: inout Outcome
    ) -> Bool {
        switch change(bytes, range, host, &outcome.lines) {
        case .rewritten:
            outcome.rewritten += 1
            return true
        case .unmapped: outcome.unmapped += 1
        case .none: break
        }
        Self.copy(bytes, range, to: &outcome.lines)
        return false
    }

    /// `Refresh: 5; url=/x` with or without quotation marks (HTML §4.2.4.3, shared declarative refresh steps).
    private func appendRefresh(
        _ bytes: Span<UInt8>, _ range: Range<Int>, _ host: Span<UInt8>, _ outcome: inout Outcome
    ) -> Bool {
        var start = range.lowerBound
        while start < range.upperBound, bytes[start] != UInt8(ascii: ";"), bytes[start] != UInt8(ascii: ",") {
            start += 1
        }
        start = Self.skipBlanks(bytes, min(start + 1, range.upperBound)..<range.upperBound)
        guard start + 3 < range.upperBound, ASCII.hasPrefix(bytes, ByteRange(start: start, count: 3), "url") else {
            return false
        }
        start = Self.skipBlanks(bytes, start + 3..<range.upperBound)
        guard start < range.upperBound, bytes[start] == UInt8(ascii: "=") else { return false }
        start = Self.skipBlanks(bytes, start + 1..<range.upperBound)
        var end = range.upperBound
        if start < end, bytes[start] == UInt8(ascii: "\"") || bytes[start] == UInt8(ascii: "'") {
            let mark = bytes[start]
            start += 1
            end = start
            while end < range.upperBound, bytes[end] != mark { end += 1 }
        }
        Self.copy(bytes, range.lowerBound..<start, to: &outcome.lines)
        let isChanged = append(bytes, start..<end, host, &outcome)
        Self.copy(bytes, end..<range.upperBound, to: &outcome.lines)
        return isChanged
    }

    /// The targets of a list of links: `</a>; rel=next, </b>` (RFC 8288 §3). One pass.
    private func appendLink(
        _ bytes: Span<UInt8>, _ range: Range<Int>, _ host: Span<UInt8>, _ outcome: inout Outcome
    ) -> Bool {
        var isChanged = false
        var isQuoted = false
        var copied = range.lowerBound
        var index = range.lowerBound
        while index < range.upperBound {
            let byte = bytes[index]
            index += 1
            if isQuoted {
                if byte == UInt8(ascii: "\\") { index += 1 }
                if byte == UInt8(ascii: "\"") { isQuoted = false }
            } else if byte == UInt8(ascii: "\"") {
                isQuoted = true
            } else if byte == UInt8(ascii: "<") {
                var end = index
                while end < range.upperBound, bytes[end] != UInt8(ascii: ">") { end += 1 }
                Self.copy(bytes, copied..<index, to: &outcome.lines)
                if append(bytes, index..<end, host, &outcome) { isChanged = true }
                copied = end
                index = end
            }
        }
        Self.copy(bytes, copied..<range.upperBound, to: &outcome.lines)
        return isChanged
    }

    /// Appends a cookie; its first part is the cookie itself. A cookie with the prefix `__Host-` is valid only with
    /// `Path=/` (RFC 6265bis §4.1.3.2).
    private func appendCookie(
        _ bytes: Span<UInt8>, _ range: Range<Int>, _ host: Span<UInt8>, _ outcome: inout Outcome
    ) -> Bool {
        guard !ASCII.hasPrefix(bytes, ByteRange(range), "__host-") else { return false }
        var end = FieldScan.first(UInt8(ascii: ";"), in: bytes, from: range.lowerBound, to: range.upperBound)
        Self.copy(bytes, range.lowerBound..<end, to: &outcome.lines)
        var isChanged = false
        while end < range.upperBound {
            let start = end + 1
            end = FieldScan.first(UInt8(ascii: ";"), in: bytes, from: start, to: range.upperBound)
            if appendAttribute(bytes, start..<end, host, &outcome) { isChanged = true }
        }
        return isChanged
    }

    /// Appends an attribute of a cookie: a changed `Path`, and no `Domain` that is the host of the request, which need not
    /// be that of clients.
    private func appendAttribute(
        _ bytes: Span<UInt8>, _ range: Range<Int>, _ host: Span<UInt8>, _ outcome: inout Outcome
    ) -> Bool {
        let equals = FieldScan.first(UInt8(ascii: "="), in: bytes, from: range.lowerBound, to: range.upperBound)
        let name = ByteRange(Self.trimmed(bytes, range.lowerBound..<equals))
        let value = Self.trimmed(bytes, min(equals + 1, range.upperBound)..<range.upperBound)
        if ASCII.equals(bytes, name, "domain"), Self.isDomain(bytes, value, of: host) { return true }
        outcome.lines.append(UInt8(ascii: ";"))
        guard changesCookiePaths, ASCII.equals(bytes, name, "path") else {
            Self.copy(bytes, range, to: &outcome.lines)
            return false
        }
        Self.copy(bytes, range.lowerBound..<value.lowerBound, to: &outcome.lines)
        switch changeCookiePath(bytes, value, &outcome.lines) {
        case .rewritten:
            outcome.rewritten += 1
            return true
        case .unmapped: outcome.unmapped += 1
        case .none: break
        }
        Self.copy(bytes, value.lowerBound..<range.upperBound, to: &outcome.lines)
        return false
    }

    // MARK: - References

    /// Appends what a reference becomes, if it changes.
    private func change(
        _ bytes: Span<UInt8>, _ range: Range<Int>, _ host: Span<UInt8>, _ result: inout [UInt8]
    ) -> Change {
        let path = Self.pathStart(bytes, range, host)
        guard let start = path, Self.isPath(bytes, start..<range.upperBound) else { return .none }
        guard let prefixes else { return .unmapped }
        if !prefixes.received.isEmpty, Self.end(of: prefixes.received, in: bytes, start..<range.upperBound) != nil {
            guard start > range.lowerBound else { return .none }
            Self.copy(bytes, start..<range.upperBound, to: &result)
            return .rewritten
        }
        guard let end = Self.end(of: prefixes.made, in: bytes, start..<range.upperBound) else { return .unmapped }
        // What follows is the end of the path, or begins with a slash. Without a prefix before it, two slashes would be
        // another origin.
        let hasSlash = end < range.upperBound && bytes[end] == UInt8(ascii: "/")
        if prefixes.received.isEmpty, hasSlash, !Self.isPath(bytes, end..<range.upperBound) { return .none }
        result += prefixes.received
        if !hasSlash, prefixes.received.isEmpty || prefixes.made.isEmpty { result.append(UInt8(ascii: "/")) }
        Self.copy(bytes, end..<range.upperBound, to: &result)
        return .rewritten
    }

    /// The path of a cookie: one that contains all made paths becomes the received prefix.
    private func changeCookiePath(_ bytes: Span<UInt8>, _ range: Range<Int>, _ result: inout [UInt8]) -> Change {
        guard !range.isEmpty, bytes[range.lowerBound] == UInt8(ascii: "/") else { return .none }
        guard let prefixes else { return .unmapped }
        guard prefixes.received.isEmpty || Self.end(of: prefixes.received, in: bytes, range) == nil else {
            return .none
        }
        var end = Self.end(of: prefixes.made, in: bytes, range)
        if end == nil, Self.contains(prefixes.made, bytes, range) { end = range.upperBound }
        guard let end else { return .unmapped }
        // `/` would not contain the received prefix itself with a slash after it.
        let rest = range.count == 1 ? range.upperBound..<range.upperBound : end..<range.upperBound
        result += prefixes.received
        Self.copy(bytes, rest, to: &result)
        if prefixes.received.isEmpty, rest.isEmpty { result.append(UInt8(ascii: "/")) }
        return .rewritten
    }

    /// Where the path of a reference begins: at its start, or after an origin with this host; `nil` for another origin.
    private static func pathStart(_ bytes: Span<UInt8>, _ range: Range<Int>, _ host: Span<UInt8>) -> Int? {
        guard !range.isEmpty else { return nil }
        guard bytes[range.lowerBound] != UInt8(ascii: "/") else { return range.lowerBound }
        let text = ByteRange(range)
        let scheme = ASCII.hasPrefix(bytes, text, "https://") ? 8 : ASCII.hasPrefix(bytes, text, "http://") ? 7 : 0
        let start = range.lowerBound + scheme
        guard scheme > 0, host.count > 0, host.count <= range.upperBound - start else { return nil }
        for index in host.indices where ASCII.lower(bytes[start + index]) != ASCII.lower(host[index]) { return nil }
        let end = start + host.count
        guard end == range.upperBound || isPathEnd(bytes[end]) else { return nil }
        return end
    }

    /// Whether a text is a path with what may follow it, or only what follows an empty one, and nothing that browsers
    /// read as another origin: they read a backslash as a slash and ignore tabs.
    private static func isPath(_ bytes: Span<UInt8>, _ range: Range<Int>) -> Bool {
        guard range.count > 1, bytes[range.lowerBound] == UInt8(ascii: "/") else { return true }
        let second = bytes[range.lowerBound + 1]
        return second != UInt8(ascii: "/") && second != UInt8(ascii: "\\") && second > 0x20
    }

    /// The end of a prefix of whole segments; `nil` if a path does not begin with them.
    private static func end(of prefix: [UInt8], in bytes: Span<UInt8>, _ range: Range<Int>) -> Int? {
        guard prefix.count <= range.count else { return nil }
        for index in prefix.indices where bytes[range.lowerBound + index] != prefix[index] { return nil }
        let end = range.lowerBound + prefix.count
        return end == range.upperBound || isPathEnd(bytes[end]) ? end : nil
    }

    /// Whether a path is one of the parents of a prefix.
    private static func contains(_ prefix: [UInt8], _ bytes: Span<UInt8>, _ range: Range<Int>) -> Bool {
        guard range.count < prefix.count else { return false }
        for index in 0..<range.count where bytes[range.lowerBound + index] != prefix[index] { return false }
        return prefix[range.count] == UInt8(ascii: "/") || prefix[range.count - 1] == UInt8(ascii: "/")
    }

    private static func isPathEnd(_ byte: UInt8) -> Bool {
        byte == UInt8(ascii: "/") || byte == UInt8(ascii: "?") || byte == UInt8(ascii: "#")
    }

    /// Whether the domain of a cookie is the host of an authority.
    private static func isDomain(_ bytes: Span<UInt8>, _ range: Range<Int>, of host: Span<UInt8>) -> Bool {
        let start = !range.isEmpty && bytes[range.lowerBound] == UInt8(ascii: ".") ? 1 : 0
        let domain = range.lowerBound + start..<range.upperBound
        guard !domain.isEmpty, domain.count <= host.count else { return false }
        for index in 0..<domain.count
        where ASCII.lower(bytes[domain.lowerBound + index]) != ASCII.lower(host[index]) { return false }
        return domain.count == host.count || host[domain.count] == UInt8(ascii: ":")
    }

    // MARK: - Text

    private static func skipBlanks(_ bytes: Span<UInt8>, _ range: Range<Int>) -> Int {
        var index = range.lowerBound
        while index < range.upperBound, bytes[index] == 0x20 || bytes[index] == 0x09 { index += 1 }
        return index
    }

    private static func trimmed(_ bytes: Span<UInt8>, _ range: Range<Int>) -> Range<Int> {
        let start = skipBlanks(bytes, range)
        var end = range.upperBound
        while end > start, bytes[end - 1] == 0x20 || bytes[end - 1] == 0x09 { end -= 1 }
        return start..<end
    }

    private static func copy(_ bytes: Span<UInt8>, _ range: Range<Int>, to result: inout [UInt8]) {
        for index in range { result.append(bytes[index]) }
    }
}

extension ByteRange {
    fileprivate init(_ range: Range<Int>) { self.init(start: range.lowerBound, count: range.count) }
}
