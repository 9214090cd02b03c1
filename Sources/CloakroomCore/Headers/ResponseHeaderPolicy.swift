public import CloakroomWire
import NIOCore

/// Decides which fields of a response are forwarded to the client. Immutable.
public final class ResponseHeaderPolicy: Sendable {
    private let cookie: SessionCookie
    /// The gateway sets the CORS fields itself, so those of the upstream are removed.
    private let dropsAccessControl: Bool

    /// Names that no field may have: those of the fields that the gateway injects into requests.
    private let injected: FieldNameSet

    private static let allowCredentials: StaticString = "access-control-allow-credentials"
    private static let eventStream: StaticString = "text/event-stream"
    private static let clearSiteData: StaticString = "clear-site-data"

    /// The properties of a response that were found while marking its fields.
    public struct ResponseHeaderSummary: Sendable, Equatable {
        /// The options of `Connection`.
        public var connection = ConnectionOptions()
        /// Whether there is a `Date`; otherwise one is added (RFC 9110 §6.6.1).
        public var hasDate = false
        /// Whether `Cache-Control` of the upstream specifies how shared caches handle a response to a request with
        /// credentials (RFC 9111 §3.5): it permits to store it, or forbids it.
        public var addressesSharedCaches = false
        /// Whether `Vary` of the upstream contains `Cookie` or `*`.
        public var variesByCookie = false
        /// Whether there is a `Content-Length`.
        public var hasContentLength = false
        /// Whether its fields change the protocol to WebSocket (RFC 6455 §4.2.2). The caller checks that the status is
        /// 101.
        public var isUpgradeToWebSocket = false
        /// Whether the body is an event stream, `text/event-stream`, whose parts have to be forwarded at once.
        public var isEventStream = false
        /// The result of ``FieldChanges``.
        public var presentFields: UInt64 = 0
        /// The removed fields, except those that are always removed.
        public var removed = RemovedResponseFields()
    }

    /// Creates the policy.
    /// - Parameters:
    ///   - injectable: The names of all fields that any route may inject, besides `Authorization`.
    ///   - handlesCORS: Whether the gateway sets the CORS fields itself: browsers reject a response with two of them.
    public init(injectable: [String] = [], cookie: SessionCookie, handlesCORS: Bool = false) {
        self.cookie = cookie
        injected = FieldNameSet(injectable + ["Authorization"])
        self.dropsAccessControl = handlesCORS
    }

    /// Marks the fields that are not forwarded: hop-by-hop fields, attempts to set or clear the session cookie, and
    /// fields that contain what the gateway injected into the request. A reason phrase that contains an injected secret
    /// is emptied.
    /// - Parameters:
    ///   - secrets: The injected secrets.
    ///   - fields: The fields that change in final responses; `nil` for none.
    ///   - hasSession: Whether the request had a session. Then ``SharedCacheFields`` are not forwarded unless
    ///     `Cache-Control` permits shared caches to store the response.
    public func apply(
        _ head: inout ResponseHead, without secrets: InjectedSecrets = .none, fields: FieldChanges? = nil,
        hasSession: Bool = false
    ) -> ResponseHeaderSummary {
        let buffer = head.bytes
        let bytes = buffer.readableBytesUInt8Span
        var summary = ResponseHeaderSummary()
        let hop = HopByHopFields.apply(&head.fields, bytes, minorVersion: head.minorVersion)
        summary.connection = hop.connection
        summary.isUpgradeToWebSocket = hop.upgradesToWebSocket
        // Before what they contain is evaluated: what is stripped does not count.
        if let fields, head.status >= 200 { summary.presentFields = fields.apply(to: &head.fields, bytes) }
        if head.reason.count >= secrets.shortest, secrets.areIn(bytes, head.reason) {
            head.reason = ByteRange(start: head.reason.start, count: 0)
            summary.removed.injectedValues += 1
        }
        var (permitsSharing, forbidsSharing, directsCaches) = (false, false, false)
        for index in head.fields.indices where !head.fields[index].isStripped {
            let field = head.fields[index]
            if Int(field.valueCount) >= secrets.shortest, secrets.areIn(bytes, field.valueRange) {
                head.fields[index].isStripped = true
                summary.removed.injectedValues += 1
                continue
            }
            switch field.name {
            case .date: summary.hasDate = true
            case .cacheControl:
                readCacheControl(field.valueRange, bytes, permits: &permitsSharing, forbids: &forbidsSharing)
            case .vary:
                if namesCookie(field.valueRange, bytes) { summary.variesByCookie = true }
            case .contentLength:
                // Not in responses that never have a body (RFC 9110 §8.6).
                let isAllowed = head.status >= 200 && head.status != 204
                head.fields[index].isStripped = !isAllowed
                summary.hasContentLength = isAllowed
            case .contentType:
                if isEventStream(field.valueRange, bytes) { summary.isEventStream = true }
            case .setCookie:
                if cookie.setsSessionCookie(by: bytes.extracting(field.valueRange.start..<field.valueRange.end)) {
                    head.fields[index].isStripped = true
                }
            case .authorization, .other:
                if endsHere(field, bytes, &summary.removed) {
                    head.fields[index].isStripped = true
                } else if hasSession, SharedCacheFields.contains(bytes, field.nameRange) {
                    directsCaches = true
                }
            default: continue
            }
        }
        summary.addressesSharedCaches = permitsSharing || forbidsSharing
        // After the loop, because `Cache-Control` may follow them.
        if directsCaches, !permitsSharing || forbidsSharing {
            for index in head.fields.indices where SharedCacheFields.contains(bytes, head.fields[index].nameRange) {
                head.fields[index].isStripped = true
            }
        }
        // Nor is it present.
        if let fields, head.status >= 200, !summary.removed.isEmpty {
            summary.presentFields = fields.apply(to: &head.fields, bytes)
        }
        return summary
    }

