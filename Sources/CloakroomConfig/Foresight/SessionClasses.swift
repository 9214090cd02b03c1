import CloakroomCore

/// One session for each class of sessions that no route and no statement distinguishes.
///
/// Routes ask of a session for its source, for the values of required claims, for the authentication context, and how long
/// ago its user authenticated. Of a claim only this matters: whether it exists, and which values of the lists it has.
/// Values that are in the same lists are exchangeable, and of those only none, one or all can make a difference. Items
/// that are no text are rejected wherever an excluded value is, and accepted nowhere else. An authentication that is as
/// old as a route permits meets every longer limit.
struct SessionClasses {
    struct State {
        let lookup: SessionLookup
        /// `nil` without a session or without claims.
        let claims: JSONValue?
        /// `nil` without a session.
        let description: String?

        var hasSession: Bool { description != nil }
    }

    /// The maximum number of sessions.
    static let limit = 20_000

    /// The first one is the absence of a session.
    private(set) var states = [State(lookup: .missing(.noSession), claims: nil, description: nil)]

    /// - Parameter claims: Those that statements mention.
    init(_ configurations: [GatewayConfiguration], claims: [RequiredClaim]) throws(TooManyClasses) {
        let parts = configurations.flatMap(\.routes).map(\.require).flatMap { [$0] + $0.anyOf }
        let choices = Self.choices(claims + parts.flatMap(\.claims))
        let contexts = [nil] + Set(parts.flatMap(\.acr)).sorted().map(Optional.some)
        let ages = [nil] + Set(parts.compactMap(\.maxAge)).sorted().map(Optional.some)
        let product = choices.reduce(contexts.count * ages.count) { min($0 * $1.options.count, Self.limit + 1) }
        guard product <= Self.limit else {
            throw TooManyClasses(
                message: "the routes and statements distinguish more than \(Self.limit) classes of sessions",
                suggestion: "prove statements about different claims in several files")
        }
        let assignments = choices.reduce([[(ClaimName, [String]?)]]([[]])) { all, choice in
            all.flatMap { assignment in choice.options.map { assignment + [(choice.name, $0)] } }
        }
        var known: Set<SessionSource> = []
        for configuration in configurations {
            let sites =
                configuration.sites.isEmpty ? [configuration] : configuration.sites.indices.map(configuration.site)
            for site in sites {
                if let source = site.sessionSource, known.insert(source).inserted {
                    let name = site.accounts.upstream.map { site.upstreams[$0].name } ?? ""
                    states.append(State(source, "a session of upstream \(name)"))
                }
                for identity in site.providers where known.insert(identity.source).inserted {
                    for assignment in assignments {
                        guard let claims = Self.document(assignment) else { continue }
                        for context in contexts {
                            for age in ages { states.append(State(identity, assignment, claims, context, age)) }
                        }
                    }
                }
            }
        }
    }

    /// For each claim, the values that it can have; `nil` is its absence.
    private static func choices(_ claims: [RequiredClaim]) -> [(name: ClaimName, options: [[String]?])] {
        var names: [ClaimName] = []
        // The provider states the issuer.
        for claim in claims where !names.contains(claim.name) && claim.name != "iss" { names.append(claim.name) }
        return names.map { name in
            let own = claims.filter { $0.name == name }
            let lists = own.flatMap { [$0.acceptable.texts, $0.necessary.texts, $0.excluded.texts] }.map(Set.init)
            let values = lists.reduce(into: Set<String>()) { $0.formUnion($1) }.sorted()
            if name == "sub" { return (name, [nil] + values.map { [$0] }) }
            let kinds = Dictionary(grouping: values) { value in lists.map { $0.contains(value) } }.values
            let areAllNeeded = own.contains { $0.necessary.texts.count > 1 }
            var options: [[String]] = [[]]
            for kind in kinds.sorted(by: { $0[0] < $1[0] }) where options.count <= limit {
                let further = kind.count > 1 && areAllNeeded ? [kind, [kind[0]]] : [kind]
                options += options.flatMap { chosen in further.map { chosen + $0 } }
            }
            let other = values.contains("other") ? "other value" : "other"
            return (name, [nil] + options.map { $0.isEmpty ? [other] : $0 })
        }
    }

    /// The claims in JSON; `nil` if one claim would be within another one that is a list.
    private static func document(_ assignment: [(name: ClaimName, values: [String]?)]) -> String? {
        let given = assignment.compactMap { name, values in
            values.map { (path: name.path.map(\.text)[...], values: $0) }
        }
        return object(given.filter { $0.path != ["sub"] })
    }

    private static func object(_ claims: [(path: ArraySlice<String>, values: [String])]) -> String? {
        var members: [String] = []
        for (name, inner) in Dictionary(grouping: claims, by: { $0.path.first ?? "" }).sorted(by: { $0.key < $1.key }) {
            let value: String?
            if inner.count == 1, inner[0].path.count == 1 {
                value = "[\(inner[0].values.map(JSONString.quoted).joined(separator: ","))]"
            } else if inner.allSatisfy({ $0.path.count > 1 }) {
                value = object(inner.map { ($0.path.dropFirst(), $0.values) })
            } else {
                value = nil
            }
            guard let value else { return nil }
            members.append("\(JSONString.quoted(name)):\(value)")
        }
        return "{\(members.joined(separator: ","))}"
    }
}

extension SessionClasses.State {
    fileprivate init(_ source: SessionSource, _ description: String, _ provenance: SessionProvenance? = nil) {
        let now = DecisionTables.now
        let session = Session(
            key: SessionKey(1, 2, 3, 4), user: UserProfile(json: [], account: AccountName(text: "user")),
            tokens: TokenSet(authorization: Secret("Bearer token"), obtainedAt: now), source: source,
            provenance: provenance, createdAt: SessionTime(milliseconds: 0),
            expiresAt: SessionTime(milliseconds: .max), lastUsedAt: SessionTime(milliseconds: 0))
        self.init(lookup: .active(session), claims: session.claims?.values, description: description)
    }

    fileprivate init(
        _ identity: IdentityConfiguration, _ claims: [(ClaimName, [String]?)], _ document: String, _ context: String?,
        _ age: Duration?
    ) {
        let subject = claims.first { $0.0 == "sub" }?.1?.first ?? "user"
        var parts = claims.compactMap { name, values in
            values.map { "\(name) [\($0.joined(separator: ", "))]".escaped }
        }
        if let context { parts.append("acr \(context)") }
        if let age { parts.append("an authentication \(ValueFormat<Duration>.rendered(age)) ago") }
        let provenance = SessionProvenance(
            identity: identity.name, issuer: identity.issuer, subject: subject,
            authenticatedAt: age.map { DecisionTables.now - $0 }, acr: context, nonceHash: [],
            claims: Array(document.utf8))
        let details = parts.isEmpty ? "" : " with \(parts.joined(separator: ", "))"
        self.init(identity.source, "a session of \(identity.name)\(details)", provenance)
    }
}
