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
        parse: { text throws(Mistake) in
            let name = try ValueFormat<String>.token.parse(text)
            // Upstreams that turn names into variables do not tell a hyphen from an underscore or a dot.
            let folded = String(name.lowercased().map { $0.isLetter || $0.isNumber ? $0 : "-" })
            guard !reserved.contains(folded) else {
                throw Mistake("\(name) has a meaning of its own", "write another field such as X-API-TOKEN")
            }
            return name
        }, render: { $0 })
}

extension ConfigScope {
    /// A secret, which stands in the key itself or in the file that its twin names; not in both within one layer.
    func secret<Value>(_ name: String, as format: ValueFormat<Value>) -> Value? {
        let twin = SecretFilesProvider.twin(of: name)
        _ = optional(twin, as: .text)
        let value = optional(name, as: format, isSecret: true)
        for layer in [Layer.flags, .environment, .file] {
            guard reading.isGiven(path + [name], in: layer), reading.isGiven(path + [twin], in: layer) else { continue }
            let origin: Origin? =
                switch layer {
                case .flags: .flag
                case .environment: .environment(reading.variable(path + [twin]))
                case .secretFiles, .file: reading.tree[path + [twin]].map { .file($0.value) }
                }
            reading.add(
                Mistake("stands beside \(name)", "keep one of the two"), key: path + [twin], origin: origin ?? .fallback
            )
        }
        if isPresent, !isGiven(name), !isGiven(twin) { reading.noteMissing(path + [name]) }
        return value
    }
}
