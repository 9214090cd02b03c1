import CloakroomCore

/// An item of `listeners`.
///
/// - `address`: host and port to listen on; port 0 lets the system choose. Required.
/// - `tls`: see ``TLSConfig``. Without it the listener speaks clear text.
/// - `http2`: whether HTTP/2 is spoken. Default `true` with `tls`, `false` without.
/// - `proxyProtocol.trustedSources`: addresses and ranges whose connections begin with a PROXY header. Required within
///   `proxyProtocol`, at least one.
/// - `tlsTerminatedInFront`: whether a proxy in front speaks TLS with clients. Default `false`.
struct ListenerSection {
    let scope: ConfigScope
    let address: HostAndPort?
    let tls: ListenerTLSConfiguration?
    /// Whether `tls` is given, right or wrong.
    let hasTLS: Bool
    let isTLSTerminatedInFront: Bool
    private let http2: Bool
    private let proxyProtocolSources: [CIDRBlock]?

    init(from scope: ConfigScope) {
        self.scope = scope
        address = scope.required("address", as: .listening)
        let tls = scope.section("tls")
        hasTLS = scope.reading.isSectionSet(tls.path)
        self.tls = TLSSection(from: tls).configuration
        http2 = scope.value("http2", as: .flag, default: hasTLS)
        proxyProtocolSources = scope.section("proxyProtocol").requiredList("trustedSources", as: .addressRange)?
            .map(\.range)
        isTLSTerminatedInFront = scope.value("tlsTerminatedInFront", as: .flag, default: false)
        if hasTLS, isTLSTerminatedInFront {
            scope.report(
                ConfigValueError("this listener speaks TLS itself", "keep either tls or tlsTerminatedInFront"),
                at: "tlsTerminatedInFront")
        }
    }

    var configuration: ListenerConfiguration? {
        address.map {
            ListenerConfiguration(address: $0, tls: tls, http2: http2, proxyProtocolSources: proxyProtocolSources)
        }
    }
}

/// `admin`: the listener for operators.
///
/// - `enabled`: default `true`.
/// - `address`: host and port; default `127.0.0.1:9464`.
/// - `token` or `tokenFile`: what ends sessions; 16 bytes of visible ASCII or more. Default: none.
struct AdminSection {
    let scope: ConfigScope
    let configuration: AdminConfiguration?

    init(from scope: ConfigScope) {
        self.scope = scope
        let isEnabled = scope.value("enabled", as: .flag, default: true)
        let configuration = AdminConfiguration(
            address: scope.value("address", as: .listening, default: AdminConfiguration().address),
            token: scope.secret("token", as: .operatorToken, isRequired: false))
        self.configuration = isEnabled ? configuration : nil
    }
}
