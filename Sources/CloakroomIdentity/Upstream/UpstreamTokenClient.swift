import AsyncHTTPClient
public import CloakroomCore
public import NIOCore
public import NIOSSL
import Synchronization
public import Tracing

/// Deals in tokens with one upstream over HTTP/1.1.
///
/// Off the hot path: sign-ins, renewals and sign-outs only. It logs nothing, and its errors name the call and the kind of failure.
public final class UpstreamTokenClient: TokenClient {
    /// How long making tokens void may keep a person waiting who signs out or in anew.
    private static let revokeTimeout = Duration.seconds(2)

    /// How long a user's data may hold up the next renewal of a session: it is fetched while the lease is held.
    private static let userTimeout = Duration.seconds(3)

    private let upstream: UpstreamConfiguration
    private let timeout: Duration
    private let transport: IdentityTransport
    private let onInvalidLifetime: (@Sendable () -> Void)?
    private let hasInvalidLifetime = Atomic(false)

    /// Makes a client; ``shutdown()`` ends it.
    /// - Parameters:
    ///   - upstream: The upstream that signs people in; calls that it has no plan for are not made.
    ///   - timeouts: ``TimeoutsConfiguration/identity`` bounds each call, ``TimeoutsConfiguration/connect`` each connection.
    ///   - targets: Chooses the target of each call; the same that requests to the upstream use.
    ///   - tls: Trust roots and certificate for `https` targets: what ``UpstreamConfiguration/tls`` says, read from its files.
    ///   - tracer: Makes a span for each call that is made for a sampled request: below ``ServiceContext/current``, and
    ///     its context goes to the upstream instead of the one that is given with the call.
    ///   - onInvalidLifetime: Is called once, the first time that the upstream reports a token lifetime that makes no
    ///     sense. Must not wait.
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
        // A target that refuses connections is not asked again and again until the time is over: the next one is.
        configuration.connectionPool.retryConnectionEstablishment = false
        self.upstream = upstream
        self.onInvalidLifetime = onInvalidLifetime
        timeout = timeouts.identity
        let clients = upstream.targets.enumerated().map { index, target in
            IdentityTarget(
                target, tls: upstream.tls, configuration: configuration, eventLoopGroup: eventLoopGroup
            ) { targets.targetReached(index) }
        }
        transport = IdentityTransport(targets: clients, selector: targets, spans: SpanFactory(tracer))
    }

    /// Closes the connections. Calls that are under way fail, and so do all after it.
    public func shutdown() async {
        for target in transport.targets { await target.shutdown() }
    }

    /// Whether the upstream has a call to renew tokens with. Without one they are used until they end.
    public var supportsRefresh: Bool { upstream.refresh != nil }

    /// Exchanges credentials for tokens, and fetches the user with them if the plan has a call for that.
    /// - Throws: ``TokenClientError``; tokens that were given by then and are of no use are made void where possible.
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

    /// Exchanges a refresh token for new tokens. The call is sent once at most, on a connection of its own: the refresh
    /// token may be spent by it, and an upstream that sees a spent one again takes it for stolen.
    /// - Throws: ``TokenClientError``; of kind `rejected` only where the upstream answered with the OAuth code
    ///   `invalid_grant` (RFC 6749 §5.2), or without such a code and with a status that the plan lists, by default 401.
    ///   A response whose body was cut, late or too large rejects nothing: it is `invalidResponse` instead.
    ///   Where there is nothing to renew with it is `invalidResponse`, which ends no session.
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

    /// Fetches the user's data, within three seconds or the plan's time if that is less.
    /// - Returns: A JSON object; `nil` where the upstream has no such call.
    /// - Throws: ``TokenClientError``; a refusal of the access token is `invalidResponse`.
    public func user(
        _ tokens: TokenSet, replacing previous: TokenSet?, traceparent: String?
    ) async throws(TokenClientError) -> [UInt8]? {
        try await user(
            tokens, replacing: previous, traceparent: traceparent, timeout: min(timeout, Self.userTimeout))
    }

    /// Makes the tokens void by their refresh token, within two seconds or the plan's time if that is less.
    /// - Throws: ``TokenClientError`` unless the upstream took the call or said (401) that the token is void already.
    public func revoke(_ tokens: TokenSet, traceparent: String?) async throws(TokenClientError) {
        guard let configuration = upstream.revoke, let refreshToken = tokens.refreshToken,
            let credential = IdentityRequest.Credential.refreshToken(refreshToken, configuration: configuration)
        else { return }
        let response = try await send(
            configuration, credential, traceparent: traceparent, timeout: min(timeout, Self.revokeTimeout),
            call: .revoke)
        // A token that the upstream does not take any more is void, which is all that was asked for.
        guard response.status != 401 else { return }
        try check(response, rejected: [], call: .revoke)
    }

    private func noteInvalidLifetime() {
        if !hasInvalidLifetime.exchange(true, ordering: .relaxed) { onInvalidLifetime?() }
    }

    /// Fetches the user with tokens that nobody knows of yet, and makes them void again if that comes to nothing.
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
            // An upstream that is not there now will not take this call either; one that talks nonsense may.
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
        // The token is from a moment ago: an upstream that rejects it contradicts itself.
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
        // A session must not end by a response of which only a part is known.
        let kind = RejectedCall.kind(
            status: response.status, body: response.body, needsBody: call == .refresh && !response.isWhole,
            rejected: rejected)
        throw TokenClientError(kind, in: call, isUnjudged: response.status >= 500)
    }
}
