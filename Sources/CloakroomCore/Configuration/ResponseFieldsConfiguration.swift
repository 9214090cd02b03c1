/// A change of the fields in the requests or the responses of a route.
public struct FieldChange: Sendable, Equatable {
    /// What happens to fields of a name. The raw values are shown by `explain`, and all but one are keys.
    public enum Kind: String, Sendable {
        /// The field replaces received ones.
        case set
        /// As ``set``, but without TLS received ones are only removed.
        case setOverTLS = "over https set"
        /// The field is sent besides received ones.
        case add
        /// The field is sent if there is no received one.
        case `default`
        /// Received ones are not forwarded.
        case remove

        /// Whether received fields are not forwarded.
        var replaces: Bool { self != .add && self != .default }
    }

    /// What happens.
    public var kind: Kind
    /// The name: a token (RFC 9110 §5.6.2).
    public var name: String
    /// Visible ASCII and spaces, at most 1 KiB, with placeholders in braces. Empty for ``Kind/remove``.
    public var value: String

    package init(_ kind: Kind, _ name: String, _ value: String = "") {
        (self.kind, self.name, self.value) = (kind, name, value)
    }

    /// Whether it is a policy that permits framing: browsers ignore `X-Frame-Options` then (CSP Level 3 §6.4.2).
    var permitsFraming: Bool {
        let policy = value.lowercased()
        return FieldNameSet.folded(name) == "content-security-policy" && policy.contains("frame-ancestors")
            && !policy.contains("frame-ancestors 'none'")
    }
}

/// Security fields for browsers, which responses get unless they have them: none, those for data, or those for pages,
/// which may open windows.
public enum FieldPreset: String, Sendable, CaseIterable {
    case none, api, page

    package var changes: [FieldChange] {
        let fields =
            switch self {
            case .none: [] as [(String, String)]
            case .api:
                [
                    ("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'"),
                    ("Referrer-Policy", "no-referrer"),
                ]
            case .page:
                [
                    ("Content-Security-Policy", "frame-ancestors 'self'"),
                    ("Referrer-Policy", "strict-origin-when-cross-origin"),
                    ("Cross-Origin-Opener-Policy", "same-origin-allow-popups"),
                ]
            }
        let common = [("X-Content-Type-Options", "nosniff"), ("Cross-Origin-Resource-Policy", "same-origin")]
        return (self == .none ? [] : common + fields).map { FieldChange(.default, $0.0, $0.1) }
    }
}

/// `responseFields`: what all responses have in common.
public struct ResponseFieldsConfiguration: Sendable, Equatable {
    /// HTTP Strict Transport Security (RFC 6797), for responses over TLS.
    public struct StrictTransport: Sendable, Equatable {
        /// How long browsers use only https, 0 s...730 days, in whole seconds; zero sends no field.
        public var maxAge: Duration = .zero
        /// Whether this includes all hosts below the one of the request.
        public var includeSubDomains = false
        /// Whether browsers may be delivered with the host on their list.
        public var preload = false

        var changes: [FieldChange] {
            let options = (includeSubDomains ? "; includeSubDomains" : "") + (preload ? "; preload" : "")
            let value = "max-age=\(maxAge.components.seconds)\(options)"
            return maxAge > .zero ? [FieldChange(.setOverTLS, "Strict-Transport-Security", value)] : []
        }
    }

    /// The changes in the responses of all routes. Those of a route precede them, name by name.
    public var changes: [FieldChange] = []
    /// The security fields of routes without a preset of their own.
    public var preset = FieldPreset.none
    /// HTTP Strict Transport Security.
    public var strictTransport = StrictTransport()
    /// The security fields of the gateway's own endpoints.
    public var own = FieldPreset.page

    /// Creates the default: no fields besides ``own``.
    public init() {}

    /// The fields of the gateway's own endpoints. `Cross-Origin-Opener-Policy` would separate a window to sign in from the
    /// page that opened it.
    package var ownChanges: [FieldChange] {
        own.changes.filter { $0.name != "Cross-Origin-Opener-Policy" } + strictTransport.changes
    }
}

extension GatewayConfiguration {
    /// The names of all fields that routes set in requests. No client can send them, on any route.
    public var requestFieldNames: [String] {
        routes.flatMap(\.requestFields).filter { $0.kind == .set }.map(\.name)
    }

    /// The names of all fields that are set or removed in a message, and so must not come back in its trailers.
    package var changedFieldNames: [String] {
        (responseFields.changes + routes.flatMap { $0.requestFields + $0.responseFields }).filter(\.kind.replaces)
            .map(\.name)
    }

    /// The changes in the responses of a route, or to requests that no route serves. None for gRPC calls: the head of a
    /// response may be all of it, and its fields are trailers then.
    package func responseChanges(of route: Route?) -> [FieldChange] {
        guard route?.grpc != true else { return [] }
        var changes = route?.responseFields ?? []
        func add(_ others: [FieldChange]) {
            let names = FieldNameSet(changes.map(\.name))
            changes += others.filter { !names.contains($0.name) }
        }
        add(responseFields.changes + responseFields.strictTransport.changes)
        let isFramed = changes.contains { FieldNameSet.folded($0.name) == "x-frame-options" && $0.kind != .remove }
        let isOwn = route?.files != nil
        let preset = route?.responsePreset ?? (isOwn ? responseFields.own : responseFields.preset)
        add(preset.changes.filter { !(isFramed && $0.permitsFraming) })
        return changes
    }
}
