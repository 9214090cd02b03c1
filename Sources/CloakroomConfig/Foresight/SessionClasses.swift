import CloakroomCore

/// One session for each class of sessions that some routes and a statement do not distinguish.
///
/// Routes ask of a session for its source, for the values of required claims, for the authentication context, and how long
/// ago its user authenticated. Of a claim only this matters: whether it exists, which values of the lists it has, whether
/// an item is no text, and whether a request field can contain it. Values that are in the same lists are exchangeable,
/// and of those only none, one or all can make a difference. An authentication that is as old as a route permits meets
/// every longer limit. Access tokens of clients have the same classes.
struct SessionClasses {
    struct State {
        let credential: Credential
        let lookup: SessionLookup
        /// `nil` without a session or without claims.
        let claims: JSONValue?
        /// For readers.
        let description: String

        /// Whether it has a session: that of a cookie, a verified access token, or a name and a password.
        var hasSession: Bool { credential != .none && credential != .unverified }
    }

    /// A value of a claim, for readers and in JSON.
    fileprivate struct Item {
        let text: String
        let json: String

        init(_ text: String, json: String? = nil) { (self.text, self.json) = (text, json ?? JSONString.quoted(text)) }

        /// A text in quotation marks, because it may contain a comma.
        var shown: String {
            let quoted = JSONString.quoted(text)
            return json == quoted ? quoted : text
        }
    }

    fileprivate typealias Assignment = [(name: ClaimName, items: [Item]?)]

    /// The maximum number of sessions.
    static let limit = 20_000

    /// The first one is the absence of a session.
    private(set) var states = [
        State(credential: .none, lookup: .missing(.noSession), claims: nil, description: "no session"),
        State(
            credential: .unverified, lookup: .missing(.noSession), claims: nil,
            description: "Authorization that is not verified"),
    ]

    /// - Parameters:
    ///   - routes: The routes of a request in these configurations. What others require does not matter to it.
    ///   - claims: Those that a statement mentions.
    init(_ configurations: [GatewayConfiguration], for routes: [Route], claims: [RequiredClaim] = [])
        throws(TooManyClasses)
    {
        let parts = routes.map(\.require).flatMap { [$0] + $0.anyOf }
        let choices = Self.choices(claims + parts.flatMap(\.claims))
        let contexts = [nil] + Set(parts.flatMap(\.acr)).sorted().map(Optional.some)
        let ages = [nil] + Set(parts.compactMap(\.maxAge)).sorted().map(Optional.some)
        let headers = configurations.flatMap(\.upstreams).flatMap(\.claimHeaders)
        let faults = [nil] + headers.filter { $0.claim != "sub" && $0.claim != "iss" }.map(Optional.some)
        let sites = configurations.flatMap { configuration in
            configuration.sites.isEmpty ? [configuration] : configuration.sites.indices.map(configuration.site)
        }
        let identities = sites.flatMap(\.providers)
        let product = choices.reduce(faults.count * contexts.count * ages.count) {
            min($0 * $1.options.count, Self.limit + 1)
        }
        let kinds =
            Set(identities.map(\.source)).count + Set(identities.filter { $0.accessTokens != nil }.map(\.source)).count
        guard product * kinds <= Self.limit else {
            throw TooManyClasses(
                message: "a route and a statement distinguish more than \(Self.limit) classes of sessions",
                suggestion: "let lists of the route and of the statement have the same values: those count as one")
        }
        let assignments = choices.reduce([Assignment]([[]])) { all, choice in
            all.flatMap { assignment in choice.options.map { assignment + [(choice.name, $0)] } }
        }
        var known: [Credential: Set<SessionSource>] = [:]
        for site in sites {
            if let source = site.sessionSource, known[.cookie, default: []].insert(source).inserted {
                let name = site.accounts.upstream.map { site.upstreams[$0].name } ?? ""
                states.append(State(.cookie, source, "a session of upstream \(name)"))
                // Whatever the routes: others that require the same share these classes, and read it.
                if configurations.flatMap(\.routes).contains(where: { $0.credentials.contains(.basic) }) {
                    states.append(
                        State(.basic, source, "a name and a password at upstream \(name)", isBound: false))
                }
            }
        }
        for identity in identities {
            for credential in [Credential.cookie, .token]
            where credential == .cookie || identity.accessTokens != nil {
                guard known[credential, default: []].insert(identity.source).inserted else { continue }
                for (assignment, fault) in assignments.flatMap({ one in faults.map { (one, $0) } }) {
                    let all = Self.adding(fault, to: assignment)
                    guard let claims = Self.document(all) else { continue }
                    for context in contexts {
                        for age in ages { states.append(State(credential, identity, all, claims, context, age)) }
                    }
                }
            }
        }
    }

