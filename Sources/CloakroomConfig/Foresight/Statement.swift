import CloakroomCore
import CloakroomWire

/// A token that a forwarded request gets.
enum SentToken: String, CaseIterable, Sendable {
    case apiToken, bearer
}

/// A statement about all requests, which `prove` decides: an item of `prove`. It reads as a sentence: never served, at
/// these paths, unless with a session.
public struct Statement: Sendable, Equatable {
    enum Kind: String, CaseIterable, Sendable {
        /// No request that it describes is served.
        case never
        /// Every request that it describes is served.
        case always
        /// No request reaches something, or with a token, that it did not with the older configuration.
        case opensNothing
    }

    enum Service: String, CaseIterable, Sendable {
        /// Forwarded, or the response is a file.
        case served
        /// Sent to an upstream.
        case forwarded
    }

    /// What requests have in common; each part that is given has to be met.
    struct Conditions: Sendable, Equatable {
        /// Of `never` also in spellings that servers treat alike.
        var paths: [PathPattern] = []
        /// ``unsafeMethods`` means all methods that change something.
        var methods: [String] = []
        var hosts: [String] = []
        /// Served by one of these.
        var upstreams: [String] = []
        /// Forwarded with all of these.
        var sends: [SentToken] = []
        /// Permitted with a session, of a cookie or a verified access token. One that the route does not use does not count.
        var session: Bool?
        var claims: [RequiredClaim] = []
        /// Caused by a page of another origin.
        var crossSite: Bool?

        /// Whether the parts that sessions and pages decide about are absent.
        var dependsOnRequestAlone: Bool {
            session == nil && claims.isEmpty && crossSite == nil && upstreams.isEmpty && sends.isEmpty
        }
    }

    /// The word in ``Conditions/methods`` for all methods that are not safe (RFC 9110 §9.2.1).
    static let unsafeMethods = "unsafe"

    var name = ""
    var kind = Kind.never
    var service = Service.served
    var scope = Conditions()
    var unless: Conditions?
}

/// Common wishes.
enum ReadyStatement: String, CaseIterable, Sendable {
    /// Without a session nothing is changed.
    case writesNeedSession
    /// With a session, pages of other origins change nothing.
    case writesFromOwnPages
    /// No request without a session uses an API token.
    case apiTokenNeedsSession

    func fill(_ statement: inout Statement) {
        switch self {
        case .writesNeedSession:
            statement.scope.methods = [Statement.unsafeMethods]
            statement.unless = Statement.Conditions(session: true)
        case .writesFromOwnPages:
            statement.scope = Statement.Conditions(
                methods: [Statement.unsafeMethods], session: true, crossSite: true)
        case .apiTokenNeedsSession:
            statement.service = .forwarded
            statement.scope.sends = [.apiToken]
            statement.unless = Statement.Conditions(session: true)
        }
    }
}

extension Statement.Conditions: ConfigSection {
    static let keys: [Key<Self>] = [
        Key { $1.paths = $0.nonEmptyList("paths", as: .pattern) ?? [] },
        Key { $1.methods = $0.nonEmptyList("methods", as: .statedMethod) ?? [] },
        Key { $1.hosts = $0.nonEmptyList("hosts", as: .host) ?? [] },
        Key { $1.upstreams = $0.nonEmptyList("upstreams", as: .text) ?? [] },
        Key { $1.sends = $0.nonEmptyList("sends", as: .choice()) ?? [] },
        Key(optional: "session", \.session, .flag),
        Key { $1.claims = $0.claims("claims") },
        Key(optional: "crossSite", \.crossSite, .flag),
    ]

    func check(_ scope: ConfigScope) {
        if session == false, !claims.isEmpty {
            scope.report("conflicts with session: only sessions have claims", "write session: true", at: "claims")
        }
        let key = scope.path + ["claims"]
        let (isGiven, invalid) = (scope.reading.tree[key] != nil, scope.reading.invalidKeys)
        if isGiven, claims.isEmpty, !invalid.contains(where: { $0.starts(with: key) }) {
            scope.report("must not be empty", "write such as groups: [admin]", at: "claims")
        }
        for claim in claims {
            let excluded = Set(claim.excluded.texts)
            let isImpossible =
                !claim.acceptable.isEmpty && excluded.isSuperset(of: claim.acceptable.texts)
                || !excluded.isDisjoint(with: claim.necessary.texts)
            guard isImpossible else { continue }
            scope.report(
                "no session meets claim \(claim.name): none excludes what is required",
                "remove the values from one of the lists", at: "claims")
        }
    }

