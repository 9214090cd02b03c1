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
struct AccountsSection {
    let configuration: AccountsConfiguration
    /// Whether the sign-in upstream, if any, is unambiguous. If not, an error has been reported.
    let isUnambiguous: Bool

    init(from scope: ConfigScope, upstreams: UpstreamsSection) {
        let prefix = scope.value("prefix", as: Self.prefix, default: AccountsConfiguration().prefix)
        let (upstream, isUnambiguous) = Self.upstream(scope, upstreams)
        let name = AccountsConfiguration.SignInName(from: scope.sectionWithDefaults("name"))
        let isThrottled = scope.value("throttle", as: .flag, default: AccountsConfiguration().isThrottled)
        let signInsPerAddress = scope.value(
            "signInsPerAddress", as: .integer(0...1_000_000), default: AccountsConfiguration().signInsPerAddress)
        configuration = AccountsConfiguration(
            prefix: prefix, upstream: upstream, name: name, messages: scope.messages(), isThrottled: isThrottled,
            signInsPerAddress: signInsPerAddress)
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
        if member == "password" {
            scope.report(
                ConfigValueError("password is the member of the password", "write another name such as username"),
                at: "member")
        }
        self.init(member: member, kind: scope.value("kind", as: .choice(), default: defaults.kind))
    }
}
