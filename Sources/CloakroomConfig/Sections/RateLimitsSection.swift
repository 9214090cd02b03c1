import CloakroomCore

/// `rateLimits`: a mapping from names to limits, at most 32; default none.
struct RateLimitsSection {
    /// The maximum number of limits.
    private static let most = 32

    let root: ConfigScope
    let items: [(name: String, scope: ConfigScope)]
    /// In the order of the file.
    let limits: [RateLimit]

    var names: [String] { items.map(\.name) }

    init(from root: ConfigScope) {
        self.root = root
        items = root.items(named: "rateLimits", of: ("rate limit", "limits"), most: Self.most)
        limits = items.map { name, scope in
            var limit = RateLimit(name: name)
            limit.read(from: scope)
            return limit
        }
    }
}

extension RateLimit: ConfigSection {
    /// One limit.
    static let keys: [Key<Self>] = [
        Key { if let subject = $0.required("by", as: .limitSubject) { $1.subject = subject } },
        Key { if let rate = $0.required("requests", as: .requestRate) { $1.requests = rate } },
        Key(optional: "burst", \.givenBurst, .integer(1...100_000)),
        Key("enforce", \.isEnforced, .flag),
        Key("shared", \.isShared, .flag),
        Key {
            $1.when = $0.claims("when")
            for claim in $1.when where !claim.excluded.isEmpty {
                $0.warn(
                    "\(claim.name) has none: users without the claim, or with one of another type, are not limited",
                    "list the values that are limited in any, or limit all users", at: "when")
            }
        },
    ]
}

extension ConfigScope {
    /// The sections of a mapping, in the order of the file. Reports names that flags cannot contain, names that differ only
    /// in what names of variables do not preserve, case and punctuation, and too many of them.
    /// - Parameter kind: What one name belongs to, and several.
    func items(
        named name: String, of kind: (one: String, many: String), most: Int = .max
    ) -> [(name: String, scope: ConfigScope)] {
        let sections = named(name)
        checkCount(sections.count, most: most, kind.many, at: name)
        var variables: [String: String] = [:]
        for (name, section) in sections {
            section.checkName(name)
            guard let other = variables.updateValue(name, forKey: reading.variable([name])) else { continue }
            section.report(
                "conflicts with \(kind.one) \(other.quoted), which differs only in case or punctuation", "rename one")
        }
        return sections
    }

    /// Reports a list or a mapping with too many items.
    func checkCount(_ count: Int, most: Int, _ noun: String, _ remedy: String = "remove some", at name: String) {
        guard count > most else { return }
        report("must be at most \(most) \(noun), not \(count)", remedy, at: name)
    }
}

extension ValueFormat where Value == RateLimit.Subject {
    private static let claimPrefix = "claim:"

    /// What requests are counted by.
    static let limitSubject = ValueFormat("`address`, `session`, `account`, `route`, or `claim:` and a name") {
        text throws(ConfigValueError) in
        switch text {
        case "address": return .address
        case "session": return .session
        case "account": return .account
        case "route": return .route
        default: break
        }
        try require(
            text.hasPrefix(claimPrefix), "must be one of the allowed values, not \(text.quoted)",
            "write address, session, account, route or claim:NAME")
        return .claim(try ValueFormat<ClaimName>.claimName.parse(String(text.dropFirst(claimPrefix.count))))
    }
}

extension ValueFormat where Value == RequestRate {
    static let requestRate = ValueFormat("number of requests from 1 to 1000000 in a second, minute or hour: `600/m`") {
        text throws(ConfigValueError) in
        let parts = text.split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false)
        try require(
            parts.count == 2 || Int(parts[0]) != nil, "must be a number and a unit: s, m or h, not \(text.quoted)",
            "write a number and a unit, such as 2/s")
        let count = try ValueFormat<Int>.integer(1...1_000_000).parse(String(parts[0]))
        guard parts.count == 2, let period = RequestRate.Period(rawValue: String(parts[1])) else {
            throw ConfigValueError("must have a unit: s, m or h, not \(text.quoted)", "write \(count)/m")
        }
        return RequestRate(count, per: period)
    }
}
