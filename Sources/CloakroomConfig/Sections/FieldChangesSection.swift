import CloakroomCore
import CloakroomWire

/// `requestFields` of a route, or `responseFields` of a route or of all routes.
struct FieldChangesSection {
    let scope: ConfigScope
    let isRequest: Bool
    /// The names in the path of the route.
    var pathNames: [String] = []
    /// Whether sessions decide about the responses, so that they must not become cacheable for other users.
    var usesSession = false
    /// The fields that the gateway adds with secrets and claims.
    let upstreams: UpstreamsSection

    private static let mostBytes = 8_192
    /// What only the sender of a representation knows of it.
    private static let validators = ["content-digest", "content-md5", "etag", "last-modified", "repr-digest"]

    /// Reads `set`, `add`, `default` and `remove`.
    func changes() -> [FieldChange] {
        var changes: [FieldChange] = []
        var seen: [String: String] = [:]
        func read(_ change: FieldChange, _ report: (ConfigValueError) -> Void) {
            changes.append(change)
            if let problem = problem(of: change, FieldNameSet.folded(change.name)) {
                report(problem)
            } else if let other = seen.updateValue(change.name, forKey: FieldNameSet.folded(change.name)) {
                report(ConfigValueError("conflicts with \(other), which is the same field", "keep one of the two"))
            }
        }
        for kind in isRequest ? [FieldChange.Kind.set] : [.set, .add, .default] {
            _ = scope.entries(kind.rawValue) { section, name -> Void? in
                let value = section.optional(name, as: format) ?? ""
                read(FieldChange(kind, name, value)) { section.report($0, at: name) }
                return nil
            }
        }
        for (index, name) in (scope.list("remove", as: .token) ?? []).enumerated() {
            read(FieldChange(.remove, name)) { scope.report($0, at: "remove", item: index) }
        }
        let bytes = changes.reduce(0) { $0 + $1.name.utf8.count + $1.value.utf8.count + 4 }
        if changes.count > FieldChanges.maxNames || bytes > Self.mostBytes {
            let most = "\(FieldChanges.maxNames) names and \(ByteSize.rendered(Self.mostBytes)) in all"
            scope.report("must be at most \(most)", "remove some")
        }
        return changes
    }

    private func problem(of change: FieldChange, _ folded: String) -> ConfigValueError? {
        let name = change.name
        guard (try? ValueFormat<String>.token.parse(name)) != nil else {
            return ConfigValueError("must be the name of a field, not \(name.quoted)", "write such as X-Tenant")
        }
        let taken = upstreams.tokenHeaders + upstreams.claimHeaderNames
        if taken.contains(where: { FieldNameSet.folded($0) == folded }) {
            return ConfigValueError("\(name) conflicts with an API token or a claim header", "write another name")
        }
        let directives = Set(change.value.lowercased().split { ", ".contains($0) })
        switch (folded, change.kind) {
        case ("set-cookie", .remove) where !isRequest: return nil
        case ("strict-transport-security", let kind) where kind != .remove:
            return ConfigValueError("\(name) is not supported here", "write responseFields.hsts")
        case ("cache-control", .remove) where usesSession, ("vary", .remove) where usesSession,
            ("vary", .set) where usesSession:
            return ConfigValueError("conflicts with sessions: caches could mix up users", "leave \(name) out")
        case (_, let kind) where usesSession && kind != .remove && SharedCacheFields.contains(folded):
            return ConfigValueError("conflicts with sessions: caches could mix up users", "leave \(name) out")
        case ("cache-control", _) where usesSession && directives.isDisjoint(with: ["private", "no-store"]):
            return ConfigValueError("conflicts with sessions: caches could mix up users", "add private or no-store")
        case (_, .set) where isRequest && SpoofableFields.contains(folded):
            return ConfigValueError(
                "\(name) is not supported: as upstreams may trust it to name a user, a client or a path, the gateway"
                    + " removes it from requests",
                "write another name, such as X-Account; for a claim of the user, claimHeaders of the upstream")
        case (_, let kind) where isReserved(folded) || kind != .remove && Self.validators.contains(folded):
            return ConfigValueError(
                "\(name) is not supported: it frames or describes a message, or the gateway decides about it",
                "leave it out")
        default: return nil
        }
    }

    private func isReserved(_ folded: String) -> Bool {
        let allowed: [KnownField] = [.cacheControl, .vary] + (isRequest ? [.userAgent] : [.retryAfter, .xRequestID])
        let prefixes = ["access-control-", "grpc-", "proxy-", "sec-", "x-forwarded-", "x-client-cert"]
        return KnownField.allCases.contains { $0.text == folded && !allowed.contains($0) }
            || ["content-encoding", "content-location", "content-range", "cookie2", "location"].contains(folded)
            || (prefixes + (isRequest ? ["content-", "if-", "range"] : [])).contains(where: folded.hasPrefix)
            || isRequest && SpoofableFields.contains(folded)
    }

    private var format: ValueFormat<String> {
        let names = ["request_id"] + (isRequest ? ["client_address", "route", "site", "user.id"] + pathNames : [])
        return ValueFormat("visible ASCII, with placeholders such as `{request_id}`") { text throws(ConfigValueError) in
            try require(
                !text.isEmpty && text.first != " " && text.last != " " && text.utf8.count <= FieldChanges.maxLength
                    && text.utf8.allSatisfy({ (0x20...0x7e).contains($0) }),
                "must be visible ASCII, at most \(FieldChanges.maxLength) bytes", "write such as nosniff")
            guard let parts = FieldChanges.split(text) else {
                throw ConfigValueError("has a placeholder without }", "write such as {request_id}")
            }
            for name in parts.compactMap(\.name) where !names.contains(String(name)) {
                throw ConfigValueError(
                    "unknown placeholder {\(name)}",
                    NameSuggestion.suggestion(for: "{\(name)}", among: names.map { "{\($0)}" }))
            }
            return text
        }
    }
}

extension ResponseFieldsConfiguration {
    /// `responseFields`: those of all routes.
    init(from scope: ConfigScope, upstreams: UpstreamsSection, usesSession: Bool) {
        self.init()
        changes = FieldChangesSection(
            scope: scope, isRequest: false, usesSession: usesSession, upstreams: upstreams
        ).changes()
        preset = scope.value("preset", as: .choice(), default: preset)
        strictTransport.read(from: scope.sectionWithDefaults("hsts"))
        own = scope.value("own", as: .choice(), default: own)
    }
}

extension ResponseFieldsConfiguration.StrictTransport: ConfigSection {
    /// `hsts`.
    static let keys: [Key<Self>] = [
        Key("maxAge", \.maxAge, .duration(.zero ... .seconds(730 * 86_400))),
        Key("includeSubDomains", \.includeSubDomains, .flag),
        Key("preload", \.preload, .flag),
    ]

    func check(_ scope: ConfigScope) {
        if maxAge.components.attoseconds != 0 {
            scope.report("must be whole seconds", "write such as 365d", at: "maxAge")
        }
        if preload, maxAge < .seconds(365 * 86_400) || !includeSubDomains {
            scope.report("requires maxAge of at least 365d, and includeSubDomains", "write both", at: "preload")
        } else if includeSubDomains, maxAge == .zero {
            scope.report("has no effect without maxAge", "write it", at: "includeSubDomains")
        }
    }
}
