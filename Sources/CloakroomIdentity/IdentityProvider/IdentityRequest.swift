import AsyncHTTPClient
import CloakroomCore
import CloakroomTLS
import CloakroomWire
import FoundationEssentials
import NIOCore
import NIOHTTP1
import Synchronization

/// One call to an identity upstream or a provider, ready to be sent to any of its targets.
struct IdentityRequest: Sendable {
    let operation: TokenClientError.Operation
    let configuration: IdentityEndpointConfiguration
    let credentials: RequestCredentials
    let apiToken: APIToken?
    let traceparent: String?
    /// Whether the call is safe to send twice. A call that spends a token is not.
    var isIdempotent = true
    /// Whether the body of a 4xx response is read: it may hold an OAuth error code.
    var readsErrors = false
    /// Whether the call uses a token that another call may have issued just now, such as the user's data after a sign-in.
    var isFollowUp = false
    let lastServer = LastServer()

    /// The path without its query: the endpoint of a provider may have one.
    var loggablePath: String { String(configuration.path.prefix { $0 != "?" }) }

    /// - Throws: If the client's assertion cannot be signed.
    func request(to target: IdentityTarget) throws -> HTTPClient.Request {
        var request = try target.request(configuration.method, configuration.path)
        if let apiToken {
            request.headers.replaceOrAdd(name: apiToken.header, value: text(apiToken.value))
        }
        if let traceparent {
            request.headers.add(name: "traceparent", value: traceparent)
        }
        if let authorization = credentials.authorization {
            request.headers.replaceOrAdd(name: credentials.field, value: text(authorization))
        }
        if let body = credentials.body {
            request.headers.add(name: "Content-Type", value: body.type.rawValue)
            var content = ByteBuffer(bytes: body.content.bytes)
            // Each time that the call is sent.
            if let assertion = credentials.assertion { content.writeBytes(try assertion.parameters().bytes) }
            request.body = .byteBuffer(content)
        }
        return request
    }

    private func text(_ secret: Secret) -> String {
        String(decoding: secret.bytes, as: UTF8.self)
    }
}

/// A target of the upstream, with HTTP clients that connect only to this target.
struct IdentityTarget: Sendable {
    /// Reuses its connections for later calls.
    private let pooledClient: Client
    /// Opens a connection for each call. The other side may have just closed a pooled connection, and then it is
    /// unknown whether the call has arrived.
    private let singleUseClient: Client
    /// The value of `Host`.
    let host: String
    /// The `server.address` of spans.
    let serverAddress: String
    let serverPort: Int?
    /// Host and port, or the path of a socket.
    let server: String
    /// The part of the URL before the path.
    private let origin: String
    private let reused = ReusedRequests()

    /// - Parameters:
    ///   - hostField: The value of `Host`; `nil` for the target's own.
    ///   - configuration: The common configuration of the clients of all targets.
    ///   - onConnected: Called for each connection that is established and verified.
    init(
        _ target: UpstreamTargetConfiguration, tls: UpstreamTLSConfiguration?, hostField: String? = nil,
        configuration: HTTPClient.Configuration, eventLoopGroup: any EventLoopGroup,
        onConnected: @escaping @Sendable () -> Void
    ) {
        var configuration = configuration
        var verifier: ServerNameVerifier?
        host = hostField ?? target.hostField
        serverAddress = target.serverAddress
        serverPort = target.serverPort
        server = Self.server(serverAddress, serverPort)
        switch target.address {
        case .unixSocket(let path):
            let url = URL(httpURLWithSocketPath: path, uri: "/")?.absoluteString ?? ""
            origin = String(url.dropLast())
        case .tcp(var address):
            if target.scheme == .https {
                // The client requests and verifies the host of the URL. If that has to be another name than the one
                // that is connected to, the `dnsOverride` maps the name to it. Certificate names have no trailing dot.
                let host = address.host
                address.host = tls?.serverName ?? (host.hasSuffix(".") ? String(host.dropLast()) : host)
                if address.host != host { configuration.dnsOverride = [address.host: host] }
                verifier = ServerNameVerifier(host: address.host)
            }
            origin = "\(target.scheme.name)://\(address)"
        }
        pooledClient = Client(configuration, eventLoopGroup, verifier: verifier, onConnected: onConnected)
        configuration.maximumUsesPerConnection = 1
        // Closes a connection whose call was cancelled before it was sent; it would otherwise stay idle in the pool.
        configuration.connectionPool.idleTimeout = .seconds(1)
        singleUseClient = Client(configuration, eventLoopGroup, verifier: verifier, onConnected: onConnected)
    }

    func client(for call: IdentityRequest) -> Client { call.isIdempotent ? pooledClient : singleUseClient }

    func shutdown() async {
        // Only a second shutdown throws, and then there is nothing left to close.
        try? await pooledClient.http.shutdown()
        try? await singleUseClient.http.shutdown()
    }

    /// A request with the fields that all calls have. To parse its URL costs more than all else of it, and there are few.
    func request(_ method: String, _ path: String) throws -> HTTPClient.Request {
        let name = method + " " + path
        if let request = reused.requests.withLock({ $0[name] }) { return request }
        let fields = HTTPHeaders([("Host", host), ("Accept", "application/json")])
        let request = try HTTPClient.Request(
            url: origin + path, method: HTTPMethod(rawValue: method), headers: fields)
        reused.requests.withLock { requests in
            // The metadata of a provider may name other endpoints at any time.
            if requests.count >= Self.maxReused { requests.removeAll() }
            requests[name] = request
        }
        return request
    }

    /// The maximum number of requests that are kept.
    static let maxReused = 16
    /// The number of requests that are kept.
    var reusedCount: Int { reused.requests.withLock { $0.count } }

    private static func server(_ address: String, _ port: Int?) -> String {
        guard let port else { return address }
        return "\(HostAndPort(host: address, port: port))"
    }

    /// The `url.full` of spans; `nil` for a socket, whose URL has no host.
    func fullURL(_ path: String) -> String? { serverPort == nil ? nil : origin + path }

    /// A client, and its connection counters.
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

        var connections: Connections {
            let closed = count.closed.load(ordering: .relaxed)
            return Connections(made: count.made.load(ordering: .relaxed), closed: closed)
        }

        /// Whether a call that began at an earlier moment could have been sent: a connection was open then, or was
        /// established since. A connection closed in the meantime counts, because a cancelled call closes its own.
        func wasConnected(since earlier: Connections) -> Bool {
            earlier.made != earlier.closed || connections.made != earlier.made
        }
    }

    /// The number of connections that a client has opened, and the number of those that were closed.
    struct Connections: Sendable {
        fileprivate let made: Int
        fileprivate let closed: Int
    }

    private final class ReusedRequests: Sendable {
        let requests = Mutex<[String: HTTPClient.Request]>([:])
    }

    private final class ConnectionCount: Sendable {
        let made = Atomic<Int>(0)
        let closed = Atomic<Int>(0)
    }
}
