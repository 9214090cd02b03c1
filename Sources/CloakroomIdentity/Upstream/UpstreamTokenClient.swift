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

    private let upstream: UpstreamPlan
    private let timeout: Duration
    private let transport: IdentityTransport
    private let onInvalidLifetime: (@Sendable () -> Void)?
    private let hasInvalidLifetime = Atomic(false)

    /// Makes a client; ``shutdown()`` ends it.
    /// - Parameters:
    ///   - upstream: The upstream that signs people in; calls that it has no plan for are not made.
    ///   - timeouts: ``TimeoutsPlan/identity`` bounds each call, ``TimeoutsPlan/connect`` each connection.
    ///   - targets: Chooses the target of each call; the same that requests to the upstream use.
    ///   - tls: Trust roots and certificate for `https` targets: what ``UpstreamPlan/tls`` says, read from its files.
    ///   - tracer: Makes a span for each call that is made for a sampled request: below ``ServiceContext/current``, and
    ///     its context goes to the upstream instead of the one that is given with the call.
    ///   - onInvalidLifetime: Is called once, the first time that the upstream reports a token lifetime that makes no
    ///     sense. Must not wait.
    public init(
        _ upstream: UpstreamPlan, targets: any TargetSelecting, timeouts: TimeoutsPlan,
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
        transport = IdentityTransport(targets: clients, selector: targets, spans: ChildSpans(tracer))
    }

    /// Closes the connections. Calls that are under way fail, and so do all after it.
    public func shutdown() async {
        for target in transport.targets { await target.shutdown() }
    }

    /// Whether the upstream has a call to renew tokens with. Without one they are used until they end.
    public var canRenew: Bool { upstream.refresh != nil }

    /// Exchanges credentials for tokens, and fetches the user with them if the plan has a call for that.
    /// - Throws: ``TokenClientError``; tokens that were given by then and are of no use are made void where possible.
    public func signIn(
        _ credentials: Credentials, traceparent: String?, now: Timestamp
    ) async throws(TokenClientError) -> SignedIn {
        guard let plan = upstream.signIn, let credential = IdentityCall.Credential.signIn(credentials, plan: plan)
        else {
            throw TokenClientError(.invalidResponse, in: .signIn)
        }
        let answer = try await send(plan, credential, traceparent: traceparent, timeout: timeout, call: .signIn)
        try check(answer, rejected: plan.rejectedStatuses ?? RefusedCall.signInStatuses, call: .signIn)
        guard let tokens = TokenAnswer.read(answer.body, plan: plan, now: now, onInvalidLifetime: noteInvalidLifetime)
        else { throw TokenClientError(.invalidResponse, in: .signIn) }
        let document = try await firstUser(credentials, tokens: tokens, traceparent: traceparent)
        let name = AccountName(email: credentials.email)
        let account = UserIdentity.account(in: document, upstream) ?? name
        return SignedIn(tokens: tokens, user: UserProfile(json: document, account: account, name: name))
    }

    /// Exchanges a refresh token for new tokens. The call is sent once at most, on a connection of its own: the refresh
    /// token may be spent by it, and an upstream that sees a spent one again takes it for stolen.
    /// - Throws: ``TokenClientError``; of kind `rejected` only where the upstream answered with the OAuth code
    ///   `invalid_grant` (RFC 6749 §5.2), or without such a code and with a status that the plan lists, by default 401.
    ///   A response whose body was cut, late or too large rejects nothing: it is `invalidResponse` instead.
    ///   Where there is nothing to renew with it is `invalidResponse`, which ends no session.
    public func renew(
        _ tokens: SessionTokens, traceparent: String?, now: Timestamp
    ) async throws(TokenClientError) -> SessionTokens {
        guard let plan = upstream.refresh, let refreshToken = tokens.refreshToken,
            let credential = IdentityCall.Credential.refreshToken(refreshToken, plan: plan)
        else {
            throw TokenClientError(.invalidResponse, in: .renew)
        }
        let answer = try await send(plan, credential, traceparent: traceparent, timeout: timeout, call: .renew)
        try check(answer, rejected: plan.rejectedStatuses ?? RefusedCall.refreshStatuses, call: .renew)
        guard
            var renewed = TokenAnswer.read(answer.body, plan: plan, now: now, onInvalidLifetime: noteInvalidLifetime)
        else { throw TokenClientError(.invalidResponse, in: .renew) }
        renewed.refreshToken = renewed.refreshToken ?? refreshToken
        return renewed
    }

    /// Fetches the user's data, within three seconds or the plan's time if that is less.
    /// - Returns: A JSON object; `nil` where the upstream has no such call.
    /// - Throws: ``TokenClientError``; a refusal of the access token is `invalidResponse`.
    public func user(
        _ tokens: SessionTokens, replacing previous: SessionTokens?, traceparent: String?
    ) async throws(TokenClientError) -> [UInt8]? {
        try await user(
            tokens, replacing: previous, traceparent: traceparent, timeout: min(timeout, Self.userTimeout))
    }

    /// Makes the tokens void by their refresh token, within two seconds or the plan's time if that is less.
    /// - Throws: ``TokenClientError`` unless the upstream took the call or said (401) that the token is void already.
    public func revoke(_ tokens: SessionTokens, traceparent: String?) async throws(TokenClientError) {
        guard let plan = upstream.revoke, let refreshToken = tokens.refreshToken,
            let credential = IdentityCall.Credential.refreshToken(refreshToken, plan: plan)
        else { return }
        let answer = try await send(
            plan, credential, traceparent: traceparent, timeout: min(timeout, Self.revokeTimeout), call: .revoke)
        // A token that the upstream does not take any more is void, which is all that was asked for.
        guard answer.status != 401 else { return }
        try check(answer, rejected: [], call: .revoke)
    }

    private func noteInvalidLifetime() {
        if !hasInvalidLifetime.exchange(true, ordering: .relaxed) { onInvalidLifetime?() }
    }

    /// Fetches the user with tokens that nobody knows of yet, and makes them void again if that comes to nothing.
    private func firstUser(
        _ credentials: Credentials, tokens: SessionTokens, traceparent: String?
    ) async throws(TokenClientError) -> [UInt8] {
        do throws(TokenClientError) {
            let answered = try await user(tokens, replacing: nil, traceparent: traceparent, timeout: timeout)
            if let answered { return answered }
            guard let document = UserDocument.made(from: credentials) else {
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
        _ tokens: SessionTokens, replacing previous: SessionTokens?, traceparent: String?, timeout: Duration
    ) async throws(TokenClientError) -> [UInt8]? {
        guard let plan = upstream.user else { return nil }
        let answer = try await send(
            plan, .authorization(tokens.authorization), traceparent: traceparent, timeout: timeout, call: .user)
        // The token is from a moment ago: an upstream that rejects it contradicts itself.
        guard answer.status != 401 else { throw TokenClientError(.invalidResponse, in: .user) }
        try check(answer, rejected: [], call: .user)
        guard let document = UserDocument.read(answer.body, excluding: [tokens] + (previous.map { [$0] } ?? [])) else {
            throw TokenClientError(.invalidResponse, in: .user)
        }
        return document
    }

    private func send(
        _ plan: TokenCallPlan, _ credential: IdentityCall.Credential, traceparent: String?, timeout: Duration,
        call: TokenClientError.Call
    ) async throws(TokenClientError) -> IdentityTransport.Answer {
        let identityCall = IdentityCall(
            plan: plan, credential: credential, apiToken: upstream.apiToken, traceparent: traceparent,
            isRepeatable: call != .renew, readsErrors: call == .signIn || call == .renew,
            isFollowUp: call == .user || call == .revoke)
        do {
            return try await transport.send(identityCall, timeout: timeout)
        } catch {
            throw error.asTokenClientError(in: call)
        }
    }

    /// - Parameter rejected: The statuses that reject the credential.
    private func check(
        _ answer: IdentityTransport.Answer, rejected: Set<Int>, call: TokenClientError.Call
    ) throws(TokenClientError) {
        guard !answer.isSuccess else { return }
        // A session must not end by a response of which only a part is known.
        let kind = RefusedCall.kind(
            status: answer.status, body: answer.body, needsBody: call == .renew && !answer.isWhole,
            rejected: rejected)
        throw TokenClientError(kind, in: call, isUnjudged: answer.status >= 500)
    }
}
