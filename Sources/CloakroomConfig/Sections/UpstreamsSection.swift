import CloakroomCore
import CloakroomWire

/// `upstreams`: a mapping from names to upstreams. At least one.
struct UpstreamsSection {
    /// In the order of the file.
    let configurations: [UpstreamConfiguration]
    let scopes: [ConfigScope]
    /// The names in `tokensFor` of each.
    let receivers: [[String]]

    var names: [String] { configurations.map(\.name) }
    /// The names of the fields that carry tokens, without `Authorization`.
    var tokenHeaders: [String] { configurations.flatMap(\.tokenHeaders) }
    /// The names of the fields with claims of the user.
    var claimHeaderNames: [String] { configurations.flatMap(\.claimHeaderNames) }

    init(from root: ConfigScope) {
        let named = root.items(named: "upstreams", of: ("upstream", "upstreams"))
        if named.isEmpty, !root.reading.invalidKeys.contains(["upstreams"]) {
            root.reading.reportMissing(["upstreams"])
        }
        var receivers: [[String]] = []
        configurations = named.map { name, scope in
            var upstream = UpstreamConfiguration(name: name, targets: [])
            upstream.read(from: scope)
            receivers.append(scope.list("tokensFor", as: .text) ?? [])
            return upstream
        }
        self.receivers = receivers
        scopes = named.map(\.scope)
        for (upstream, scope) in zip(configurations, scopes) {
            guard upstream.signIn != nil || upstream.apiToken != nil else { continue }
            let secrets = upstream.signIn == nil ? "the API token" : "passwords and tokens"
            // Only a warning, and none in a private network, which often encrypts what the targets do not.
            if let problem = upstream.clearTextProblem(of: secrets, where: \.isPublic) {
                scope.warn(problem, at: "targets")
            }
        }
    }

    /// The index of an upstream, or the error if the name is unknown.
    func index(of name: String) throws(ConfigValueError) -> Int {
        guard let index = names.firstIndex(of: name) else {
            throw ConfigValueError(
                "unknown upstream \(name.quoted)", NameSuggestion.suggestion(for: name, among: names))
        }
        return index
    }

    /// The upstreams with the names in `tokensFor` of a section, each of them once.
    /// - Parameter check: Reports why an upstream may not be one of them.
    func tokensFor(
        _ names: [String], in scope: ConfigScope, check: (Int) throws(ConfigValueError) -> Void = { _ in }
    ) -> [Int] {
        var indices: [Int] = []
        for (item, name) in names.enumerated() {
            do throws(ConfigValueError) {
                let index = try index(of: name)
                try check(index)
                if !indices.contains(index) { indices.append(index) }
            } catch {
                scope.report(error, at: "tokensFor", item: item)
            }
        }
        return indices
    }

    /// The problem that access tokens for an upstream would leave this machine in clear text; `nil` if they do not.
    func clearTextProblem(_ index: Int) -> ConfigValueError? {
        configurations[index].clearTextProblem(of: "tokens") { !$0.isLoopback }
    }
}

extension UpstreamConfiguration {
    /// The problem that secrets would be sent in clear text to an address; `nil` if they are not.
    fileprivate func clearTextProblem(of secrets: String, where isOutside: (HostAndPort) -> Bool) -> ConfigValueError? {
        let target = targets.first { target in
            guard case .tcp(let address) = target.address else { return false }
            return target.scheme == .http && isOutside(address)
        }
        return target.map {
            ConfigValueError(
                "\(secrets) would be sent unencrypted to \($0)", "write https:// targets for upstreams.\(name)")
        }
    }
}

extension HostAndPort {
    /// Addresses for private use, of a link and of this machine (RFC 1918, RFC 6598, RFC 3927, RFC 4193, RFC 4291).
    private static let privateNetworks = [
        "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "169.254.0.0/16", "127.0.0.0/8", "fc00::/7",
        "fe80::/10", "::1",
    ].compactMap { CIDRBlock($0) }

    /// The ends of names that only a private network resolves, such as those of Kubernetes.
    private static let privateDomains = [".local", ".localhost", ".internal", ".svc", ".lan", ".home.arpa"]

    /// Whether the way to the address probably leads over networks of others. A name without a dot is of this network.
    fileprivate var isPublic: Bool {
        if IPAddress.bytes(of: host) != nil { return !Self.privateNetworks.contains { $0.contains(host) } }
        let name = host.lowercased()
        return name.contains(".") && !Self.privateDomains.contains { name.hasSuffix($0) || name.hasSuffix($0 + ".") }
    }
}

extension UpstreamConfiguration: ConfigSection {
    /// One upstream, which has a name.
    static let keys: [Key<Self>] = [
        Key { $1.readTargets($0) },
        Key(section: "dns", \.dns),
        Key(section: "balance", \.balance),
        Key { $1.health = HealthCheckConfiguration(from: $0.section("health"), of: $1, $0) },
        Key(section: "eject", \.eject),
        Key(section: "inFlight", \.inFlight),
        Key(section: "retry", \.retry),
        Key("preserveHost", \.preserveHost, .flag),
        Key { $1.apiToken = APIToken(from: $0.section("apiToken")) },
        Key { $1.readBearer($0.sectionWithDefaults("bearer")) },
        Key { $1.readIdentityCalls($0) },
        // Sessions store it as the issuer of their tokens: those of another issuer are not used.
        Key { scope, upstream in
            let name = scope.value("sessionSource", as: .name, default: upstream.name)
            upstream.sessionSource = name == upstream.name ? nil : name
        },
        Key(section: "pool", \.pool),
        Key { $1.claimHeaders = ClaimHeadersSection.headers($0) },
        Key { $1.assertion = AssertionConfiguration(from: $0.section("assertion")) },
    ]

