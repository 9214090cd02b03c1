public import CloakroomWire
import NIOCore

/// Detects requests that another site made a browser send (cross-site request forgery).
///
/// Browsers attach cookies to cross-site requests. A request that changes state is therefore forwarded only if the
/// fields with which the browser reports its origin permit it; pages cannot forge these. Immutable; a class for the
/// same reason as ``RequestHeaderPolicy``.
///
/// Folder `CrossSite/`: decides whether a request was caused by another site (CSRF), and what pages of other origins
/// may read (CORS).
public final class CrossSitePolicy: Sendable {
    /// The kind of a request with regard to other sites.
    public enum RequestKind: Sendable, Equatable {
        /// The request is read-only (RFC 9110 §9.2.1), and pages of other sites cannot read its response.
        case safe
        /// The request may change state.
        case unsafe
        /// The request opens a WebSocket. It is a `GET`, but pages of any site may read and write through it, because
        /// the same-origin policy does not apply (RFC 6455 §10.2).
        case tunnel
    }

    /// The origin that a request was sent to, as seen by its client.
    public struct TargetOrigin: Sendable, Equatable {
        /// Whether the listener uses TLS. `X-Forwarded-Proto` of a trusted peer takes precedence.
        public var isSecure: Bool
        /// The position of the authority in the head: `Host` or its replacement; `nil` if there is none.
        public var authority: ByteRange?

        /// Creates a target origin.
        public init(isSecure: Bool, authority: ByteRange?) {
            self.isSecure = isSecure
            self.authority = authority
        }
    }

    /// Whether safe requests may be rejected too; otherwise they need no check.
    public var checksSafeRequests: Bool { required != nil }
    private let trusted: [WebOrigin]
    private let required: RequiredHeader?

    /// The required field: its name in lower case, its value unchanged.
    private struct RequiredHeader {
        let name: [UInt8]
        let value: [UInt8]
    }

    /// Creates the policy. Invalid origins are never trusted.
    public init(_ configuration: CrossSiteConfiguration) {
        trusted = (configuration.trustedOrigins + configuration.corsOrigins).compactMap { WebOrigin($0) }
        required = configuration.requiredField.map {
            RequiredHeader(name: $0.name.utf8.map { ASCII.lower($0) }, value: Array($0.value.utf8))
        }
    }

    /// Whether a request that is authenticated by a cookie is rejected with 403.
    /// - Parameters:
    ///   - kind: The kind of the request.
    ///   - head: The head of the request.
    ///   - summary: The result of marking the head.
    ///   - place: The origin that the request was sent to.
    ///   - isNavigation: Whether the request is a form that a browser submits, to which no page can add a field.
    public func rejects(
        _ kind: RequestKind, _ head: borrowing RequestHead, summary: RequestHeaderPolicy.RequestHeaderSummary,
        at place: TargetOrigin, isNavigation: Bool = false
    ) -> Bool {
        // A page cannot add fields to a WebSocket handshake either; only the origin is checked there.
        if kind != .tunnel, !isNavigation, let required, !hasRequiredField(required, head) { return true }
        guard kind != .safe else { return false }
        let bytes = head.bytes.readableBytesUInt8Span
        // A recipient that uses the other of two values would decide differently.
        guard summary.origin != .multiple, summary.fetchSite != .multiple else { return true }
        guard case .value(let site) = summary.fetchSite else {
            // Browsers send at least one of the two: a request without both is not from a browser.
            guard case .value(let origin) = summary.origin else { return false }
            return !isTrusted(origin, bytes) && !isSameOrigin(origin, head, summary: summary, at: place)
        }
        // `none` means that the user typed or selected the address outside of any page. A sibling of the same site is
        // another origin. Tokens of structured fields are case-sensitive (RFC 8941 §3.3.4).
        if ASCII.equalsCaseSensitive(bytes, site, "same-origin") || ASCII.equalsCaseSensitive(bytes, site, "none") {
            return false
        }
        guard case .value(let origin) = summary.origin else { return true }
        return !isTrusted(origin, bytes)
    }

    private func isTrusted(_ origin: ByteRange, _ bytes: Span<UInt8>) -> Bool {
        Self.contains(trusted, origin, bytes)
    }

    private static func contains(_ origins: [WebOrigin], _ origin: ByteRange, _ bytes: Span<UInt8>) -> Bool {
        guard !origins.isEmpty, let parts = OriginView(bytes, origin) else { return false }
        return origins.contains { $0.matches(parts, bytes) }
    }

    /// Whether a request has no `Origin`, so that no page of a browser made it, or one of these.
    package static func permits(_ origins: [WebOrigin], _ origin: SingletonField, _ bytes: Span<UInt8>) -> Bool {
        switch origin {
        case .absent: true
        case .value(let origin): contains(origins, origin, bytes)
        case .multiple: false
        }
    }

    private func isSameOrigin(
        _ origin: ByteRange, _ head: borrowing RequestHead, summary: RequestHeaderPolicy.RequestHeaderSummary,
        at place: TargetOrigin
    ) -> Bool {
        let bytes = head.bytes.readableBytesUInt8Span
        var isSecure = place.isSecure
        if summary.trustsForwardedProto {
            // Without a single valid scheme, no origin is the gateway's own.
            guard let forwarded = Self.isForwardedSecure(head) else { return false }
            isSecure = forwarded
        }
        guard let authority = place.authority, let origin = OriginView(bytes, origin),
            let ours = OriginView(isSecure: isSecure, authority: authority, bytes)
        else { return false }
        return OriginView.isSame(origin, ours, bytes)
    }

    /// Whether the client's connection to the trusted proxy in front is secure, by `X-Forwarded-Proto`; `nil` if unknown.
    package static func isForwardedSecure(_ head: borrowing RequestHead) -> Bool? {
        let bytes = head.bytes.readableBytesUInt8Span
        var field = SingletonField.absent
        for index in head.fields.indices where head.fields[index].name == .xForwardedProto {
            field.add(head.fields[index].valueRange)
        }
        guard case .value(let scheme) = field else { return nil }
        if ASCII.equals(bytes, scheme, "https") { return true }
        return ASCII.equals(bytes, scheme, "http") ? false : nil
    }

    /// Not recorded during marking, so that a gateway without such a field does not search for it.
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
