import CloakroomIdentity
import CloakroomTLS
import NIOPosix
import TestSupport
import Tracing

@testable import CloakroomCore
@testable import MockAPI

extension UpstreamTokenClient {
    /// Fetches the user's data without replaced tokens.
    func user(_ tokens: TokenSet, traceparent: String?) async throws(TokenClientError) -> [UInt8]? {
        try await user(tokens, replacing: nil, traceparent: traceparent)
    }
}

/// Configurations and clients of test upstreams.
enum Upstreams {
    static let apiToken = "canary-api-token"
    static let now = WallTime(seconds: 1_700_000_000)
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
        return try await stopping {
            await client.shutdown()
        } after: {
            try await body(client)
        }
    }

    /// Runs a client whose upstream handles the requests by a script.
    static func withScript<R: Sendable>(
        _ script: [ScriptedServer.Act], timeout: Duration = .seconds(10), targets: RecordedTargets? = nil,
        calls: (any IdentityCallObserver)? = nil, change: (inout UpstreamConfiguration) throws -> Void = { _ in },
        body: (UpstreamTokenClient, ScriptedServer) async throws -> R
    ) async throws -> R {
        try await ScriptedServer.run(script) { port, upstream in
            var configuration = configuration(port: port)
            try change(&configuration)
            return try await withClient(configuration, timeout: timeout, targets: targets, calls: calls) {
                try await body($0, upstream)
            }
        }
    }

    /// Runs a client of the mock API, which has some users with the password `canary-password`.
    static func withMock<R: Sendable>(
        _ users: [MockUser] = [MockUser(email: "jo@example.com", password: "canary-password", name: "Jo")],
        timeout: Duration = .seconds(10), tracer: (any Tracer)? = nil,
        change: (inout UpstreamConfiguration) -> Void = { _ in },
        body: (RunningMockAPI, UpstreamTokenClient) async throws -> R
    ) async throws -> R {
        let settings = MockAPISettings(
            apiToken: apiToken, users: users, clientID: "mock:client", clientSecret: "canary secret+%")
        return try await MockAPI.withServer(settings) { mock in
            var configuration = configuration(port: mock.port)
            change(&configuration)
            return try await withClient(configuration, timeout: timeout, tracer: tracer) { try await body(mock, $0) }
        }
    }
}

/// The error that a call throws; `nil` if it succeeds.
func thrown<Failure: Error, Value>(
    _ call: () async throws(Failure) -> Value
) async -> Failure? {
    do throws(Failure) {
        _ = try await call()
        return nil
    } catch {
        return error
    }
}
