import CloakroomCore

/// An item of `listeners`.
///
/// - `address`: host and port to listen on; port 0 lets the system choose. Required.
/// - `tls`: see ``TLSConfig``. Without it the listener speaks clear text.
/// - `http2`: whether HTTP/2 is spoken. Default `true` with `tls`, `false` without.
/// - `proxyProtocol.trustedSources`: addresses and ranges whose connections begin with a PROXY header. Required within
///   `proxyProtocol`, at least one.
/// - `tlsTerminatedInFront`: whether a proxy in front speaks TLS with clients. Default `false`.
struct ListenerConfig {
    let scope: ConfigScope
    let address: HostAndPort?
    let tls: TLSPlan?
    /// Whether `tls` is given, right or wrong.
    let hasTLS: Bool
    let isTLSTerminatedInFront: Bool
    private let http2: Bool
    private let proxyProtocolSources: [AddressRange]?

    init(from scope: ConfigScope) {
        self.scope = scope
        address = scope.required("address", as: .listening)
        let tls = scope.section("tls")
        hasTLS = scope.reading.isSectionGiven(tls.path)
        self.tls = TLSConfig(from: tls).plan
        http2 = scope.value("http2", as: .flag, default: hasTLS)
        proxyProtocolSources = scope.section("proxyProtocol").requiredList("trustedSources", as: .addressRange)?
            .map(\.range)
        isTLSTerminatedInFront = scope.value("tlsTerminatedInFront", as: .flag, default: false)
        if hasTLS, isTLSTerminatedInFront {
            scope.complain(
                Mistake("this listener speaks TLS itself", "keep either tls or tlsTerminatedInFront"),
                at: "tlsTerminatedInFront")
        }
    }

    var plan: ListenerPlan? {
        address.map {
            ListenerPlan(address: $0, tls: tls, http2: http2, proxyProtocolSources: proxyProtocolSources)
        }
    }
}

/// `admin`: the listener for operators.
///
/// - `enabled`: default `true`.
/// - `address`: host and port; default `127.0.0.1:9464`.
/// - `token` or `tokenFile`: what ends sessions; 16 bytes of visible ASCII or more. Default: none.
struct AdminConfig {
    let scope: ConfigScope
    let plan: AdminPlan?

    init(from scope: ConfigScope) {
        self.scope = scope
        let isEnabled = scope.value("enabled", as: .flag, default: true)
        let plan = AdminPlan(
            address: scope.value("address", as: .listening, default: AdminPlan().address),
            token: scope.secret("token", as: .operatorToken, isRequired: false))
        self.plan = isEnabled ? plan : nil
    }
}
