import AsyncHTTPClient
public import CloakroomCore
public import NIOCore
public import NIOSSL
import Synchronization
public import Tracing

/// Requests, refreshes and revokes tokens at one upstream over HTTP/1.1.
///
/// Not on the hot path: used for sign-ins, refreshes and sign-outs only. It logs nothing, and its errors contain only
/// the call and the kind of failure.
///
/// Folder `IdentityProvider/`: sends the sign-in, refresh, revocation and user calls, and interprets their responses.
public final class UpstreamTokenClient: TokenClient {
    /// The maximum time that a sign-out or a new sign-in waits for the revocation of tokens.
    private static let revokeTimeout = Duration.seconds(2)

    /// The maximum time that fetching the user may delay the next refresh of a session: the lease is held meanwhile.
    private static let userTimeout = Duration.seconds(3)

    private let upstream: UpstreamConfiguration
    private let timeout: Duration
    private let transport: IdentityTransport
    private let onInvalidLifetime: (@Sendable () -> Void)?
    private let hasInvalidLifetime = Atomic(false)

    /// Creates a client; ``shutdown()`` closes it.
    /// - Parameters:
    ///   - upstream: The identity upstream; calls without configuration are not made.
    ///   - timeouts: ``TimeoutsConfiguration/identity`` bounds each call, ``TimeoutsConfiguration/connect`` each connection.
    ///   - targets: Selects the target of each call; shared with the requests to the upstream.
    ///   - tls: Trust roots and certificate for `https` targets: ``UpstreamConfiguration/tls``, loaded from its files.
    ///   - tracer: Creates a span for each call that is made for a sampled request, as a child of
    ///     ``ServiceContext/current``. Its context is sent to the upstream instead of the one passed with the call.
    ///   - onInvalidLifetime: Called once, the first time that the upstream returns an invalid token lifetime. Must not
    ///     wait.
    public init(
        _ upstream: UpstreamConfiguration, targets: any TargetSelecting, timeouts: TimeoutsConfiguration,
        eventLoopGroup: any EventLoopGroup, tls: TLSConfiguration, tracer: (any Tracer)? = nil,
        onInvalidLifetime: (@Sendable () -> Void)? = nil
    ) {
        var configuration = HTTPClient.Configuration(redirectConfiguration: .disallow)
        // Its spans would record whole URLs and carry a second trace context.
        configuration.tracing.tracer = nil
        configuration.httpVersion = .http1Only
        configuration.tlsConfiguration = tls
        // A target that does not respond must leave half of the time for the others.
        let share = upstream.targets.count > 1 ? timeouts.identity / 2 : timeouts.identity
        configuration.timeout.connect = TimeAmount(min(timeouts.connect, share))
        configuration.connectionPool.concurrentHTTP1ConnectionsPerHostSoftLimit = upstream.pool.maxConnections
        configuration.connectionPool.idleTimeout = TimeAmount(upstream.pool.idleTimeout)
        // If a target refuses connections, the next target is tried instead of the same one until the time limit.
        configuration.connectionPool.retryConnectionEstablishment = false
        self.upstream = upstream
        self.onInvalidLifetime = onInvalidLifetime
        timeout = timeouts.identity
        let clients = upstream.targets.enumerated().map { index, target in
            IdentityTarget(
                target, tls: upstream.tls, configuration: configuration, eventLoopGroup: eventLoopGroup
            ) { targets.connected(index, now: NIODeadline.now().uptimeNanoseconds) }
        }
        transport = IdentityTransport(targets: clients, selector: targets, spans: SpanFactory(tracer))
    }

    /// Closes the connections. Calls in progress and all later calls fail.
    public func shutdown() async {
        for target in transport.targets { await target.shutdown() }
    }

    /// Whether the upstream has a refresh call. Without one, tokens are used until they expire.
    public var supportsRefresh: Bool { upstream.refresh != nil }

    /// Exchanges credentials for tokens, and fetches the user with them if the configuration has a call for that.
    /// - Throws: ``TokenClientError``; tokens that were issued by then and cannot be used are revoked if possible.
    public func signIn(
        _ credentials: Credentials, traceparent: String?, now: Timestamp
    ) async throws(TokenClientError) -> SignInResult {
        guard let configuration = upstream.signIn,
            let credential = IdentityRequest.Credential.signIn(credentials, configuration: configuration)
        else {
            throw TokenClientError(.invalidResponse, in: .signIn)
        }
        let response = try await send(
            configuration, credential, traceparent: traceparent, timeout: timeout, call: .signIn)
        try check(response, rejected: configuration.rejectedStatuses ?? RejectedCall.signInStatuses, call: .signIn)
        guard
            let tokens = TokenResponse.read(
                response.body, configuration: configuration, now: now, onInvalidLifetime: noteInvalidLifetime)
        else { throw TokenClientError(.invalidResponse, in: .signIn) }
        let document = try await firstUser(credentials, tokens: tokens, traceparent: traceparent)
        let name = AccountName(email: credentials.email)
        let account = UserIdentity.account(in: document, upstream) ?? name
        return SignInResult(tokens: tokens, user: UserProfile(json: document, account: account, name: name))
    }

