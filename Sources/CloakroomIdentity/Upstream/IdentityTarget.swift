import AsyncHTTPClient
import CloakroomCore
import FoundationEssentials
import NIOCore
import NIOSSL

/// A target of the upstream, and the client whose connections lead there and nowhere else.
struct IdentityTarget: Sendable {
    let client: HTTPClient
    /// The value of `Host`.
    let host: String
    /// What comes before the path.
    private let origin: String

    /// - Parameter configuration: What the clients of all targets have in common.
    init(
        _ target: UpstreamTargetPlan, tls: UpstreamTLSPlan?, configuration: HTTPClient.Configuration,
        eventLoopGroup: any EventLoopGroup
    ) {
        var configuration = configuration
        host = target.hostField
        switch target.address {
        case .unixSocket(let path):
            let url = URL(httpURLWithSocketPath: path, uri: "/")?.absoluteString ?? ""
            origin = String(url.dropLast())
        case .tcp(var address):
            if target.scheme == .https {
                // The client asks for and verifies the host of the URL. Where that has to be another name than the one
                // that is connected to, it is told where to find it. Certificates know no dot at the end.
                let host = address.host
                address.host = tls?.serverName ?? (host.hasSuffix(".") ? String(host.dropLast()) : host)
                if address.host != host { configuration.dnsOverride = [address.host: host] }
                CertificateNameCheck(host: address.host)?.install(in: &configuration)
            }
            origin = "\(target.scheme.rawValue)://\(address)"
        }
        client = HTTPClient(eventLoopGroupProvider: .shared(eventLoopGroup), configuration: configuration)
    }

    /// The URL of a path.
    func url(_ path: String) -> String { origin + path }
}
