import CloakroomCore

extension APIToken {
    /// `apiToken` of an upstream.
    /// - Returns: `nil` if the section is absent or not usable.
    init?(from scope: ConfigScope) {
        let header = scope.value("header", as: Self.headerName, default: "X-API-TOKEN")
        let value = scope.secret("value", as: .fieldValue)
        guard let value else { return nil }
        self.init(header: header, value: value)
    }

    /// Fields that frame a message, belong to one connection or have a meaning of their own to the gateway: a token in
    /// one of them would break the exchange or replace what the gateway sets.
    private static let reserved: Set<String> = [
        "authorization", "connection", "content-encoding", "content-length", "content-type", "cookie", "date", "expect",
        "forwarded", "host", "keep-alive", "max-forwards", "proxy-authenticate", "proxy-authorization",
        "proxy-connection", "set-cookie", "te", "traceparent", "tracestate", "trailer", "transfer-encoding", "upgrade",
        "via", "x-client-cert-subject", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-request-id",
    ]

    private static let headerName = ValueFormat(
        "name of a field",
        parse: { text throws(ConfigValueError) in
            let name = try ValueFormat<String>.token.parse(text)
            // Upstreams that turn names into variables do not tell a hyphen from an underscore or a dot.
            let folded = String(name.lowercased().map { $0.isLetter || $0.isNumber ? $0 : "-" })
            guard !reserved.contains(folded) else {
                throw ConfigValueError("\(name) has a meaning of its own", "write another field such as X-API-TOKEN")
            }
            return name
        }, render: { $0 })
}
