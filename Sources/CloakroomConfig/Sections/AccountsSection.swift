import CloakroomCore

/// `accounts`: the sign-in endpoints of the gateway.
///
/// - `prefix`: their path prefix; default `/auth`.
/// - `upstream`: the upstream used for sign-in; default: the only upstream with `signIn`.
/// - `name.member`: the member with the user name in a sign-in request; default `email`.
/// - `name.kind`: `email` (default) or `text`.
/// - `throttle`: whether sign-in attempts are throttled; default `true`.
/// - `signInsPerAddress`: the maximum number of sign-in attempts from one address in 10 minutes, successful or not, 0
///   to 1,000,000; at most 20 of them for one account. Default 100; 0 means unlimited.
/// - `messages`: user-visible messages by code; default none.
/// - `publicURL`: the origin of the gateway as browsers see it; required with `identities`.
/// - `identities`: names of identities and of the sign-in upstream, the default first; default all.
/// - `login.timeout`: 1m to 30m; default 10m. `login.returnTo`: default `/`.
struct AccountsSection {
    let configuration: AccountsConfiguration
    /// Whether the sign-in upstream, if any, is unambiguous. If not, an error has been reported.
    let isUnambiguous: Bool
    let scope: ConfigScope

    init(from scope: ConfigScope, upstreams: UpstreamsSection, identities: IdentitiesSection) {
        self.scope = scope
        let prefix = scope.value("prefix", as: Self.prefix, default: AccountsConfiguration().prefix)
        let (upstream, isUnambiguous) = Self.upstream(scope, upstreams)
        let name = AccountsConfiguration.SignInName(from: scope.sectionWithDefaults("name"))
        let isThrottled = scope.value("throttle", as: .flag, default: AccountsConfiguration().isThrottled)
        let signInsPerAddress = scope.value(
            "signInsPerAddress", as: .integer(0...1_000_000), default: AccountsConfiguration().signInsPerAddress)
        let messages = scope.messages()
        let publicURL = scope.optional("publicURL", as: .publicURL)
        let sources = Self.sources(scope, upstream, upstreams, identities)
        // An upstream that is not listed among the identities signs no users in.
        let signIn = upstream.flatMap { sources.isEmpty || sources.contains(.upstream($0)) ? $0 : nil }
        configuration = AccountsConfiguration(
            prefix: prefix, upstream: signIn, name: name, messages: messages, isThrottled: isThrottled,
            signInsPerAddress: signInsPerAddress, publicURL: publicURL, identities: sources,
            login: LoginConfiguration(from: scope.sectionWithDefaults("login")))
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
                let names = candidates.map { upstreams.names[$0] }.joined(separator: " or ")
                scope.reading.report(
                    ConfigValueError("required key missing: several upstreams define signIn", "write \(names)"),
                    at: scope.path + ["upstream"],
                    origin: .defaultValue, becauseOf: [scope.path + ["upstream"]])
                return (nil, false)
            }
            if let only = candidates.first { scope.reading.note(scope.path + ["upstream"], upstreams.names[only]) }
            return (candidates.first, true)
        }
        do throws(ConfigValueError) {
            let index = try upstreams.index(of: name)
            guard candidates.contains(index) else {
                throw ConfigValueError(
                    "must be an upstream with signIn, not \(DiagnosticText.quoted(name))",
                    "add upstreams.\(name).signIn, or name another")
            }
            return (index, true)
        } catch {
            scope.report(error, at: "upstream", becauseOf: [["upstreams"], ["upstreams", name, "signIn"]])
            return (nil, false)
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
                    ConfigValueError(
                        "unknown identity \(DiagnosticText.quoted(name))",
                        NameSuggestion.suggestion(for: name, among: known)), item: item, of: "identities")
                continue
            }
            guard !sources.contains(source) else {
                scope.report(ConfigValueError("must be unique", "keep one of them"), item: item, of: "identities")
                continue
            }
            sources.append(source)
        }
        return sources
    }

    private static let prefix = ValueFormat(
        "path",
        parse: { text throws(ConfigValueError) in
            let path = try ValueFormat<String>.path.parse(text)
            guard !path.hasSuffix("/") else {
                throw ConfigValueError(
                    "must be a path without a slash at its end, not \(DiagnosticText.quoted(path))",
                    "write a path such as /auth")
            }
            return path
        }, render: { $0 })
}

extension AccountsConfiguration.SignInName {
    /// `accounts.name`.
    fileprivate init(from scope: ConfigScope) {
        let defaults = Self()
        let member = scope.value("member", as: .memberName, default: defaults.member)
        if member == "password" || member == "persistent" {
            scope.report(
                ConfigValueError("\(member) is another member of a sign-in", "write another name such as username"),
                at: "member")
        }
        self.init(member: member, kind: scope.value("kind", as: .choice(), default: defaults.kind))
    }
}

extension LoginConfiguration {
    /// `accounts.login`.
    fileprivate init(from scope: ConfigScope) {
        let defaults = Self()
        self.init(
            timeout: scope.value("timeout", as: .duration(.seconds(60) ... .seconds(1_800)), default: defaults.timeout),
            returnTo: scope.value("returnTo", as: .path, default: defaults.returnTo))
    }
}
