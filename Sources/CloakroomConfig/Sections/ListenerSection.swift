import CloakroomCore

/// An item of `listeners`.
struct ListenerSection {
    let scope: ConfigScope
    let address: HostAndPort?
    let tls: ListenerTLSConfiguration?
    /// Whether `tls` is set, valid or not.
    let hasTLS: Bool
    let isBehindTLSProxy: Bool
    let http2: Bool
    /// The port of the URLs that the listener redirects to; `nil` if it serves requests.
    let redirectToHTTPS: Int?
    /// Whether it serves hosts of this machine only.
    let isForDevelopment: Bool
    /// Empty if the listener serves every host.
    let hosts: [String]
    let proxyProtocolSources: [CIDRBlock]?
    /// Whether `forwardAuth` is set, valid or not.
    let decides: Bool
    let forwardAuth: ForwardAuthConfiguration?

    init(from scope: ConfigScope) {
        self.scope = scope
        address = scope.required("address", as: .listening)
        let tls = scope.section("tls")
        hasTLS = scope.reading.isSectionSet(tls.path)
        self.tls = ListenerTLSConfiguration(from: tls)
        http2 = scope.value("http2", as: .flag, default: hasTLS)
        proxyProtocolSources = scope.section("proxyProtocol").requiredList("trustedSources", as: .addressRange)?
            .map(\.range)
        isBehindTLSProxy = scope.value("behindTLSProxy", as: .flag, default: false)
        redirectToHTTPS = scope.optional("redirectToHTTPS", as: .integer(1...65_535))
        isForDevelopment = scope.value("development", as: .flag, default: false)
        hosts = scope.hosts()
        let forwardAuth = scope.section("forwardAuth")
        decides = scope.reading.isSectionSet(forwardAuth.path)
        self.forwardAuth = ForwardAuthConfiguration(from: forwardAuth)
        if hasTLS, isBehindTLSProxy {
            scope.report("conflicts with tls", "keep either tls or behindTLSProxy", at: "behindTLSProxy")
        }
    }

    /// Whether clients use `https`.
    var usesHTTPS: Bool { hasTLS || isBehindTLSProxy }

    var configuration: ListenerConfiguration? {
        address.map {
            var listener = ListenerConfiguration(
                address: $0, tls: tls, http2: http2, proxyProtocolSources: proxyProtocolSources)
            listener.redirectToHTTPS = redirectToHTTPS
            listener.isBehindTLSProxy = isBehindTLSProxy
            listener.isForDevelopment = isForDevelopment
            listener.hosts = hosts
            listener.forwardAuth = forwardAuth
            return listener
        }
    }
}

extension ForwardAuthConfiguration {
    /// `forwardAuth` of a listener.
    /// - Returns: `nil` if the section is absent or invalid.
    init?(from scope: ConfigScope) {
        let proxy = scope.required("proxy", as: ValueFormat<Proxy>.choice())
        let sources = scope.requiredList("sources", as: .addressRange)
        let hosts = scope.requiredList("hosts", as: ValueFormat<String>.host)
        scope.reportRepetition(in: hosts ?? [], at: "hosts")
        for (index, source) in (sources ?? []).enumerated() where source.text.hasSuffix("/0") {
            scope.report(
                "must not be every address: each peer in it is believed", "write the addresses of the proxy",
                at: "sources", item: index)
        }
        guard let proxy, let sources, let hosts else { return nil }
        self.init(proxy: proxy, sources: sources.map(\.range), hosts: hosts)
    }
}
