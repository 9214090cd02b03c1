import CloakroomCore

/// `accounts`: the gateway's own endpoints.
///
/// - `prefix`: the path they stand under; default `/auth`.
/// - `upstream`: the upstream that signs people in; by default the only one that has `signIn`.
/// - `throttle`: whether attempts to sign in are throttled; default `true`.
/// - `signInsPerAddress`: the most attempts to sign in from one address in 10 minutes, successful or not, 0 to
///   1,000,000; of one account at most 20 of them. Default 100; 0 is without limit.
/// - `messages`: sentences for people by code; none by default.
struct AccountsConfig {
    let plan: AccountsPlan
    /// Whether it is clear which upstream signs people in, if any. If not, that has been said already.
    let isClear: Bool

    init(from scope: ConfigScope, upstreams: UpstreamsConfig) {
        let prefix = scope.value("prefix", as: Self.prefix, default: AccountsPlan().prefix)
        let (upstream, isClear) = Self.upstream(scope, upstreams)
        let isThrottled = scope.value("throttle", as: .flag, default: AccountsPlan().isThrottled)
        let signInsPerAddress = scope.value(
            "signInsPerAddress", as: .integer(0...1_000_000), default: AccountsPlan().signInsPerAddress)
        plan = AccountsPlan(
            prefix: prefix, upstream: upstream, messages: scope.messages(), isThrottled: isThrottled,
            signInsPerAddress: signInsPerAddress)
        self.isClear = isClear
    }

    private static func upstream(_ scope: ConfigScope, _ upstreams: UpstreamsConfig) -> (Int?, isClear: Bool) {
        let name = scope.optional("upstream", as: .text)
        let candidates = upstreams.scopes.indices.filter { index in
            let scope = upstreams.scopes[index]
            return scope.reading.isSectionGiven(scope.path + ["signIn"])
        }
        guard let name else {
            if scope.isGiven("upstream") { return (nil, false) }
            if candidates.count > 1 {
                let names = candidates.map { upstreams.names[$0] }.joined(separator: " or ")
                scope.reading.complain(
                    Mistake("several upstreams have signIn", "write \(names)"), at: scope.path + ["upstream"],
                    origin: .fallback, becauseOf: [scope.path + ["upstream"]])
                return (nil, false)
            }
            if let only = candidates.first { scope.reading.note(scope.path + ["upstream"], upstreams.names[only]) }
            return (candidates.first, true)
        }
        do throws(Mistake) {
            let index = try upstreams.index(of: name)
            guard candidates.contains(index) else {
                throw Mistake(
                    "upstream \(Printable.quoted(name)) has no signIn", "add upstreams.\(name).signIn, or name another")
            }
            return (index, true)
        } catch {
            scope.complain(error, at: "upstream", becauseOf: [["upstreams"], ["upstreams", name, "signIn"]])
            return (nil, false)
        }
    }

    private static let prefix = ValueFormat(
        "path",
        parse: { text throws(Mistake) in
            let path = try ValueFormat<String>.path.parse(text)
            guard !path.hasSuffix("/") else {
                throw Mistake("\(Printable.quoted(path)) ends with a slash", "write a path such as /auth")
            }
            return path
        }, render: { $0 })
}
