/// Which hosts are served, on which listener and with which routes.
///
/// A host that a listener lists is served by such listeners only, and a listener with hosts serves no other. A host of a
/// listener that requires client certificates is served by no listener that does not, whatever that lists. Of several
/// that require them, those that list it exactly serve it.
package final class HostRules: Sendable {
    /// What a host leads to.
    package enum Resolution: Sendable, Equatable {
        /// The group of the route table.
        case group(Int)
        /// The port that the listener redirects to.
        case redirect(Int)
        case misdirected(MisdirectedReason)
    }

    private let groups: RouteGroups
    private let listeners: [ListenerConfiguration]
    /// The hosts that listeners list, and the listeners that serve each.
    private let names: HostNames
    private let owners: [[Int]]
    /// By listener: whether it serves hosts of this machine, and others only if the configuration names them.
    private let areLocal: [Bool]
    /// By listener: the hosts that it decides for; `nil` if it serves requests.
    private let decided: [HostNames?]

    /// - Parameter groups: Those of the same configuration.
    /// - Returns: `nil` if every listener serves every host with the same routes.
    package init?(_ configuration: GatewayConfiguration, _ groups: RouteGroups) {
        let listeners = configuration.listeners
        let isSecure = configuration.session.cookie.isSecure
        let areLocal = listeners.map { $0.isForDevelopment || !isSecure && $0.isClearOnLoopback }
        let isUsed =
            listeners.contains { !$0.hosts.isEmpty || $0.redirectToHTTPS != nil || $0.forwardAuth != nil }
            || areLocal.contains(true)
        guard isUsed || !groups.hosts.isEmpty else { return nil }
        (self.groups, self.listeners, self.areLocal) = (groups, listeners, areLocal)
        decided = listeners.map { $0.forwardAuth.map { HostNames($0.hosts.map { [$0] }) } }
        let hosts = Set(listeners.flatMap(\.hosts)).sorted()
        names = HostNames(hosts.map { [$0] })
        owners = hosts.map { host in
            let exact = listeners.indices.filter { listeners[$0].hosts.contains(host) }
            let required = listeners.indices.filter { index in
                listeners[index].requiresClientCertificates
                    && listeners[index].hosts.contains { HostNames.covers($0, host) }
            }
            // Certificates of other authorities may be valid on one that has the host by a wildcard only.
            let strict = exact.filter(required.contains)
            return required.isEmpty ? exact : strict.isEmpty ? required : strict
        }
    }

    /// Resolves the host of a request.
    /// - Parameters:
    ///   - host: Folded; `nil` without one.
    ///   - index: The listener that received the request.
    package func resolve(_ host: String?, on index: Int) -> Resolution {
        guard listeners.indices.contains(index) else { return .misdirected(.otherListener) }
        if let decided = decided[index] { return resolve(host, decidedBy: decided) }
        // No page of another site reaches it by a name that resolves to this machine. Browsers send a host.
        if areLocal[index], !HostNames.isLocal(host ?? "") {
            let isNamed = host.map(groups.isListed) ?? true
            guard isNamed, !listeners[index].isForDevelopment else { return .misdirected(.development) }
        }
        let (listsHosts, port) = (!listeners[index].hosts.isEmpty, listeners[index].redirectToHTTPS)
        guard let host else {
            return listsHosts || port != nil || !groups.servesOthers ? .misdirected(.noHost) : .group(0)
        }
        var serving: [Int]?
        if let known = names.value(of: host) { serving = owners[known] }
        if let port {
            // The host of the request becomes that of the redirect, so it has to be one of the configuration.
            guard serving != nil || groups.isListed(host) else { return .misdirected(.unknownHost) }
            let isOpen = serving?.contains { listeners[$0].requiresClientCertificates } != true
            return isOpen ? .redirect(port) : .misdirected(.otherListener)
        }
        if let serving, !serving.contains(index) { return .misdirected(.otherListener) }
        guard serving != nil || !listsHosts, let group = groups.group(of: host) else {
            return .misdirected(.unknownHost)
        }
        return .group(group)
    }

    /// The other proxy has the connections of clients, so the hosts of listeners do not apply; but it has not verified
    /// the certificates that a listener requires.
    private func resolve(_ host: String?, decidedBy decided: HostNames) -> Resolution {
        guard let host else { return .misdirected(.noHost) }
        guard decided.value(of: host) != nil, let group = groups.group(of: host) else {
            return .misdirected(.unknownHost)
        }
        let needsCertificate: Bool
        if let known = names.value(of: host) {
            needsCertificate = owners[known].contains { listeners[$0].requiresClientCertificates }
        } else {
            // Listeners without hosts serve it.
            let serving = listeners.filter { $0.forwardAuth == nil && $0.redirectToHTTPS == nil && $0.hosts.isEmpty }
            needsCertificate = !serving.isEmpty && serving.allSatisfy(\.requiresClientCertificates)
        }
        return needsCertificate ? .misdirected(.otherListener) : .group(group)
    }
}

extension ListenerConfiguration {
    /// Whether browsers of this machine, and no other ones, connect to it in clear text, by any name that resolves to it.
    fileprivate var isClearOnLoopback: Bool {
        tls == nil && !isBehindTLSProxy && proxyProtocolSources == nil && redirectToHTTPS == nil && hosts.isEmpty
            && forwardAuth == nil && address.isLoopback
    }

    /// Whether every client presents a certificate. Not inlined, for the same reason as ``Route/upstream``.
    @inline(never) package var requiresClientCertificates: Bool {
        // That of a proxy which only asks is not one of its clients.
        tls?.clientCertificates?.mode == .required && forwardAuth == nil
    }
}

/// Why a request got 421: the label `reason`.
public enum MisdirectedReason: String, Sendable, CaseIterable {
    /// An HTTP/1.0 request without `Host`, where all routes or the listener have hosts.
    case noHost = "no_host"
    /// No route or listener has the host.
    case unknownHost = "unknown_host"
    /// Another listener serves the host.
    case otherListener = "other_listener"
    /// A listener for development, or on loopback without `Secure` cookies, does not serve hosts of other machines.
    case development
}
