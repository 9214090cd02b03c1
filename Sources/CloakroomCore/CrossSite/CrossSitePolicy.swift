public import CloakroomWire
import NIOCore

/// Tells requests that another site made a browser send from those that were meant (cross-site request forgery).
///
/// A browser sends the session's cookie whoever makes it ask. So a request that changes something is carried out only if
/// what the browser says of where it comes from, which no page can forge, speaks for it. Immutable; a class for the same
/// reason as ``RequestHeaderPolicy``.
public final class CrossSitePolicy: Sendable {
    /// What a request does, as far as other sites are concerned.
    public enum RequestKind: Sendable, Equatable {
        /// It only asks (RFC 9110 §9.2.1), and its answer is nothing that another site's page could read.
        case safe
        /// It may change something.
        case unsafe
        /// It opens a WebSocket. That is a `GET`, but pages of any site may read and write through it: the same-origin policy
        /// has no say there (RFC 6455 §10.2).
        case tunnel
    }

    /// Where a request was sent to, as its client sees it.
    public struct TargetOrigin: Sendable, Equatable {
        /// Whether the listener speaks TLS. What a trusted peer says in `X-Forwarded-Proto` goes before it.
        public var isSecure: Bool
        /// Where the authority stands in the head: `Host` or what takes its place; `nil` if there is none.
        public var authority: ByteRange?

        /// Makes a place.
        public init(isSecure: Bool, authority: ByteRange?) {
            self.isSecure = isSecure
            self.authority = authority
        }
    }

    /// Whether requests that only ask may be refused too; otherwise there is no need to ask about them.
    public var checksSafeRequests: Bool { required != nil }
    private let trusted: [WebOrigin]
    private let required: RequiredHeader?

    /// The field that has to be there: its name in lower case, its value as it is.
    private struct RequiredHeader {
        let name: [UInt8]
        let value: [UInt8]
    }

    /// Makes the policy. Origins that are none are trusted by nobody.
    public init(_ configuration: CrossSiteConfiguration) {
        trusted = (configuration.trustedOrigins + configuration.corsOrigins).compactMap { WebOrigin($0) }
        required = configuration.requiredField.map {
            RequiredHeader(name: $0.name.utf8.map { ASCII.lower($0) }, value: Array($0.value.utf8))
        }
    }

    /// Whether a request that a cookie vouches for is refused with 403.
    /// - Parameters:
    ///   - kind: What it does.
    ///   - head: Its head.
    ///   - marks: What marking the head told.
    ///   - place: Where it was sent to.
    public func rejects(
        _ kind: RequestKind, _ head: borrowing RequestHead, summary: RequestHeaderPolicy.RequestHeaderSummary,
        at place: TargetOrigin
    ) -> Bool {
        // A page cannot add a field to the request for a WebSocket; there, the origin alone has to do.
        if kind != .tunnel, let required, !hasRequiredField(required, head) { return true }
        guard kind != .safe else { return false }
        let bytes = head.bytes.readableBytesUInt8Span
        // Whoever reads the other one of two would decide otherwise.
        guard summary.origin != .multiple, summary.fetchSite != .multiple else { return true }
        guard case .value(let site) = summary.fetchSite else {
            // Browsers send one or the other: without both, no browser sent it.
            guard case .value(let origin) = summary.origin else { return false }
            return !isTrusted(origin, bytes) && !isSameOrigin(origin, head, summary: summary, at: place)
        }
        // `none` is what the user typed or clicked outside of any page. A sibling of the same site is another origin.
        // Tokens of structured fields have their case (RFC 8941 §3.3.4).
        if ASCII.equalsCaseSensitive(bytes, site, "same-origin") || ASCII.equalsCaseSensitive(bytes, site, "none") {
            return false
        }
        guard case .value(let origin) = summary.origin else { return true }
        return !isTrusted(origin, bytes)
    }

    private func isTrusted(_ origin: ByteRange, _ bytes: Span<UInt8>) -> Bool {
        guard !trusted.isEmpty, let parts = OriginView(bytes, origin) else { return false }
        return trusted.contains { $0.matches(parts, bytes) }
    }

    private func isSameOrigin(
        _ origin: ByteRange, _ head: borrowing RequestHead, summary: RequestHeaderPolicy.RequestHeaderSummary,
        at place: TargetOrigin
    ) -> Bool {
        let bytes = head.bytes.readableBytesUInt8Span
        var isSecure = place.isSecure
        if summary.trustsForwardedProto {
            // Of what cannot be read as one scheme, nothing is ours.
            guard let forwarded = forwardedScheme(head, bytes) else { return false }
            isSecure = forwarded
        }
        guard let authority = place.authority, let origin = OriginView(bytes, origin),
            let ours = OriginView(isSecure: isSecure, authority: authority, bytes)
        else { return false }
        return OriginView.isSame(origin, ours, bytes)
    }

    /// - Returns: Whether the client's connection to whoever stands before us is secure; `nil` if that cannot be told.
    private func forwardedScheme(_ head: borrowing RequestHead, _ bytes: Span<UInt8>) -> Bool? {
        var field = SingletonField.absent
        for index in head.fields.indices where head.fields[index].name == .xForwardedProto {
            field.add(head.fields[index].valueRange)
        }
        guard case .value(let scheme) = field else { return nil }
        if ASCII.equals(bytes, scheme, "https") { return true }
        return ASCII.equals(bytes, scheme, "http") ? false : nil
    }

    /// Not noted while marking, so that a gateway without such a field does not look for it.
    private func hasRequiredField(_ required: RequiredHeader, _ head: borrowing RequestHead) -> Bool {
        let bytes = head.bytes.readableBytesUInt8Span
        var field = SingletonField.absent
        for index in head.fields.indices where ASCII.equals(bytes, head.fields[index].nameRange, required.name) {
            field.add(head.fields[index].valueRange)
        }
        guard case .value(let value) = field, value.count == required.value.count else { return false }
        for offset in 0..<value.count where bytes[value.start + offset] != required.value[offset] { return false }
        return true
    }
}
