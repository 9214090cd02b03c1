import AsyncHTTPClient
import CloakroomCore
import FoundationEssentials
import NIOCore
import NIOSSL

/// A target of the upstream, and the clients whose connections lead there and nowhere else.
struct IdentityTarget: Sendable {
    /// Keeps its connections for the next call.
    private let keepingClient: HTTPClient
    /// Opens a connection for each call. One that was kept may have been closed by the other side just now, and then
    /// nobody can tell whether a call that was put on it has arrived.
    private let freshClient: HTTPClient
    /// The value of `Host`.
    let host: String
    /// What spans say of where it is.
    let serverAddress: String
    let serverPort: Int?
    /// What comes before the path.
    private let origin: String

    /// - Parameter configuration: What the clients of all targets have in common.
    init(
        _ target: UpstreamTargetPlan, tls: UpstreamTLSPlan?, configuration: HTTPClient.Configuration,
        eventLoopGroup: any EventLoopGroup
    ) {
        var configuration = configuration
        host = target.hostField
        serverAddress = target.serverAddress
        serverPort = target.serverPort
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
        keepingClient = HTTPClient(eventLoopGroupProvider: .shared(eventLoopGroup), configuration: configuration)
        configuration.maximumUsesPerConnection = 1
        // One that was opened for a call which was given up meanwhile would get old unused.
        configuration.connectionPool.idleTimeout = .seconds(1)
        freshClient = HTTPClient(eventLoopGroupProvider: .shared(eventLoopGroup), configuration: configuration)
    }

    /// The client to send a call with.
    func client(for call: IdentityCall) -> HTTPClient { call.isRepeatable ? keepingClient : freshClient }

    /// Closes the connections.
    func shutdown() async {
        // Only a second shutdown throws, and then there is nothing left to close.
        try? await keepingClient.shutdown()
        try? await freshClient.shutdown()
    }

    /// The URL of a path.
    func url(_ path: String) -> String { origin + path }
}
