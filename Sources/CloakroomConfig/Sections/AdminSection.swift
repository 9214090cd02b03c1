import CloakroomCore

/// `admin`: the admin listener.
struct AdminSection {
    let scope: ConfigScope
    let configuration: AdminConfiguration?

    init(from scope: ConfigScope) {
        self.scope = scope
        let isEnabled = scope.value("enabled", as: .flag, default: true)
        var configuration = AdminConfiguration.defaults
        configuration.read(from: scope)
        self.configuration = isEnabled ? configuration : nil
        let requiresCertificate = configuration.tls?.clientCertificates?.mode == .required
        let hasToken = scope.isSet("token") || scope.isSet("tokenFile")
        // By default a token does not protect the pages, so only a written scope states that they are meant to be open.
        let isDecided = hasToken && scope.isSet("tokenScope")
        if isEnabled, !configuration.address.isLoopback, !isDecided, !requiresCertificate {
            scope.warn(
                "metrics and the status page can be read by every client that reaches this address",
                "write 127.0.0.1:\(configuration.address.port), or set admin.token and tokenScope: everything,"
                    + " or actions if these clients may read them",
                at: "address")
        }
    }
}

extension AdminConfiguration: ConfigSection {
    /// The keys of `admin` if the listener is enabled.
    static let keys: [Key<Self>] = [
        Key("address", \.address, .listening, .restart),
        Key(secret: "token", \.token, .operatorToken, .restart),
        Key("tokenScope", \.tokenScope, .choice(), .restart),
        Key(list: "allowedHosts", \.allowedHosts, .adminHost, .restart),
        Key("tls", \.tls, .restart) { $1.tls = ListenerTLSConfiguration(from: $0.section("tls"), isAdmin: true) },
    ]

    func check(_ scope: ConfigScope) {
        if tokenScope == .everything, token == nil, !scope.isInvalid("token") {
            scope.report(
                "requires admin.token: without it the listener would serve only /live and /ready",
                "set admin.token or admin.tokenFile, or write actions", at: "tokenScope")
        }
    }
}

extension ValueFormat where Value == String {
    /// A name in the `Host` of requests to the admin listener, in lower case.
    fileprivate static let adminHost = ValueFormat("host name without port") { text throws(ConfigValueError) in
        try require(IPAddress.bytes(of: text) == nil, "is not needed: IP addresses are always allowed", "leave it out")
        try require(
            (1...253).contains(text.utf8.count) && HostAndPort.isHost(text),
            "must be a host name without port, not \(text.quoted)",
            "write the name by which the listener is requested, such as cloakroom.monitoring.svc")
        return text.lowercased()
    }
}
