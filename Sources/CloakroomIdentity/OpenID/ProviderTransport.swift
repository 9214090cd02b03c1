import AsyncHTTPClient
package import CloakroomCore
import CloakroomWire
import NIOCore
import NIOSSL
import Synchronization

/// Sends calls to the endpoints of one provider. Each origin has clients of its own, which are created with the first
/// call. Those of the issuer's origin connect to ``ProviderEndpoints/base``.
final class ProviderTransport: Sendable {
    private struct State {
        var transports: [WebOrigin: IdentityTransport] = [:]
        /// Transports of origins that the provider no longer has. Their last calls may be in flight.
        var retired: [(transport: IdentityTransport, since: ContinuousClock.Instant)] = []
        var isShutDown = false
    }

    /// The maximum number of connections to one origin.
    private static let maxConnections = 128
    private static let idleTimeout = Duration.seconds(60)
    /// The time after which no call to an origin is in flight that the provider no longer has.
    private static let retirement = Duration.seconds(120)

    /// The issuer's origin, where its calls go, and the `Host` that they have there; `nil` if they go to it.
    private let moved: (origin: WebOrigin, target: UpstreamTargetConfiguration, host: String?)?
    private let configuration: HTTPClient.Configuration
    private let eventLoopGroup: any EventLoopGroup
    private let spans: SpanFactory
    private let source: IdentityCallSource
    private let observer: (any IdentityCallObserver)?
    private let state = Mutex(State())

    init(
        tls: TLSConfiguration, timeouts: TimeoutsConfiguration, eventLoopGroup: any EventLoopGroup, spans: SpanFactory,
        name: String = "", issuer: String = "", endpoints: ProviderEndpoints = ProviderEndpoints(),
        observer: (any IdentityCallObserver)? = nil
    ) {
        if let base = endpoints.base, let origin = EndpointURL(issuer)?.origin {
            let host = endpoints.host == .issuer ? UpstreamTargetConfiguration(origin).hostField : nil
            moved = (origin, UpstreamTargetConfiguration(base), host)
        } else {
            moved = nil
        }
        source = .identity(name)
        self.observer = observer
        configuration = IdentityTransport.clientConfiguration(
            tls: tls, connect: min(timeouts.connect, timeouts.identity), maxConnections: Self.maxConnections,
            idleTimeout: Self.idleTimeout)
        self.eventLoopGroup = eventLoopGroup
        self.spans = spans
    }

    /// Sends a call to an endpoint and reads the response.
    /// - Parameters:
    ///   - operation: The call in metrics and log lines.
    ///   - isSingle: Whether the call is sent once at most, on a connection of its own.
    ///   - timeout: Covers the whole call.
    func send(
        _ method: String, _ endpoint: EndpointURL, _ credentials: RequestCredentials = RequestCredentials(),
        call operation: TokenClientError.Operation, isSingle: Bool = false, traceparent: String?, timeout: Duration
    ) async throws(TokenClientError) -> IdentityTransport.Response {
        guard let transport = transport(to: endpoint.origin) else {
            throw TokenClientError(.unreachable, in: operation)
        }
        let path = endpoint.target.hasPrefix("/") ? endpoint.target : "/" + endpoint.target
        let call = IdentityRequest(
            operation: operation,
            configuration: IdentityEndpointConfiguration(method: method, path: path, credentials: .oauth),
            credentials: credentials, apiToken: nil, traceparent: traceparent, isIdempotent: !isSingle,
            readsErrors: true)
        let response = try await transport.send(call, timeout: timeout)
        // Not if it may be caused by the user: a code or a token that has expired.
        if !response.isSuccess { transport.reportFailure(of: call, response, RejectedCall.kind(ofProvider: response)) }
        return response
    }

    /// Keeps the clients of these origins only. Others are closed with a later call of this method, because their last
    /// calls may be in flight.
    func keep(_ origins: Set<WebOrigin>) async {
        let now = ContinuousClock.now
        let closed = state.withLock { state in
            let isOver = { (retired: (transport: IdentityTransport, since: ContinuousClock.Instant)) in
                now - retired.since > Self.retirement
            }
            defer {
                state.retired.removeAll(where: isOver)
                state.retired += state.transports.filter { !origins.contains($0.key) }.map { ($0.value, now) }
                state.transports = state.transports.filter { origins.contains($0.key) }
            }
            return state.retired.filter(isOver).map(\.transport)
        }
        for transport in closed { await transport.shutdown() }
    }

    /// Closes the connections. Calls in progress and all later calls fail.
    func shutdown() async {
        let closed = state.withLock { state in
            defer { (state.transports, state.retired, state.isShutDown) = ([:], [], true) }
            return state.transports.map(\.value) + state.retired.map(\.transport)
        }
        for transport in closed { await transport.shutdown() }
    }

    private func transport(to origin: WebOrigin) -> IdentityTransport? {
        state.withLock { state in
            guard !state.isShutDown else { return nil }
            if let transport = state.transports[origin] { return transport }
            let moved = moved?.origin == origin ? moved : nil
            let transport = IdentityTransport(
                targets: [
                    IdentityTarget(
                        moved?.target ?? UpstreamTargetConfiguration(origin), tls: nil, hostField: moved?.host,
                        configuration: configuration, eventLoopGroup: eventLoopGroup, onConnected: {})
                ], selector: OneTarget(), spans: spans, source: source, observer: observer)
            state.transports[origin] = transport
            return transport
        }
    }
}

extension UpstreamTargetConfiguration {
    /// The server of an origin.
    package init(_ origin: WebOrigin) {
        let isIPv6 = origin.host.hasPrefix("[")
        self.init(
            HostAndPort(host: isIPv6 ? String(origin.host.dropFirst().dropLast()) : origin.host, port: origin.port),
            scheme: origin.isSecure ? .https : .http)
    }
}

/// The selection among the targets of a provider's origin, which is one.
private struct OneTarget: TargetSelecting {
    func order(now: UInt64) -> [Int] { [0] }
    func connected(_ target: Int, now: UInt64) {}
    func started(_ target: Int, now: UInt64) -> TargetState? { nil }
    func ended(_ target: Int, _ state: TargetState?, _ outcome: TargetOutcome, startedAt: UInt64, now: UInt64) {}
    func record(_ target: Int, _ failure: ConnectFailure, _ error: any Error, now: UInt64) {}
}
