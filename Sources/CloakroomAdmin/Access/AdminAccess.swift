public import CloakroomCore
import Synchronization

/// The requests that the admin listener serves, of those that reach it.
///
/// Folder `Access/`: the checks of requests and connections of the admin listener.
public struct AdminAccess: Sendable {
    /// The host names that requests may be sent to.
    let hosts: AdminHostPolicy
    /// What requires the token.
    let tokenScope: AdminConfiguration.TokenScope
    /// Whether everything but `/live` and `/ready` requires a client certificate.
    let requiresClientCertificate: Bool

    /// Creates the rules of a configuration; by default those of a listener on loopback without further keys.
    public init(_ configuration: AdminConfiguration = .defaults) {
        hosts = AdminHostPolicy(configuration)
        tokenScope = configuration.tokenScope
        requiresClientCertificate = configuration.tls?.clientCertificates != nil
    }
}

/// The host names that a request may be sent to.
///
/// A page of another site can make a browser read the admin listener by DNS rebinding: its own name resolves to the
/// address of the listener, and for the browser both are one origin. The request then has the name of that site as its
/// `Host`. IP addresses and `localhost` cannot be rebound, so they need not be listed.
struct AdminHostPolicy: Sendable {
    private let names: Set<String>

    init(_ configuration: AdminConfiguration) {
        names = Set((configuration.allowedHosts + [configuration.address.host, "localhost"]).map(Self.normalized))
    }

    /// Whether a request with this `Host` may be served.
    /// - Parameter authority: `nil` is a request without `Host`, which no browser sends.
    func allows(_ authority: String?) -> Bool {
        guard let authority else { return true }
        guard let host = (HostAndPort(authority) ?? HostAndPort(authority + ":0"))?.host else { return false }
        return names.contains(Self.normalized(host)) || IPAddress.bytes(of: host) != nil
    }

    /// Host names are compared without case and without the dot of the root (RFC 1034 §3.1).
    private static func normalized(_ host: String) -> String {
        let name = host.lowercased()
        return name.hasSuffix(".") ? String(name.dropLast()) : name
    }
}

/// Bounds the pages that are created at the same time: most take a copy of all metrics.
final class AdminPageLimit: Sendable {
    /// The maximum number of pages.
    static let pages = 16

    private let current = Mutex(0)

    /// Runs `body` unless too many pages are being created.
    /// - Returns: `nil` if there are too many.
    func run(_ body: () async -> AdminResponse) async -> AdminResponse? {
        let isAccepted = current.withLock { current in
            guard current < Self.pages else { return false }
            current += 1
            return true
        }
        guard isAccepted else { return nil }
        defer { current.withLock { $0 -= 1 } }
        return await body()
    }
}