    /// Exchanges a refresh token for new tokens. The call is sent once at most, on a connection of its own: the call
    /// may spend the refresh token, and an upstream that receives a spent one again treats it as stolen.
    /// - Throws: ``TokenClientError``; of kind `rejected` only if the upstream responded with the OAuth code
    ///   `invalid_grant` (RFC 6749 §5.2), or without such a code and with a status that the configuration lists, by
    ///   default 401. A response whose body was truncated, late or too large rejects nothing: it is `invalidResponse`
    ///   instead. Without a refresh call or a refresh token it is `invalidResponse`, which ends no session.
    public func refresh(
        _ tokens: TokenSet, traceparent: String?, now: Timestamp
    ) async throws(TokenClientError) -> TokenSet {
        guard let configuration = upstream.refresh, let refreshToken = tokens.refreshToken,
            let credential = IdentityRequest.Credential.refreshToken(refreshToken, configuration: configuration)
        else {
            throw TokenClientError(.invalidResponse, in: .refresh)
        }
        let response = try await send(
            configuration, credential, traceparent: traceparent, timeout: timeout, call: .refresh)
        try check(response, rejected: configuration.rejectedStatuses ?? RejectedCall.refreshStatuses, call: .refresh)
        guard
            var refreshed = TokenResponse.read(
                response.body, configuration: configuration, now: now, onInvalidLifetime: noteInvalidLifetime)
        else { throw TokenClientError(.invalidResponse, in: .refresh) }
        refreshed.refreshToken = refreshed.refreshToken ?? refreshToken
        return refreshed
    }

    /// Fetches the user's data, within three seconds or the configured time if that is less.
    /// - Returns: A JSON object; `nil` if the upstream has no such call.
    /// - Throws: ``TokenClientError``; a rejection of the access token is `invalidResponse`.
    public func user(
        _ tokens: TokenSet, replacing previous: TokenSet?, traceparent: String?
    ) async throws(TokenClientError) -> [UInt8]? {
        try await user(
            tokens, replacing: previous, traceparent: traceparent, timeout: min(timeout, Self.userTimeout))
    }

    /// Revokes the tokens by their refresh token, within two seconds or the configured time if that is less.
    /// - Throws: ``TokenClientError`` unless the upstream accepted the call or responded with 401 because the token is
    ///   invalid already.
    public func revoke(_ tokens: TokenSet, traceparent: String?) async throws(TokenClientError) {
        guard let configuration = upstream.revoke, let refreshToken = tokens.refreshToken,
            let credential = IdentityRequest.Credential.refreshToken(refreshToken, configuration: configuration)
        else { return }
        let response = try await send(
            configuration, credential, traceparent: traceparent, timeout: min(timeout, Self.revokeTimeout),
            call: .revoke)
        // A token that the upstream rejects is already invalid, which is the goal of the call.
        guard response.status != 401 else { return }
        try check(response, rejected: [], call: .revoke)
    }

    private func noteInvalidLifetime() {
        if !hasInvalidLifetime.exchange(true, ordering: .relaxed) { onInvalidLifetime?() }
    }

    /// Fetches the user with newly issued tokens, and revokes the tokens if that fails.
    private func firstUser(
        _ credentials: Credentials, tokens: TokenSet, traceparent: String?
    ) async throws(TokenClientError) -> [UInt8] {
        do throws(TokenClientError) {
            let responded = try await user(tokens, replacing: nil, traceparent: traceparent, timeout: timeout)
            if let responded { return responded }
            guard let document = UserDocument.fallback(from: credentials) else {
                throw TokenClientError(.invalidResponse, in: .user)
            }
            return document
        } catch {
            // An upstream that is unavailable cannot process this call either; one that sent an invalid response may.
            if error.kind != .unreachable, error.kind != .timedOut {
                try? await revoke(tokens, traceparent: traceparent)
            }
            throw error
        }
    }

    private func user(
        _ tokens: TokenSet, replacing previous: TokenSet?, traceparent: String?, timeout: Duration
    ) async throws(TokenClientError) -> [UInt8]? {
        guard let configuration = upstream.user else { return nil }
        let response = try await send(
            configuration, .authorization(tokens.authorization), traceparent: traceparent, timeout: timeout, call: .user
        )
        // The token was issued just before: a rejection contradicts the upstream's own response.
        guard response.status != 401 else { throw TokenClientError(.invalidResponse, in: .user) }
        try check(response, rejected: [], call: .user)
        guard let document = UserDocument.read(response.body, excluding: [tokens] + (previous.map { [$0] } ?? []))
        else {
            throw TokenClientError(.invalidResponse, in: .user)
        }
        return document
    }

    private func send(
        _ configuration: IdentityEndpointConfiguration, _ credential: IdentityRequest.Credential, traceparent: String?,
        timeout: Duration,
        call: TokenClientError.Operation
    ) async throws(TokenClientError) -> IdentityTransport.Response {
        let identityCall = IdentityRequest(
            configuration: configuration, credential: credential, apiToken: upstream.apiToken, traceparent: traceparent,
            isIdempotent: call != .refresh, readsErrors: call == .signIn || call == .refresh,
            isFollowUp: call == .user || call == .revoke)
        do {
            return try await transport.send(identityCall, timeout: timeout)
        } catch {
            throw error.asTokenClientError(in: call)
        }
    }

    /// - Parameter rejected: The statuses that reject the credential.
    private func check(
        _ response: IdentityTransport.Response, rejected: Set<Int>, call: TokenClientError.Operation
    ) throws(TokenClientError) {
        guard !response.isSuccess else { return }
        // An incomplete response must not end a session.
        let kind = RejectedCall.kind(
            status: response.status, body: response.body, needsBody: call == .refresh && !response.isWhole,
            rejected: rejected)
        throw TokenClientError(kind, in: call, isUnjudged: response.status >= 500)
    }
}