    /// Whether each part is met by all requests that other conditions describe, because their own part implies it. Paths of
    /// `never` mean other spellings too, and the upstreams and tokens of `always` are what it demands.
    fileprivate func areImplied(by other: Self, _ kind: Statement.Kind) -> Bool {
        let everywhere = PathPattern(segments: [.wildcard])
        let theirPaths = other.paths.isEmpty || kind == .never ? [everywhere] : other.paths
        func names(_ method: String) -> Bool {
            let isUnsafe = method == Statement.unsafeMethods || !RequestMethod(Array(method.utf8).span).isSafe
            return methods.contains(method) || isUnsafe && methods.contains(Statement.unsafeMethods)
        }
        return (paths.isEmpty || theirPaths.allSatisfy { theirs in paths.contains { $0.covers(theirs) } })
            && (methods.isEmpty || !other.methods.isEmpty && other.methods.allSatisfy(names))
            && (hosts.isEmpty
                || !other.hosts.isEmpty
                    && other.hosts.allSatisfy { theirs in hosts.contains { HostNames.covers($0, theirs) } })
            && (upstreams.isEmpty
                || kind == .never && !other.upstreams.isEmpty && Set(upstreams).isSuperset(of: other.upstreams))
            && (sends.isEmpty || kind == .never && Set(other.sends).isSuperset(of: sends))
            && (session == nil || session == other.session || session == true && !other.claims.isEmpty)
            && SessionRequirement(claims: other.claims).implies(SessionRequirement(claims: claims))
            && (crossSite == nil || crossSite == other.crossSite)
    }

    /// Reports names that the configuration does not have.
    fileprivate func check(_ scope: ConfigScope, against configuration: GatewayConfiguration) {
        let known = configuration.upstreams.map(\.name)
        for (index, name) in upstreams.enumerated() where !known.contains(name) {
            scope.report(
                "must be an upstream, not \(name.quoted)", NameSuggestion.suggestion(for: name, among: known),
                at: "upstreams", item: index)
        }
    }
}

extension Statement {
    /// Reads `prove`.
    /// - Parameter configuration: `nil` if it has errors.
    static func all(_ root: ConfigScope, _ configuration: GatewayConfiguration?) -> [Statement] {
        var names: Set<String> = []
        return root.items("prove").map { scope in
            let statement = Statement(from: scope, configuration)
            if !statement.name.isEmpty, !names.insert(statement.name).inserted {
                scope.report("must be unique, not \(statement.name.quoted)", "rename one", at: "name")
            }
            return statement
        }
    }

    private init(from scope: ConfigScope, _ configuration: GatewayConfiguration?) {
        name = scope.required("name", as: .text) ?? ""
        let words: [(kind: Kind, service: Service?)] = [Kind.never, .always].map {
            ($0, scope.optional($0.rawValue, as: ValueFormat<Service>.choice()))
        }
        let ready = scope.optional("ready", as: ValueFormat<ReadyStatement>.choice())
        self.scope.read(from: scope)
        let exception = scope.section("unless")
        var conditions = Conditions()
        conditions.read(from: exception)
        if scope.reading.isSectionSet(exception.path) || scope.reading.tree[exception.path] != nil {
            unless = conditions
        }
        let given = ["never", "always", "ready"].filter(scope.isSet)
        if given.isEmpty, scope.isPresent {
            scope.report("must contain never, always or ready", "write such as never: served")
        }
        for word in given.dropFirst() { scope.report("conflicts with \(given[0])", "keep one of the two", at: word) }
        for case (let kind, let service?) in words { (self.kind, self.service) = (kind, service) }
        if ready != nil, self.scope != Conditions() || unless != nil {
            scope.report("conflicts with the conditions: a ready statement has its own", "leave them out", at: "ready")
        }
        if unless == Conditions(), !scope.reading.invalidKeys.contains(where: { $0.starts(with: exception.path) }) {
            exception.report("must contain a condition: it would excuse every request", "write such as session: true")
        } else if let unless, unless != Conditions(), unless.areImplied(by: self.scope, self.kind) {
            exception.report(
                "unless excuses all requests of the statement: it could never fail",
                "write a condition that the statement itself does not have, such as session: true")
        }
        ready?.fill(&self)
        guard let configuration else { return }
        self.scope.check(scope, against: configuration)
        unless?.check(exception, against: configuration)
    }
}

extension ValueFormat where Value == String {
    /// A method, or the word for all that change something.
    fileprivate static let statedMethod = ValueFormat("method, upper case, or `\(Statement.unsafeMethods)`") {
        text throws(ConfigValueError) in
        text == Statement.unsafeMethods ? text : try method.parse(text)
    }
}
