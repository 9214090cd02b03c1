package import CloakroomWire
import NIOCore

/// Changes the references in a response of a route that rewrites paths, so that clients reach what the upstream means.
///
/// It changes path-absolute references, and absolute ones whose origin is the one that the request was sent to; the
/// origin is dropped, so a reference never leads to another origin than before. If the path begins with the segments
/// that the rewrite made, they become those that were received. A path that begins with the latter already is not
/// changed again: some applications honour `X-Forwarded-Prefix`.
package struct ReferenceRewriter {
    /// The fields that replace those that were marked as stripped: complete lines.
    package private(set) var lines: [UInt8] = []
    /// The number of references that changed.
    package private(set) var rewritten = 0
    /// The number of references to this origin for which the route has no path that clients can request.
    package private(set) var unmapped = 0

    /// Beyond this length of ``lines``, in bytes, references stay and count as unmapped: prefixes can be long.
    package static let maxLength = 65_536

    private let rewrite: PathRewrite
    private let isSecure: Bool
    /// The origins of the authority that the request was sent with: one for each scheme that references may have. `nil`
    /// until a field needs them, empty without an authority.
    private var origins: [WebOrigin]?
    /// The head whose fields are read.
    private var source = ByteBuffer().readableBytesView

    /// Creates the rewriter of a response.
    /// - Parameter isSecure: Whether `https` references to the host of the request change too. They must not for a client
    ///   that uses `http`: without its origin, a redirect to `https` would lead back to `http`.
    package init(_ rewrite: PathRewrite, isSecure: Bool) {
        self.rewrite = rewrite
        self.isSecure = isSecure
    }

    private enum Kind {
        case reference, refresh, links, cookie
    }

    /// Whether a response has fields that may have references. Most have none, and need no copy of their head.
    package static func mayChange(_ head: borrowing ResponseHead) -> Bool {
        let bytes = head.bytes.readableBytesUInt8Span
        return head.fields.contains { !$0.isStripped && kind(of: $0.nameRange, bytes) != nil }
    }

    private static func kind(of name: ByteRange, _ bytes: Span<UInt8>) -> Kind? {
        switch name.count {
        case 4 where ASCII.equals(bytes, name, "link"): .links
        case 7 where ASCII.equals(bytes, name, "refresh"): .refresh
        case 8 where ASCII.equals(bytes, name, "location"): .reference
        case 10 where ASCII.equals(bytes, name, "set-cookie"): .cookie
        case 16 where ASCII.equals(bytes, name, "content-location"): .reference
        default: nil
        }
    }

    /// Marks the fields that may have references as stripped. All of them are in ``lines`` then, changed or not, so
    /// that fields of the same name keep their order.
    /// - Parameter host: The authority that the request was sent with; not evaluated without such a field.
    package mutating func apply(_ head: inout ResponseHead, host: @autoclosure () -> [UInt8]) {
        let buffer = head.bytes
        let bytes = buffer.readableBytesUInt8Span
        source = buffer.readableBytesView
        for index in head.fields.indices where !head.fields[index].isStripped {
            let (name, value) = (head.fields[index].nameRange, head.fields[index].valueRange)
            guard let kind = Self.kind(of: name, bytes) else { continue }
            head.fields[index].isStripped = true
            if origins == nil { origins = origins(of: host()) }
            copy(name.start..<name.end)
            lines += [UInt8(ascii: ":"), UInt8(ascii: " ")]
            let range = value.start..<value.end
            switch kind {
            case .reference: append(reference: range, bytes)
            case .refresh: append(refresh: range, bytes)
            case .links: append(links: range, bytes)
            case .cookie: append(cookie: range, bytes)
            }
            lines += [0x0d, 0x0a]
        }
    }

    private func origins(of host: [UInt8]) -> [WebOrigin] {
        let authority = String(decoding: host, as: UTF8.self)
        return (isSecure ? ["http://", "https://"] : ["http://"]).compactMap { WebOrigin($0 + authority) }
    }

    private mutating func copy(_ range: Range<Int>) {
        let start = source.startIndex
        lines += source[(start + range.lowerBound)..<(start + range.upperBound)]
    }

    // MARK: - Fields

    /// `5; url=/x`, `5; /x`, with or without quotation marks (HTML §4.2.4.3, shared declarative refresh steps).
    private mutating func append(refresh value: Range<Int>, _ bytes: Span<UInt8>) {
        var (start, end) = (value.lowerBound, value.upperBound)
        while start < end, ".0123456789".utf8.contains(bytes[start]) { start += 1 }
        start = FieldScan.trimmed(bytes, start..<end).lowerBound
        if start < end, ";,".utf8.contains(bytes[start]) {
            start = FieldScan.trimmed(bytes, (start + 1)..<end).lowerBound
        }
        if ASCII.hasPrefix(bytes, ByteRange(start..<end), "url") {
            let mark = FieldScan.trimmed(bytes, (start + 3)..<end).lowerBound
            if ASCII.hasPrefix(bytes, ByteRange(mark..<end), "=") {
                start = FieldScan.trimmed(bytes, (mark + 1)..<end).lowerBound
            }
        }
        if start < end, "\"'".utf8.contains(bytes[start]) {
            end = FieldScan.first(bytes[start], in: bytes, from: start + 1, to: end)
            start += 1
        }
        copy(value.lowerBound..<start)
        append(reference: start..<end, bytes)
        copy(end..<value.upperBound)
    }

    /// The targets of a list of links: `</a>; rel=next, </b>` (RFC 8288 §3). One pass.
    private mutating func append(links value: Range<Int>, _ bytes: Span<UInt8>) {
        var isQuoted = false
        var (copied, index) = (value.lowerBound, value.lowerBound)
        while index < value.upperBound {
            let byte = bytes[index]
            index += 1
            if byte == UInt8(ascii: "\"") {
                isQuoted.toggle()
            } else if byte == UInt8(ascii: "\\"), isQuoted {
                index += 1
            } else if byte == UInt8(ascii: "<"), !isQuoted {
                let end = FieldScan.first(UInt8(ascii: ">"), in: bytes, from: index, to: value.upperBound)
                copy(copied..<index)
                append(reference: index..<end, bytes)
                (copied, index) = (end, end)
            }
        }
        copy(copied..<value.upperBound)
    }

    /// The attributes `Path`, and `Domain` if it is the host of the request, which need not be that of clients. A
    /// cookie with the prefix `__Host-` has no `Domain`, and is valid only with `Path=/` (RFC 6265bis §4.1.3.2).
    private mutating func append(cookie value: Range<Int>, _ bytes: Span<UInt8>) {
        var copied = value.lowerBound
        var next = FieldScan.first(UInt8(ascii: ";"), in: bytes, from: copied, to: value.upperBound)
        if ASCII.hasPrefix(bytes, ByteRange(value), "__host-") { next = value.upperBound }
        while next < value.upperBound {
            let start = next
            next = FieldScan.first(UInt8(ascii: ";"), in: bytes, from: start + 1, to: value.upperBound)
            let mark = FieldScan.first(UInt8(ascii: "="), in: bytes, from: start + 1, to: next)
            let name = ByteRange(FieldScan.trimmed(bytes, (start + 1)..<mark))
            let text = FieldScan.trimmed(bytes, min(mark + 1, next)..<next)
            if ASCII.equals(bytes, name, "domain"), isHost(text, bytes) {
                copy(copied..<start)
            } else if !rewrite.keepsCookiePaths, ASCII.equals(bytes, name, "path"),
                ASCII.hasPrefix(bytes, ByteRange(text), "/")
            {
                copy(copied..<text.lowerBound)
                append(cookiePath: text, bytes)
            } else {
                continue
            }
            copied = next
        }
        copy(copied..<value.upperBound)
    }

    /// Whether a `Domain` is the host that the request was sent to; a dot before it is ignored (RFC 6265 §5.2.3).
    private func isHost(_ domain: Range<Int>, _ bytes: Span<UInt8>) -> Bool {
        var domain = domain
        while ASCII.hasPrefix(bytes, ByteRange(domain), ".") { domain = domain.dropFirst() }
        return origins?.first.map { ASCII.equals(bytes, ByteRange(domain), $0.hostBytes) } ?? false
    }

    // MARK: - References

    private mutating func append(reference: Range<Int>, _ bytes: Span<UInt8>) {
        let isPath = ASCII.hasPrefix(bytes, ByteRange(reference), "/")
        let start = isPath ? reference.lowerBound : pathStart(of: reference, bytes)
        guard let start else { return copy(reference) }
        append(path: start..<reference.upperBound, of: reference, bytes)
    }

    /// Cookies are sent to all paths below theirs. So if a path is above those that the rewrite makes, it becomes the one
    /// above the received paths.
    private mutating func append(cookiePath path: Range<Int>, _ bytes: Span<UInt8>) {
        let end = bytes[path.upperBound - 1] == UInt8(ascii: "/") ? path.upperBound - 1 : path.upperBound
        guard let (received, made) = rewrite.prefixes, lines.count < Self.maxLength,
            path.count == 1
                || end - path.lowerBound < made.count
                    && Self.begins(made.span, with: bytes.extracting(path.lowerBound..<end))
        else { return append(path: path, of: path, bytes) }
        rewritten += 1
        if received.isEmpty { lines.append(UInt8(ascii: "/")) } else { lines += received }
    }

    /// Appends the path that clients request instead of this one. If there is none, or the path must not change, appends
    /// the reference that it is part of.
    /// - Parameter path: Begins with a slash unless it is empty or only a query or fragment.
    private mutating func append(path: Range<Int>, of reference: Range<Int>, _ bytes: Span<UInt8>) {
        let text = bytes.extracting(path)
        guard Self.staysHere(text) else { return copy(reference) }
        let prefixes = rewrite.prefixes
        let (received, made) = prefixes ?? ([], [])
        let isMade = prefixes != nil && Self.begins(text, with: made.span)
        // Clients can request the path as it is, unless it begins with `received` only because `made` does.
        if !received.isEmpty, !isMade || made.count < received.count, Self.begins(text, with: received.span) {
            return copy(path)
        }
        let rest = path.dropFirst(made.count)
        guard isMade, !received.isEmpty || Self.staysHere(bytes.extracting(rest)), lines.count < Self.maxLength else {
            unmapped += 1
            return copy(reference)
        }
        rewritten += 1
        lines += received
        let isRooted = ASCII.hasPrefix(bytes, ByteRange(rest), "/")
        if !isRooted, received.isEmpty || made.isEmpty { lines.append(UInt8(ascii: "/")) }
        copy(rest)
    }

    /// Where the path of an absolute reference to the host of the request begins; `nil` for another reference. An omitted
    /// port is the default of the scheme.
    private func pathStart(of reference: Range<Int>, _ bytes: Span<UInt8>) -> Int? {
        guard ASCII.hasPrefix(bytes, ByteRange(reference), "http") else { return nil }
        var end = min(reference.lowerBound + 8, reference.upperBound)
        while end < reference.upperBound, !Self.endsSegment(bytes[end]) { end += 1 }
        guard let origin = OriginView(bytes, ByteRange(reference.lowerBound..<end)),
            let origins, origins.contains(where: { $0.matches(origin, bytes) })
        else { return nil }
        return end
    }

    /// Whether a path does not begin with what browsers read as another origin: they read a backslash as a slash and
    /// ignore tabs.
    private static func staysHere(_ path: Span<UInt8>) -> Bool {
        guard path.count > 1, path[0] == UInt8(ascii: "/") else { return true }
        return path[1] > 0x20 && path[1] != UInt8(ascii: "/") && path[1] != UInt8(ascii: "\\")
    }

    /// Whether a text begins with a prefix of whole segments.
    private static func begins(_ text: Span<UInt8>, with prefix: Span<UInt8>) -> Bool {
        guard text.count >= prefix.count else { return false }
        for index in prefix.indices where text[index] != prefix[index] { return false }
        return text.count == prefix.count || endsSegment(text[prefix.count])
    }

    /// Whether a byte is `/`, `?` or `#`.
    private static func endsSegment(_ byte: UInt8) -> Bool { byte == 0x2f || byte == 0x3f || byte == 0x23 }
}

extension ByteRange {
    init(_ range: Range<Int>) { self.init(start: range.lowerBound, count: range.count) }
}
