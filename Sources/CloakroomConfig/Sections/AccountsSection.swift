import CloakroomCore
import CloakroomWire

/// `accounts`: the sign-in endpoints of the gateway.
struct AccountsSection {
    let configuration: AccountsConfiguration
    let sites: SitesSection
    let apps: AppsSection
    /// Whether the sign-in upstream, if any, is unambiguous. If not, an error has been reported.
    let isUnambiguous: Bool
    let scope: ConfigScope

    init(from root: ConfigScope, upstreams: UpstreamsSection, identities: IdentitiesSection) {
        let scope = root.sectionWithDefaults("accounts")
        self.scope = scope
        var accounts = GatewayConfiguration.defaults.accounts
        accounts.prefix = scope.value("prefix", as: Self.prefix, default: accounts.prefix)
        let (upstream, isUnambiguous) = Self.upstream(scope, upstreams)
        accounts.read(from: scope)
        let signIn = { (scope: ConfigScope) -> (identities: [SignInSource], upstream: Int?) in
            let sources = Self.sources(scope, upstream, upstreams, identities)
            // An upstream that is not listed among the identities signs no users in.
            return (sources, upstream.flatMap { sources.isEmpty || sources.contains(.upstream($0)) ? $0 : nil })
        }
        (accounts.identities, accounts.upstream) = signIn(scope)
        accounts.login.read(from: scope.sectionWithDefaults("login"))
        accounts.basic.read(from: scope.sectionWithDefaults("basic"))
        apps = AppsSection(from: scope)
        accounts.apps = apps.items.map(\.configuration)
        sites = SitesSection(from: root, main: SiteConfiguration(accounts), signIn: signIn)
        for site in sites.items { accounts.add(site.configuration) }
        for (issuer, section) in upstreams.scopes.enumerated() {
            let receivers = Self.receivers(of: issuer, upstreams)
            guard !receivers.isEmpty else { continue }
            if issuer == accounts.upstream {
                accounts.tokensFor = receivers
                let names = receivers.map { upstreams.names[$0] }.joined(separator: ", ")
                section.warn(
                    "\(names) can use the tokens at \(upstreams.names[issuer]) as the user (RFC 9700 §2.3)",
                    "list only upstreams that may act as each user", at: "tokensFor")
            } else if isUnambiguous {
                section.warn("has no effect: the upstream signs no users in", "leave it out", at: "tokensFor")
            }
        }
        configuration = accounts
        self.isUnambiguous = isUnambiguous
    }

    private static func upstream(_ scope: ConfigScope, _ upstreams: UpstreamsSection) -> (Int?, isUnambiguous: Bool) {
        let name = scope.optional("upstream", as: .text)
        let candidates = upstreams.scopes.indices.filter { index in
            let scope = upstreams.scopes[index]
            return scope.reading.isSectionSet(scope.path + ["signIn"])
        }
        guard let name else {
            if scope.isSet("upstream") { return (nil, false) }
            if candidates.count > 1 {
                let names = candidates.map { upstreams.names[$0] }.alternatives
                scope.report(
                    "required key missing: several upstreams define signIn", "write \(names)", at: "upstream",
                    becauseOf: [scope.path + ["upstream"]])
                return (nil, false)
            }
            if let only = candidates.first { scope.reading.note(scope.path + ["upstream"], upstreams.names[only]) }
            return (candidates.first, true)
        }
        do throws(ConfigValueError) {
            let index = try upstreams.index(of: name)
            try require(
                candidates.contains(index), "must be an upstream with signIn, not \(name.quoted)",
                "add upstreams.\(name).signIn, or name another")
            return (index, true)
        } catch {
            scope.report(error, at: "upstream", becauseOf: [["upstreams"], ["upstreams", name, "signIn"]])
            return (nil, false)
        }
    }

    /// The upstreams that may get the tokens which an upstream issues.
    private static func receivers(of issuer: Int, _ upstreams: UpstreamsSection) -> [Int] {
        let (scope, name) = (upstreams.scopes[issuer], upstreams.names[issuer])
        return upstreams.tokensFor(upstreams.receivers[issuer], in: scope) { index throws(ConfigValueError) in
            try require(
                index != issuer, "must be another upstream: \(name) gets the tokens that it issues", "leave it out")
            if let problem = upstreams.clearTextProblem(index) { throw problem }
        }
    }

    /// What users may sign in with. Without identities nothing is listed: the upstream alone signs users in.
    private static func sources(
        _ scope: ConfigScope, _ upstream: Int?, _ upstreams: UpstreamsSection, _ identities: IdentitiesSection
    ) -> [SignInSource] {
        let names = scope.nonEmptyList("identities", as: .text)
        let providers = identities.items.indices.map(SignInSource.provider)
        guard let names else { return providers.isEmpty ? [] : providers + (upstream.map { [.upstream($0)] } ?? []) }
        let known = identities.names + (upstream.map { [upstreams.names[$0]] } ?? [])
        var sources: [SignInSource] = []
        for (item, name) in names.enumerated() {
            let source: SignInSource
            if let index = identities.names.firstIndex(of: name) {
                source = .provider(index)
            } else if let upstream, upstreams.names[upstream] == name {
                source = .upstream(upstream)
            } else {
                scope.report(
                    "unknown identity \(name.quoted)",
                    NameSuggestion.suggestion(for: name, among: known), at: "identities", item: item)
                continue
            }
            guard !sources.contains(source) else {
                scope.report("must be unique", "keep one of them", at: "identities", item: item)
                continue
            }
            sources.append(source)
        }
        return sources
    }

    private static let prefix = ValueFormat("path") { text throws(ConfigValueError) in
        let path = try ValueFormat<String>.path.parse(text)
        try require(
            !path.hasSuffix("/"), "must be a path without a slash at its end, not \(path.quoted)",
            "write a path such as /auth")
        return path
    }
}

extension AccountsConfiguration: ConfigSection {
    /// The keys of `accounts` between `upstream` and `identities`, which depend on other sections.
    static let keys: [Key<Self>] = [
        Key(section: "name", \.name),
        Key("throttle", \.isThrottled, .flag, .restart),
        Key("signInsPerAddress", \.signInsPerAddress, .integer(0...1_000_000)),
        Key { $1.messages = $0.messages() },
        Key(optional: "publicURL", \.publicURL, .publicURL),
    ]
}

extension AccountsConfiguration.SignInName: ConfigSection {
    /// `accounts.name`.
    static let keys: [Key<Self>] = [
        Key("member", \.member, .memberName),
        Key("kind", \.kind, .choice()),
    ]

    func check(_ scope: ConfigScope) {
        guard ["password", "persistent", "app"].contains(member) else { return }
        scope.report("\(member) is another member of a sign-in", "write another name such as username", at: "member")
    }
}

extension BasicConfiguration: ConfigSection {
    /// `accounts.basic`.
    static let keys: [Key<Self>] = [
        Key("idle", \.idle, .duration(.seconds(1) ... .seconds(3_600))),
        Key("maximum", \.maximum, .duration(.seconds(60) ... .seconds(86_400))),
        Key("entries", \.entries, .integer(2...100_000)),
    ]
}

extension LoginConfiguration: ConfigSection {
    /// `accounts.login`.
    static let keys: [Key<Self>] = [
        Key("returnTo", \.returnTo, .path)
    ]
}