    /// The targets, and the keys that they are checked against.
    private mutating func readTargets(_ scope: ConfigScope) {
        let isExternal = scope.value("external", as: .flag, default: false)
        let list = isExternal ? nil : UpstreamTargetsSection(from: scope)
        targets = list?.targets ?? []
        if isExternal {
            // A connection of the gateway to it needs a target.
            _ = scope.list("targets", as: .target)
            let keys = ["targets", "tls", "health", "protocol", "signIn", "refresh", "revoke", "user"]
            for key in keys where scope.isSet(key) || scope.reading.isSectionSet(scope.path + [key]) {
                scope.report("conflicts with external: only another proxy connects to it", "leave it out", at: key)
            }
        }
        tls = UpstreamTLSConfiguration(from: scope.section("tls"), targets: targets)
        zone = scope.optional("zone", as: .name)
        protocolVersion = scope.value("protocol", as: .choice(), default: protocolVersion)
        list?.check(zone: zone, protocolVersion: protocolVersion)
    }

    /// The field of tokens, which must not be that of the API token.
    private mutating func readBearer(_ scope: ConfigScope) {
        bearer.read(from: scope)
        guard let token = apiToken, FieldNameSet.folded(token.header) == FieldNameSet.folded(bearer.header) else {
            return
        }
        scope.report("conflicts with \(token.header), the field of the API token", "write another field", at: "header")
    }

    /// The identity calls, and what they have in common.
    private mutating func readIdentityCalls(_ scope: ConfigScope) {
        let section = scope.section("client")
        let client = IdentityEndpointConfiguration.Client(from: section)
        let errorCode = scope.value("errorCode", as: .members, default: "error")
        let bearer = bearer
        func call(_ kind: TokenCallPaths.Call.Kind, _ name: String) -> IdentityEndpointConfiguration? {
            var call = IdentityEndpointConfiguration(
                kind, from: scope.section(name), client: client, errorCode: errorCode)
            call?.bearer = bearer
            return call
        }
        signIn = call(.signIn, "signIn")
        refresh = call(.refresh, "refresh")
        revoke = call(.revoke, "revoke")
        user = call(.user, "user")
        let calls = [signIn, refresh, revoke].compactMap(\.self)
        if section.isPresent, !calls.contains(where: \.credentials.hasBody) {
            scope.report(
                "not supported with credentials: basic and bearer: no identity call has a body",
                "write credentials: json, form or oauth, or leave it out", at: "client",
                becauseOf: ["signIn", "refresh", "revoke"].flatMap { call in
                    ["path", "credentials"].map { scope.path + [call, $0] }
                })
        }
    }

    func check(_ scope: ConfigScope) {
        let pool = scope.sectionWithDefaults("pool")
        guard !protocolVersion.allowsHTTP2, pool.isSet("streamWindow") else { return }
        pool.warn(
            "has no effect with protocol http1", "leave it out, or write protocol: http2, h2c or auto",
            at: "streamWindow")
    }
}

extension PoolConfiguration: ConfigSection {
    /// `pool` of an upstream.
    static let keys: [Key<Self>] = [
        Key("maxConnections", \.maxConnections, .integer(1...65_535)),
        Key("maxPending", \.maxPending, .integer(0...1_000_000)),
        Key("pendingTimeout", \.pendingTimeout, .wait),
        Key("idleTimeout", \.idleTimeout, .wait),
        Key("streamWindow", \.streamWindow, .size(65_536...16_777_216)),
    ]
}

extension UpstreamTLSConfiguration {
    /// TLS towards an upstream.
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
                "not supported without \(twin)", "name both files, or none", at: name, becauseOf: [scope.path + [twin]])
        }
        if let targets, !targets.isEmpty, !targets.contains(where: { $0.scheme == .https }) {
            let key = ["caFile", "certificateFile", "keyFile", "serverName"].first(where: scope.isSet)
            if let key {
                scope.report(
                    "not supported without https:// targets", "write https:// targets, or leave it out", at: key)
            }
        }
        self.init(caFile: caFile, serverName: serverName)
        if let certificateFile, let keyFile {
            clientCertificate = CertificateConfiguration(certificateFile: certificateFile, keyFile: keyFile)
        }
    }
}

extension BearerField: ConfigSection {
    /// `bearer` of an upstream.
    static let keys: [Key<Self>] = [
        Key("header", \.header, headerName),
        Key("scheme", \.scheme, schemeName),
    ]

    private static let headerName = ValueFormat<String>("`Authorization`, or name of a field") {
        text throws(ConfigValueError) in
        guard text.lowercased() != "authorization" else { return "Authorization" }
        return try APIToken.headerName.parse(text)
    }

    private static let schemeName = ValueFormat<String>("token, or nothing") { text throws(ConfigValueError) in
        guard !text.isEmpty else { return text }
        return try ValueFormat<String>.token.parse(text)
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

    fileprivate static let headerName = ValueFormat("name of a field") { text throws(ConfigValueError) in
        let name = try ValueFormat<String>.token.parse(text)
        // Upstreams that map field names to variables (CGI) treat hyphen, underscore and dot alike.
        let folded = String(name.lowercased().map { $0.isLetter || $0.isNumber ? $0 : "-" })
        try require(
            !reserved.contains(folded), "must be a field without a reserved meaning, not \(name)",
            "write another field such as X-API-TOKEN")
        return name
    }
}
