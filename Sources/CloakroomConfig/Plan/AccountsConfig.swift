import CloakroomCore

/// `accounts`: the gateway's own endpoints.
///
/// - `prefix`: the path they stand under; default `/auth`.
/// - `upstream`: the upstream that signs people in; by default the only one that has `signIn`.
/// - `throttle`: whether attempts to sign in are throttled; default `true`.
/// - `signInsPerAddress`: the most attempts to sign in from one address in 10 minutes, successful or not, 0 to
///   1,000,000; of one account at most 20 of them. Default 100; 0 is without limit.
/// - `messages`: sentences for people by code; none by default.
struct AccountsSection {
    let configuration: AccountsConfiguration
    /// Whether it is clear which upstream signs people in, if any. If not, that has been said already.
    let isUnambiguous: Bool

    init(from scope: ConfigScope, upstreams: UpstreamsSection) {
        let prefix = scope.value("prefix", as: Self.prefix, default: AccountsConfiguration().prefix)
        let (upstream, isUnambiguous) = Self.upstream(scope, upstreams)
        let isThrottled = scope.value("throttle", as: .flag, default: AccountsConfiguration().isThrottled)
        let signInsPerAddress = scope.value(
            "signInsPerAddress", as: .integer(0...1_000_000), default: AccountsConfiguration().signInsPerAddress)
        configuration = AccountsConfiguration(
            prefix: prefix, upstream: upstream, messages: scope.messages(), isThrottled: isThrottled,
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
                    ConfigValueError("several upstreams have signIn", "write \(names)"), at: scope.path + ["upstream"],
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
                    "upstream \(DiagnosticText.quoted(name)) has no signIn",
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
                throw ConfigValueError("\(DiagnosticText.quoted(path)) ends with a slash", "write a path such as /auth")
            }
            return path
        }, render: { $0 })
}
