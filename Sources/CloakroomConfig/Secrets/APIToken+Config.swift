import CloakroomCore

extension APIToken {
    /// `apiToken` of an upstream.
    /// - Returns: `nil` if the section is absent or invalid.
    init?(from scope: ConfigScope) {
        let header = scope.value("header", as: Self.headerName, default: "X-API-TOKEN")
        let value = scope.secret("value", as: .fieldValue)
        guard let value else { return nil }
        self.init(header: header, value: value)
    }

    /// Fields that frame a message, are connection-specific or are set by the gateway. A token in one of them would
    /// break the request or replace a value of the gateway.
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
            // Upstreams that map field names to variables (CGI) treat hyphen, underscore and dot alike.
            let folded = String(name.lowercased().map { $0.isLetter || $0.isNumber ? $0 : "-" })
            guard !reserved.contains(folded) else {
                throw ConfigValueError(
                    "must be a field without a reserved meaning, not \(name)", "write another field such as X-API-TOKEN"
                )
            }
            return name
        }, render: { $0 })
}