    /// Whether a field without a case of its own is not forwarded.
    private func endsHere(
        _ field: FieldSlice, _ bytes: Span<UInt8>, _ removed: inout RemovedResponseFields
    ) -> Bool {
        let name = field.nameRange
        if injected.contains(bytes, name) {
            removed.injectedNames += 1
            return true
        }
        if dropsAccessControl, ASCII.hasPrefix(bytes, name, "access-control-") { return true }
        switch name.count {
        case Self.allowCredentials.utf8CodeUnitCount:
            // Only the gateway may permit pages to read responses that depend on the session cookie.
            return ASCII.equals(bytes, name, Self.allowCredentials)
        case Self.clearSiteData.utf8CodeUnitCount:
            guard ASCII.equals(bytes, name, Self.clearSiteData), clearsCookies(field.valueRange, bytes) else {
                return false
            }
            removed.siteData += 1
            return true
        default: return false
        }
    }

    /// Whether `Clear-Site-Data` contains `cookies` or `*` (Clear Site Data §3.1). Not a parser: a substring match at
    /// any position of the value counts too.
    private func clearsCookies(_ value: ByteRange, _ bytes: Span<UInt8>) -> Bool {
        for index in value.start..<value.end {
            if bytes[index] == UInt8(ascii: "*") { return true }
            let rest = ByteRange(start: index, count: value.end - index)
            if ASCII.hasPrefix(bytes, rest, "cookies") { return true }
        }
        return false
    }

    /// Finds whether `Cache-Control` has a directive that permits shared caches to store a response to a request with
    /// `Authorization`, which the upstream received, or one that forbids it (RFC 9111 §3.5, §5.2.2). Others, such as
    /// `max-age`, rely on `Authorization`, which caches in front of the gateway do not see.
    private func readCacheControl(
        _ value: ByteRange, _ bytes: Span<UInt8>, permits: inout Bool, forbids: inout Bool
    ) {
        // Directives with quoted arguments are rare: they do not count, which is the private side.
        guard FieldScan.first(UInt8(ascii: "\""), in: bytes, from: value.start, to: value.end) == value.end else {
            return
        }
        var directives = ListTokenIterator(value)
        while let directive = directives.next(bytes) {
            switch directive.count {
            case 6: if ASCII.equals(bytes, directive, "public") { permits = true }
            case 7: if ASCII.equals(bytes, directive, "private") { forbids = true }
            case 8: if ASCII.equals(bytes, directive, "no-store") { forbids = true }
            case 15: if ASCII.equals(bytes, directive, "must-revalidate") { permits = true }
            default: break
            }
            if ASCII.hasPrefix(bytes, directive, "s-maxage=") { permits = true }
        }
    }

    /// Whether `Vary` contains `Cookie` or `*` (RFC 9110 §12.5.5).
    private func namesCookie(_ value: ByteRange, _ bytes: Span<UInt8>) -> Bool {
        var names = ListTokenIterator(value)
        while let name = names.next(bytes) {
            if ASCII.equals(bytes, name, "cookie") || ASCII.equals(bytes, name, "*") { return true }
        }
        return false
    }

    /// With parameters or without (RFC 9110 §8.3.1).
    private func isEventStream(_ value: ByteRange, _ bytes: Span<UInt8>) -> Bool {
        guard value.count >= Self.eventStream.utf8CodeUnitCount else { return false }
        var end = FieldScan.first(UInt8(ascii: ";"), in: bytes, from: value.start, to: value.end)
        while end > value.start, bytes[end - 1] == 0x20 || bytes[end - 1] == 0x09 { end -= 1 }
        return ASCII.equals(bytes, ByteRange(start: value.start, count: end - value.start), Self.eventStream)
    }
}
