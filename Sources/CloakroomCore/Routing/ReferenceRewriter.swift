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

    private let rewrite: PathRewrite
    /// In lower case.
    private var host: [UInt8] = []
    private let isSecure: Bool

    /// Creates the rewriter of a response.
    /// - Parameter isSecure: Whether `https` references to the host of the request change too. They must not if it is that
    ///   of a client that uses `http`: such a reference may be an upgrade, which would lead back without its origin.
    package init(_ rewrite: PathRewrite, isSecure: Bool) {
        self.rewrite = rewrite
        self.isSecure = isSecure
    }

    private enum Kind: String, CaseIterable {
        case location, refresh, link
        case contentLocation = "content-location"
        case setCookie = "set-cookie"
    }

    private static let kinds = Kind.allCases.map { (kind: $0, name: Array($0.rawValue.utf8)) }

    /// Marks the fields that may have references as stripped. All of them are in ``lines`` then, changed or not, so
    /// that fields of the same name keep their order.
    /// - Parameter host: The authority that the request was sent with; not evaluated without such a field.
    package mutating func apply(_ head: inout ResponseHead, host: @autoclosure () -> [UInt8]) {
        let bytes = head.bytes
        func text(_ range: ByteRange) -> ArraySlice<UInt8> {
            (bytes.getBytes(at: bytes.readerIndex + range.start, length: range.count) ?? [])[...]
        }
        for index in head.fields.indices where !head.fields[index].isStripped {
            let (name, value) = (head.fields[index].nameRange, head.fields[index].valueRange)
            let kind = Self.kinds.first { ASCII.equals(bytes.readableBytesUInt8Span, name, $0.name) }?.kind
            guard let kind else { continue }
            head.fields[index].isStripped = true
            if self.host.isEmpty { self.host = host().map { ASCII.lower($0) } }
            lines += text(name)
            lines += [UInt8(ascii: ":"), UInt8(ascii: " ")]
            switch kind {
            case .location, .contentLocation: append(reference: text(value))
            case .refresh: append(refresh: text(value))
            case .link: append(links: text(value))
            case .setCookie: append(cookie: text(value))
            }
            lines += [0x0d, 0x0a]
        }
    }

    // MARK: - Fields

    /// `5; url=/x`, `5; /x`, with or without quotation marks (HTML §4.2.4.3, shared declarative refresh steps).
    private mutating func append(refresh value: ArraySlice<UInt8>) {
        var text = value.drop { ".0123456789".utf8.contains($0) }.drop(while: Self.isBlank)
        if let mark = text.first, mark == UInt8(ascii: ";") || mark == UInt8(ascii: ",") {
            text = text.dropFirst().drop(while: Self.isBlank)
        }
        if text.prefix(3).map({ ASCII.lower($0) }) == Array("url".utf8) {
            let rest = text.dropFirst(3).drop(while: Self.isBlank)
            if rest.first == UInt8(ascii: "=") { text = rest.dropFirst().drop(while: Self.isBlank) }
        }
        if let mark = text.first, mark == UInt8(ascii: "\"") || mark == UInt8(ascii: "'") {
            text = text.dropFirst().prefix { $0 != mark }
        }
        lines += value[..<text.startIndex]
        append(reference: text)
        lines += value[text.endIndex...]
    }

    /// The targets of a list of links: `</a>; rel=next, </b>` (RFC 8288 §3). One pass.
    private mutating func append(links value: ArraySlice<UInt8>) {
        var isQuoted = false
        var (copied, index) = (value.startIndex, value.startIndex)
        while index < value.endIndex {
            let byte = value[index]
            index += 1
            if byte == UInt8(ascii: "\"") {
                isQuoted.toggle()
            } else if byte == UInt8(ascii: "\\"), isQuoted {
                index += 1
            } else if byte == UInt8(ascii: "<"), !isQuoted {
                let target = value[index...].prefix { $0 != UInt8(ascii: ">") }
                lines += value[copied..<index]
                append(reference: target)
                (copied, index) = (target.endIndex, target.endIndex)
            }
        }
        lines += value[copied...]
    }

    /// The attributes `Path`, and `Domain` if it is the host of the request, which need not be that of clients. A
    /// cookie with the prefix `__Host-` has no `Domain`, and is valid only with `Path=/` (RFC 6265bis §4.1.3.2).
    private mutating func append(cookie value: ArraySlice<UInt8>) {
        guard value.prefix(7).map({ ASCII.lower($0) }) != Array("__host-".utf8) else { return lines += value }
        let parts = value.split(separator: UInt8(ascii: ";"), omittingEmptySubsequences: false)
        lines += parts.first ?? []
        for part in parts.dropFirst() {
            let name = part.prefix { $0 != UInt8(ascii: "=") }
            let text = Self.trimmed(part[name.endIndex...].dropFirst())
            let attribute = String(decoding: Self.trimmed(name), as: UTF8.self).lowercased()
            if attribute == "domain", Self.isDomain(text, of: host) { continue }
            lines.append(UInt8(ascii: ";"))
            if attribute == "path", text.first == UInt8(ascii: "/"), !rewrite.keepsCookiePaths {
                lines += part[..<text.startIndex]
                append(cookiePath: text)
            } else {
                lines += part
            }
        }
    }

    private static func isDomain(_ text: ArraySlice<UInt8>, of host: [UInt8]) -> Bool {
        text.drop { $0 == UInt8(ascii: ".") }.map { ASCII.lower($0) } == Array(host.prefix { $0 != UInt8(ascii: ":") })
    }

    // MARK: - References

    private mutating func append(reference: ArraySlice<UInt8>) {
        var path = reference
        if reference.first != UInt8(ascii: "/") {
            guard let rest = Self.withoutOrigin(reference, host, isSecure: isSecure) else { return lines += reference }
            path = rest.first == UInt8(ascii: "/") ? rest : [UInt8(ascii: "/")] + rest
        }
        append(path: path, of: reference)
    }

    /// A path that contains all paths that are made becomes the one that contains those that were received.
    private mutating func append(cookiePath path: ArraySlice<UInt8>) {
        let parent = path.last == UInt8(ascii: "/") ? path.dropLast() : path
        let made = rewrite.prefixes?.made ?? []
        let isParent = path.count == 1 || parent.count < made.count && Self.rest(of: made[...], after: parent) != nil
        append(path: isParent && rewrite.prefixes != nil ? made[...] : path, of: path)
    }

    /// Appends what a path becomes, or what it was found in.
    private mutating func append(path: ArraySlice<UInt8>, of original: ArraySlice<UInt8>) {
        guard Self.staysHere(path) else { return lines += original }
        let (received, made) = rewrite.prefixes ?? ([], [])
        let rest = rewrite.prefixes == nil ? nil : Self.rest(of: path, after: made[...])
        // Complete already; but all paths that are made begin with `received` if `made` does.
        if !received.isEmpty, rest == nil || made.count < received.count,
            Self.rest(of: path, after: received[...]) != nil
        {
            return lines += path
        }
        guard let rest, !received.isEmpty || Self.staysHere(rest) else {
            unmapped += 1
            return lines += original
        }
        rewritten += 1
        lines += received
        if received.isEmpty, rest.first != UInt8(ascii: "/") { lines.append(UInt8(ascii: "/")) }
        lines += rest
    }

    /// What follows the origin of an absolute reference to the host of the request; `nil` for another reference.
    private static func withoutOrigin(
        _ reference: ArraySlice<UInt8>, _ host: [UInt8], isSecure: Bool
    ) -> ArraySlice<UInt8>? {
        let text = reference.map { ASCII.lower($0) }
        for scheme in isSecure ? ["http://", "https://"] : ["http://"] {
            let origin = Array(scheme.utf8) + host
            if rest(of: text[...], after: origin[...]) != nil { return reference.dropFirst(origin.count) }
        }
        return nil
    }

    /// Whether a path does not begin with what browsers read as another origin: they read a backslash as a slash and
    /// ignore tabs.
    private static func staysHere(_ path: ArraySlice<UInt8>) -> Bool {
        guard path.first == UInt8(ascii: "/"), let second = path.dropFirst().first else { return true }
        return second > 0x20 && second != UInt8(ascii: "/") && second != UInt8(ascii: "\\")
    }

    /// What follows a prefix of whole segments; `nil` if a text does not begin with them.
    private static func rest(of text: ArraySlice<UInt8>, after prefix: ArraySlice<UInt8>) -> ArraySlice<UInt8>? {
        guard text.starts(with: prefix) else { return nil }
        let rest = text.dropFirst(prefix.count)
        return rest.first.map { "/?#".utf8.contains($0) } == false ? nil : rest
    }

    private static func isBlank(_ byte: UInt8) -> Bool { byte == 0x20 || byte == 0x09 }

    private static func trimmed(_ text: ArraySlice<UInt8>) -> ArraySlice<UInt8> {
        let text = text.drop(while: isBlank)
        return text[..<((text.lastIndex { !isBlank($0) }).map { $0 + 1 } ?? text.startIndex)]
    }
}
