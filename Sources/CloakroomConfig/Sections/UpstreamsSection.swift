import CloakroomCore
import CloakroomWire

/// `upstreams`: a mapping from names to upstreams. At least one.
struct UpstreamsSection {
    /// In the order of the file.
    let configurations: [UpstreamConfiguration]
    let scopes: [ConfigScope]

    var names: [String] { configurations.map(\.name) }
    /// The names of the fields that carry API tokens.
    var tokenHeaders: [String] { configurations.compactMap { $0.apiToken?.header } }

    init(from root: ConfigScope) {
        let named = root.named("upstreams")
        if named.isEmpty, !root.reading.invalidKeys.contains(["upstreams"]) {
            root.reading.reportMissing(["upstreams"])
        }
        configurations = named.map { UpstreamConfiguration(named: $0.name, from: $0.scope) }
        scopes = named.map(\.scope)
        var variables: [String: String] = [:]
        for (name, scope) in named {
            scope.checkName(name)
            // Variable names preserve neither case nor punctuation.
            let variable = root.reading.variable([name])
            if let other = variables.updateValue(name, forKey: variable) {
                scope.report(
                    ConfigValueError(
                        "conflicts with upstream \(DiagnosticText.quoted(other)), which differs only in case or punctuation",
                        "rename one"))
            }
        }
    }

    /// The index of an upstream, or the error if the name is unknown.
    func index(of name: String) throws(ConfigValueError) -> Int {
        guard let index = names.firstIndex(of: name) else {
            throw ConfigValueError(
                "unknown upstream \(DiagnosticText.quoted(name))", NameSuggestion.suggestion(for: name, among: names))
        }
        return index
    }
}

extension UpstreamConfiguration {
    /// One upstream.
    ///
    /// - `targets`: see ``UpstreamTargetsSection``. Required.
    /// - `tls`: TLS settings for `https` targets; default none.
    /// - `zone`: the zone of the gateway; default none.
    /// - `protocol`: `http1` (default), `http2`, `h2c` or `auto`.
    /// - `dns`, `balance`, `health`, `eject`, `inFlight`, `retry`: see their sections. `health` is off by default.
    /// - `preserveHost`: whether the client's `Host` is forwarded. Default `true`.
    /// - `apiToken.header`: the field for the API token; default `X-API-TOKEN`.
    /// - `apiToken.value` or `apiToken.valueFile`: the token. Required within `apiToken`.
    /// - `signIn`, `refresh`, `revoke`, `user`: token calls; default none.
    /// - `sessionSource`: the name that sessions store as the issuer of their tokens; tokens are sent to no other
    ///   upstream. Default: the name of the upstream. Keep it if the upstream is renamed. Change it if the upstream
    ///   becomes another API, which ends the existing sessions.
    /// - `pool`: connection limits.
    /// - `claimHeaders`: see ``ClaimHeadersSection``.
    init(named name: String, from scope: ConfigScope) {
        let list = UpstreamTargetsSection(from: scope)
        let targets = list.targets
        let tls = UpstreamTLSConfiguration(from: scope.section("tls"), targets: targets)
        let zone = scope.optional("zone", as: .name)
        let version = scope.value("protocol", as: .choice(), default: UpstreamProtocol.http1)
        list.check(zone: zone, protocolVersion: version)
        self.init(
            name: name, targets: targets ?? [], tls: tls, zone: zone, protocolVersion: version,
            dns: DNSConfiguration(from: scope.sectionWithDefaults("dns")),
            balance: BalanceConfiguration(from: scope.sectionWithDefaults("balance")),
            health: HealthCheckConfiguration(
                from: scope.section("health"), upstream: scope, protocolVersion: version, targets: targets),
            eject: EjectionConfiguration(from: scope.sectionWithDefaults("eject")),
            inFlight: InFlightConfiguration(from: scope.sectionWithDefaults("inFlight")),
            retry: RetryConfiguration(from: scope.sectionWithDefaults("retry")),
            preserveHost: scope.value("preserveHost", as: .flag, default: true),
            apiToken: APIToken(from: scope.section("apiToken")),
            signIn: IdentityEndpointConfiguration(.signIn, from: scope.section("signIn")),
            refresh: IdentityEndpointConfiguration(.refresh, from: scope.section("refresh")),
            revoke: IdentityEndpointConfiguration(.revoke, from: scope.section("revoke")),
            user: IdentityEndpointConfiguration(.user, from: scope.section("user")),
            sessionSource: scope.value("sessionSource", as: .name, default: name),
            pool: PoolConfiguration(from: scope.sectionWithDefaults("pool"), protocolVersion: version),
            claimHeaders: ClaimHeadersSection.headers(scope))
        checkInFlight(scope)
    }

