import CloakroomCore

/// An item of `listeners`, with the properties of its configuration.
@dynamicMemberLookup
struct ListenerSection {
    let scope: ConfigScope
    /// The port is negative without a valid address.
    private var options = ListenerConfiguration(address: HostAndPort(host: "", port: -1))

    init(from scope: ConfigScope) {
        self.scope = scope
        options.read(from: scope)
    }

    subscript<Value>(dynamicMember property: KeyPath<ListenerConfiguration, Value>) -> Value {
        options[keyPath: property]
    }

    var address: HostAndPort? { options.address.port < 0 ? nil : options.address }
    var configuration: ListenerConfiguration? { address == nil ? nil : options }
    /// Whether `tls` is set, valid or not.
    var hasTLS: Bool { scope.reading.isSectionSet(scope.path + ["tls"]) }
    /// Whether `forwardAuth` is set, valid or not.
    var decides: Bool { scope.reading.isSectionSet(scope.path + ["forwardAuth"]) }
    /// Whether clients use `https`.
    var usesHTTPS: Bool { hasTLS || options.isBehindTLSProxy }
}

extension ListenerConfiguration: ConfigSection {
    /// One listener. Certificates, versions and cipher suites can change without a restart.
    static let keys: [Key<Self>] = [
        Key("address", \.address, .restart) {
            if let address = $0.required("address", as: .listening) { $1.address = address }
        },
        Key("tls", \.hasTLS, .restart) { $1.tls = ListenerTLSConfiguration(from: $0.section("tls")) },
        Key("http2", \.http2, .restart) {
            $1.http2 = $0.value("http2", as: .flag, default: $0.reading.isSectionSet($0.path + ["tls"]))
        },
        Key("proxyProtocol", \.proxyProtocolSources, .restart) {
            $1.proxyProtocolSources = $0.section("proxyProtocol").requiredList("trustedSources", as: .addressRange)?
                .map(\.range)
        },
        Key("behindTLSProxy", \.isBehindTLSProxy, .flag),
        Key(optional: "redirectToHTTPS", \.redirectToHTTPS, .integer(1...65_535)),
        Key("development", \.isForDevelopment, .flag),
        Key { $1.hosts = $0.hosts() },
        Key("forwardAuth", \.forwardAuth, .restart) {
            $1.forwardAuth = ForwardAuthConfiguration(from: $0.section("forwardAuth"))
        },
    ]

    private var hasTLS: Bool { tls != nil }

    func check(_ scope: ConfigScope) {
        guard isBehindTLSProxy, scope.reading.isSectionSet(scope.path + ["tls"]) else { return }
        scope.report("conflicts with tls", "keep either tls or behindTLSProxy", at: "behindTLSProxy")
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
