public import CloakroomWire
public import NIOCore

/// Decides which trailer fields are forwarded, for requests and responses alike (RFC 9110 §6.5).
///
/// A recipient may merge trailers into the head long after the head was checked. All fields that would have mattered
/// there are therefore removed: those for framing, routing, authentication, control and content handling, and those
/// that the gateway may set, in any spelling. Immutable.
public final class TrailerPolicy: Sendable {
    private let dropped: FieldNameSet
    private let injected: FieldNameSet

    /// Creates the policy.
    /// - Parameters:
    ///   - injectable: The names of all fields with secrets that any route may inject, besides `Authorization`.
    ///   - others: The names of all other fields that are set, or removed, by the configuration.
    public init(injectable: [String], others: [String] = []) {
        dropped = FieldNameSet(
            Self.names + SpoofableFields.names + injectable + others,
            prefixes: Self.prefixes + SpoofableFields.prefixes)
        injected = FieldNameSet(injectable + ["Authorization"])
    }

    private static let names = [
        // Framing and routing.
        "Content-Length", "Transfer-Encoding", "Trailer", "TE", "Host", "Connection", "Keep-Alive", "Upgrade",
        "HTTP2-Settings", "Forwarded", "Via", "X-Real-IP", "Location", "Alt-Svc", "Origin", "Referer",
        // Authentication and state.
        "Authorization", "WWW-Authenticate", "Authentication-Info", "Cookie", "Cookie2", "Set-Cookie", "Set-Cookie2",
        "Strict-Transport-Security", "Clear-Site-Data", "WebSocket",
        // Request modifiers and controls, response control data.
        "Expect", "Max-Forwards", "Range", "Cache-Control", "Pragma", "Age", "Date", "Expires", "Retry-After", "Vary",
        "Warning", "Last-Modified", "Allow", "Status", "Refresh", "Link", "Early-Data", "Priority",
        // Content handling.
        "Content-Encoding", "Content-Type", "Content-Range", "Content-Location", "Content-Language",
        "Content-Disposition", "Content-Security-Policy", "Content-Security-Policy-Report-Only", "X-Frame-Options",
        "X-Content-Type-Options", "Referrer-Policy", "Permissions-Policy", "SourceMap",
        // Fields that the gateway sets for a request.
        "X-Request-Id", "Traceparent", "Tracestate",
    ]

    private static let prefixes = [
        "Proxy", "If-", "X-Forwarded-", "Accept", "Access-Control-", "Sec-", "Cross-Origin-",
    ]

    /// Returns the lines that are forwarded, each with its line end; empty if there are none.
    /// - Parameter connection: The options of `Connection` in the head of the same message. If it names fields, they
    ///   could be in the trailers as well (RFC 9110 §7.6.1), so nothing is forwarded.
    public func filter(_ section: TrailerSection, connection: ConnectionOptions = ConnectionOptions()) -> ByteBuffer {
        guard !connection.namesFields else { return ByteBuffer() }
        return lines(of: section) { _, _ in true }
    }

    /// Returns the lines of a response that are forwarded. They must not contain what the gateway injected into the
    /// request.
    /// - Parameter removed: Counts the fields that are removed for that reason.
    public func filter(
        _ section: TrailerSection, without secrets: InjectedSecrets, removed: inout RemovedResponseFields
    ) -> ByteBuffer {
        let bytes = section.bytes.readableBytesUInt8Span
        for field in section.fields where injected.contains(bytes, field.nameRange) { removed.injectedNames += 1 }
        return lines(of: section) { field, bytes in
            guard field.valueRange.count >= secrets.shortest, secrets.areIn(bytes, field.valueRange) else {
                return true
            }
            removed.injectedValues += 1
            return false
        }
    }

    private func lines(of section: TrailerSection, where isMeant: (FieldSlice, Span<UInt8>) -> Bool) -> ByteBuffer {
        let bytes = section.bytes.readableBytesUInt8Span
        var lines = ByteBuffer()
        for index in section.fields.indices
        where isAllowed(section.fields[index], bytes) && isMeant(section.fields[index], bytes) {
            let start = Int(section.fields[index].nameStart)
            let isLast = index + 1 == section.fields.count
            let end = isLast ? bytes.count : Int(section.fields[index + 1].nameStart)
            lines.writeBytes(bytes.extracting(start..<end).bytes)
        }
        return lines
    }

    /// Rejects pseudo-fields, which begin with a colon (RFC 9113 §8.1): no field in use begins with a character other
    /// than a letter or digit.
    private func isAllowed(_ field: FieldSlice, _ bytes: Span<UInt8>) -> Bool {
        let name = field.nameRange
        guard !field.isStripped, name.count > 0, Byte.isLetterOrDigit(bytes[name.start]) else { return false }
        return !dropped.contains(bytes, name) && !SharedCacheFields.contains(bytes, name)
    }
}
