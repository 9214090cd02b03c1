import CloakroomIdentity
import CloakroomTLS
import NIOPosix
import Tracing

@testable import CloakroomCore

extension UpstreamTokenClient {
    /// Fetches the user's data without replaced tokens.
    func user(_ tokens: TokenSet, traceparent: String?) async throws(TokenClientError) -> [UInt8]? {
        try await user(tokens, replacing: nil, traceparent: traceparent)
    }
}

/// Configurations and clients of test upstreams.
enum Upstreams {
    static let apiToken = "canary-api-token"
    static let now = Timestamp(seconds: 1_700_000_000)
    static let accountKey = KeyedHash(key0: 3, key1: 4)

    static func configuration(port: Int, others: [Int] = []) -> UpstreamConfiguration {
        UpstreamConfiguration(
            name: "api",
            targets: ([port] + others).map { UpstreamTargetConfiguration(HostAndPort(host: "127.0.0.1", port: $0)) },
            apiToken: APIToken(value: Secret(apiToken)),
            signIn: IdentityEndpointConfiguration(path: "/auth", credentials: .basic),
            refresh: IdentityEndpointConfiguration(path: "/auth/refresh"),
            revoke: IdentityEndpointConfiguration(path: "/auth/revoke"),
            user: IdentityEndpointConfiguration(method: "GET", path: "/user"))
    }

    static func credentials(_ email: String = "jo@example.com", _ password: String = "canary-password") throws
        -> Credentials
    {
        try Credentials(email: email, password: Secret(password))
    }

    static func withClient<R: Sendable>(
        _ configuration: UpstreamConfiguration, timeout: Duration = .seconds(10),
        connectTimeout: Duration = .seconds(5),
        targets: RecordedTargets? = nil, tracer: (any Tracer)? = nil, calls: (any IdentityCallObserver)? = nil,
        onInvalidLifetime: (@Sendable () -> Void)? = nil, body: (UpstreamTokenClient) async throws -> R
    ) async throws -> R {
        let client = UpstreamTokenClient(
            configuration, targets: targets ?? RecordedTargets(configuration.targets.count),
            timeouts: TimeoutsConfiguration(connect: connectTimeout, identity: timeout),
            eventLoopGroup: MultiThreadedEventLoopGroup.singleton,
            tls: try UpstreamTLS.configuration(configuration.tls),
            tracer: tracer, calls: calls, onInvalidLifetime: onInvalidLifetime)
        do {
            let result = try await body(client)
            await client.shutdown()
            return result
        } catch {
            await client.shutdown()
            throw error
        }
    }
}