    /// With HTTP/1.1 a connection serves one request at a time.
    private func checkInFlight(_ scope: ConfigScope) {
        guard protocolVersion == .http1, inFlight.upstream > pool.maxConnections else { return }
        scope.sectionWithDefaults("inFlight").warn(
            ConfigValueError(
                "\(inFlight.upstream) is never reached: the pool has at most \(pool.maxConnections) connections, and"
                    + " with http1 each serves one request at a time",
                "lower it, or raise pool.maxConnections"), at: "upstream")
    }
}

extension PoolConfiguration {
    /// Limits of the connections to an upstream.
    ///
    /// - `maxConnections`: 1 to 65,535; default 1,024.
    /// - `maxPending`: 0 to 1,000,000; default 1,024.
    /// - `pendingTimeout`: 1ms to 1d; default 10s.
    /// - `idleTimeout`: 1ms to 1d; default 1m.
    /// - `requestsPerConnection`: 0 to 1,000,000; default 0, which means unlimited.
    /// - `streamWindow`: 64KiB to 16MiB; default 128KiB. Only for HTTP/2.
    fileprivate init(from scope: ConfigScope, protocolVersion: UpstreamProtocol) {
        let defaults = PoolConfiguration()
        self.init(
            maxConnections: scope.value("maxConnections", as: .integer(1...65_535), default: defaults.maxConnections),
            maxPending: scope.value("maxPending", as: .integer(0...1_000_000), default: defaults.maxPending),
            pendingTimeout: scope.value("pendingTimeout", as: .wait, default: defaults.pendingTimeout),
            idleTimeout: scope.value("idleTimeout", as: .wait, default: defaults.idleTimeout),
            requestsPerConnection: scope.value(
                "requestsPerConnection", as: .integer(0...1_000_000), default: defaults.requestsPerConnection),
            streamWindow: scope.value(
                "streamWindow", as: ByteSize.size(65_536...16_777_216), default: defaults.streamWindow))
        if !protocolVersion.allowsHTTP2, scope.isSet("streamWindow") {
            scope.warn(
                ConfigValueError(
                    "has no effect with protocol http1", "leave it out, or write protocol: http2, h2c or auto"),
                at: "streamWindow")
        }
    }
}

extension UpstreamTLSConfiguration {
    /// TLS towards an upstream. Verification cannot be disabled.
    ///
    /// - `caFile`: PEM file with the trusted certificates, instead of those of the system.
    /// - `certificateFile`, `keyFile`: PEM files of the gateway's own certificate; both or none.
    /// - `serverName`: the host name for SNI and verification, instead of the target's.
    /// - Parameter targets: The upstream's targets, if valid: without an `https` target this section has no effect.
    /// - Returns: `nil` if the section is absent.
    init?(from scope: ConfigScope, targets: [UpstreamTargetConfiguration]?) {
        let caFile = scope.optional("caFile", as: scope.pemFile(.certificate))
        let certificateFile = scope.optional("certificateFile", as: scope.pemFile(.certificate))
        let keyFile = scope.optional("keyFile", as: scope.pemFile(.privateKey))
        if let keyFile { scope.warnAboutAccess(to: keyFile, at: "keyFile") }
        let serverName = scope.optional("serverName", as: .hostName)
        guard scope.isPresent else { return nil }
        for (name, twin) in [("keyFile", "certificateFile"), ("certificateFile", "keyFile")]
        where scope.isSet(name) && !scope.isSet(twin) {
            scope.report(
                ConfigValueError("not supported without \(twin)", "name both files, or none"), at: name,
                becauseOf: [scope.path + [twin]])
        }
        if let targets, !targets.isEmpty, !targets.contains(where: { $0.scheme == .https }) {
            let key = ["caFile", "certificateFile", "keyFile", "serverName"].first(where: scope.isSet)
            if let key {
                scope.report(
                    ConfigValueError(
                        "not supported without https:// targets", "write https:// targets, or leave it out"),
                    at: key)
            }
        }
        self.init(caFile: caFile, serverName: serverName)
        if let certificateFile, let keyFile {
            clientCertificate = ClientCertificate(certificateFile: certificateFile, keyFile: keyFile)
        }
    }
}

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
    static let reserved: Set<String> = [
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