    /// For each claim, the values that it can have; `nil` is its absence.
    private static func choices(_ claims: [RequiredClaim]) -> [(name: ClaimName, options: [[Item]?])] {
        var names: [ClaimName] = []
        // The provider states the issuer.
        for claim in claims where !names.contains(claim.name) && claim.name != "iss" { names.append(claim.name) }
        return names.map { name in
            let own = claims.filter { $0.name == name }
            let lists = own.flatMap { [$0.acceptable.texts, $0.necessary.texts, $0.excluded.texts] }.map(Set.init)
            let values = lists.reduce(into: Set<String>()) { $0.formUnion($1) }.sorted()
            var other = name == "sub" ? "user" : "other"
            while values.contains(other) { other += " value" }
            // Every session has a subject, and one only.
            if name == "sub" { return (name, ([other] + values).map { [Item($0)] }) }
            let kinds = Dictionary(grouping: values) { value in lists.map { $0.contains(value) } }.values
            let areAllNeeded = own.contains { $0.necessary.texts.count > 1 }
            var options: [[Item]] = [[]]
            for kind in kinds.sorted(by: { $0[0] < $1[0] }) where options.count <= limit {
                let items = kind.map { Item($0) }
                let further = kind.count > 1 && areAllNeeded ? [items, [items[0]]] : [items]
                options += options.flatMap { chosen in further.map { chosen + $0 } }
            }
            // An item that is no text is rejected with excluded values, and meets nothing.
            if own.contains(where: { !$0.excluded.isEmpty }), options.count <= limit {
                options += options.map { $0 + [Item("a number", json: "0")] }
            }
            return (name, [nil] + options.map { $0.isEmpty ? [Item(other)] : $0 })
        }
    }

    /// The claims, of which one is such that a field cannot contain it.
    private static func adding(_ fault: ClaimHeader?, to assignment: Assignment) -> Assignment {
        guard let fault else { return assignment }
        var items = (assignment.first { $0.name == fault.claim }?.items ?? nil) ?? []
        if fault.separator == nil {
            // A list.
            if items.isEmpty { items = [Item("other")] }
            items.append(items[0])
        } else {
            items.append(Item("an object", json: "{}"))
        }
        return assignment.filter { $0.name != fault.claim } + [(fault.claim, items)]
    }

    /// The claims in JSON; `nil` if one claim would be within another one that is a list.
    private static func document(_ assignment: Assignment) -> String? {
        let given = assignment.compactMap { name, items in items.map { (path: name.path.map(\.text)[...], items: $0) } }
        return object(given.filter { $0.path != ["sub"] })
    }

    private static func object(_ claims: [(path: ArraySlice<String>, items: [Item])]) -> String? {
        var members: [String] = []
        for (name, inner) in Dictionary(grouping: claims, by: { $0.path.first ?? "" }).sorted(by: { $0.key < $1.key }) {
            let value: String?
            if inner.count == 1, inner[0].path.count == 1 {
                // Fields can contain single values without being lists.
                let items = inner[0].items.map(\.json)
                value = items.count == 1 ? items[0] : "[\(items.joined(separator: ","))]"
            } else if inner.allSatisfy({ $0.path.count > 1 }) {
                value = object(inner.map { ($0.path.dropFirst(), $0.items) })
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
    fileprivate init(
        _ credential: Credential, _ source: SessionSource, _ description: String,
        _ provenance: SessionProvenance? = nil, isBound: Bool = true
    ) {
        let now = DecisionTables.now
        let session = Session(
            key: SessionKey(1, 2, 3, 4), user: UserProfile(json: [], account: AccountName(text: "user")),
            tokens: TokenSet(authorization: Secret("Bearer token"), obtainedAt: now), source: source,
            provenance: provenance,
            // Sessions without a key can use no more routes, and are not classes of their own.
            device: isBound ? DeviceBinding(key: [], boundAt: now) : nil,
            createdAt: SessionTime(milliseconds: 0), expiresAt: SessionTime(milliseconds: .max),
            lastUsedAt: SessionTime(milliseconds: 0))
        self.init(
            credential: credential, lookup: .active(session), claims: session.claims?.values, description: description)
    }

    fileprivate init(
        _ credential: Credential, _ identity: IdentityConfiguration, _ claims: SessionClasses.Assignment,
        _ document: String, _ context: String?, _ age: Duration?
    ) {
        let subject = claims.first { $0.name == "sub" }?.items?.first?.text ?? "user"
        var parts = claims.compactMap { name, items in
            items.map { "\(name) [\($0.map(\.shown).joined(separator: ", "))]".escaped }
        }
        if let context { parts.append("acr \(context)") }
        if let age { parts.append("an authentication \(ValueFormat<Duration>.rendered(age)) ago") }
        let provenance = SessionProvenance(
            identity: identity.name, issuer: identity.issuer, subject: subject,
            authenticatedAt: age.map { DecisionTables.now - $0 }, acr: context, nonceHash: [],
            claims: Array(document.utf8))
        let details = parts.isEmpty ? "" : " with \(parts.joined(separator: ", "))"
        let noun = credential == .token ? "an access token" : "a session"
        let isBound = credential == .cookie || identity.accessTokens?.dpop != .off
        self.init(credential, identity.source, "\(noun) of \(identity.name)\(details)", provenance, isBound: isBound)
    }
}
