import AsyncHTTPClient
import CloakroomCore
import CloakroomTLS
import FoundationEssentials
import NIOCore
import Synchronization

/// A target of the upstream, and the clients whose connections lead there and nowhere else.
struct IdentityTarget: Sendable {
    /// Keeps its connections for the next call.
    private let pooledClient: Client
    /// Opens a connection for each call. One that was kept may have been closed by the other side just now, and then
    /// nobody can tell whether a call that was put on it has arrived.
    private let singleUseClient: Client
    /// The value of `Host`.
    let host: String
    /// What spans say of where it is.
    let serverAddress: String
    let serverPort: Int?
    /// What comes before the path.
    private let origin: String

    /// - Parameters:
    ///   - configuration: What the clients of all targets have in common.
    ///   - onConnected: Is called for each connection that is established and verified.
    init(
        _ target: UpstreamTargetConfiguration, tls: UpstreamTLSConfiguration?, configuration: HTTPClient.Configuration,
        eventLoopGroup: any EventLoopGroup, onConnected: @escaping @Sendable () -> Void
    ) {
        var configuration = configuration
        var verifier: ServerNameVerifier?
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
                verifier = ServerNameVerifier(host: address.host)
            }
            origin = "\(target.scheme.rawValue)://\(address)"
        }
        pooledClient = Client(configuration, eventLoopGroup, verifier: verifier, onConnected: onConnected)
        configuration.maximumUsesPerConnection = 1
        // One that was opened for a call which was given up meanwhile would get old unused.
        configuration.connectionPool.idleTimeout = .seconds(1)
        singleUseClient = Client(configuration, eventLoopGroup, verifier: verifier, onConnected: onConnected)
    }

    /// The client to send a call with.
    func client(for call: IdentityRequest) -> Client { call.isIdempotent ? pooledClient : singleUseClient }

    /// Closes the connections.
    func shutdown() async {
        // Only a second shutdown throws, and then there is nothing left to close.
        try? await pooledClient.http.shutdown()
        try? await singleUseClient.http.shutdown()
    }

    /// The URL of a path.
    func url(_ path: String) -> String { origin + path }

    /// A client, and the number of its connections.
    struct Client: Sendable {
        let http: HTTPClient
        private let count = ConnectionCount()

        fileprivate init(
            _ configuration: HTTPClient.Configuration, _ eventLoopGroup: any EventLoopGroup,
            verifier: ServerNameVerifier?, onConnected: @escaping @Sendable () -> Void
        ) {
            var configuration = configuration
            let count = count
            // Called for each connection, after the TLS handshake and before the first call.
            configuration.http1_1ConnectionDebugInitializer = { channel in
                if let rejection = verifier?.rejection(of: channel) { return rejection }
                count.made.wrappingAdd(1, ordering: .relaxed)
                channel.closeFuture.whenComplete { _ in count.closed.wrappingAdd(1, ordering: .relaxed) }
                onConnected()
                return channel.eventLoop.makeSucceededVoidFuture()
            }
            http = HTTPClient(eventLoopGroupProvider: .shared(eventLoopGroup), configuration: configuration)
        }

        /// The connections so far.
        var connections: Connections {
            let closed = count.closed.load(ordering: .relaxed)
            return Connections(made: count.made.load(ordering: .relaxed), closed: closed)
        }

        /// Whether a call that began at an earlier moment could have been sent: a connection was open then, or was made
        /// since. One that was closed meanwhile counts, for a call that is given up closes its own.
        func wasConnected(since earlier: Connections) -> Bool {
            earlier.made != earlier.closed || connections.made != earlier.made
        }
    }

    /// How many connections a client has made, and how many of them were closed.
    struct Connections: Sendable {
        fileprivate let made: Int
        fileprivate let closed: Int
    }

    private final class ConnectionCount: Sendable {
        let made = Atomic<Int>(0)
        let closed = Atomic<Int>(0)
    }
}
