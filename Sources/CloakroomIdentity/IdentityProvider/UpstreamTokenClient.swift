import AsyncHTTPClient
public import CloakroomCore
public import NIOCore
public import NIOSSL
import Synchronization
public import Tracing

/// Requests, refreshes and revokes tokens at one upstream over HTTP/1.1.
///
/// Not on the hot path: used for sign-ins, refreshes and sign-outs only. It logs nothing: it reports failures to an
/// observer, and its errors contain only the call and the kind of failure.
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
    ///   - calls: Receives the attempts and failures of all calls.
    ///   - onInvalidLifetime: Called once, the first time that the upstream returns an invalid token lifetime. Must not
    ///     wait.
    public init(
        _ upstream: UpstreamConfiguration, targets: any TargetSelecting, timeouts: TimeoutsConfiguration,
        eventLoopGroup: any EventLoopGroup, tls: TLSConfiguration, tracer: (any Tracer)? = nil,
        calls: (any IdentityCallObserver)? = nil, onInvalidLifetime: (@Sendable () -> Void)? = nil
    ) {
        // A target that does not respond must leave half of the time for the others.
        let share = upstream.targets.count > 1 ? timeouts.identity / 2 : timeouts.identity
        let configuration = IdentityTransport.clientConfiguration(
            tls: tls, connect: min(timeouts.connect, share), maxConnections: upstream.pool.maxConnections,
            idleTimeout: upstream.pool.idleTimeout)
        self.upstream = upstream
        self.onInvalidLifetime = onInvalidLifetime
        timeout = timeouts.identity
        let clients = upstream.targets.enumerated().map { index, target in
            IdentityTarget(
                target, tls: upstream.tls, configuration: configuration, eventLoopGroup: eventLoopGroup
            ) { targets.connected(index, now: NIODeadline.now().uptimeNanoseconds) }
        }
        transport = IdentityTransport(
            targets: clients, selector: targets, spans: SpanFactory(tracer: tracer), source: .upstream(upstream.name),
            observer: calls)
    }

    /// Closes the connections. Calls in progress and all later calls fail.
    public func shutdown() async {
        await transport.shutdown()
    }

    /// Whether the upstream has a refresh call. Without one, tokens are used until they expire.
    public var supportsRefresh: Bool { upstream.refresh != nil }

    /// Exchanges credentials for tokens, and fetches the user with them if the configuration has a call for that.
    /// - Throws: ``TokenClientError``; tokens that were issued by then and cannot be used are revoked if possible.
    public func signIn(
        _ credentials: Credentials, traceparent: String?, now: WallTime
    ) async throws(TokenClientError) -> SignInResult {
        guard let configuration = upstream.signIn else { throw TokenClientError(.invalidResponse, in: .signIn) }
        // An upstream that takes Basic credentials has no user whose name contains a colon.
        guard let request = RequestCredentials.signIn(credentials, configuration: configuration) else {
            throw TokenClientError(.rejected, in: .signIn)
        }
        let response = try await send(configuration, request, traceparent: traceparent, timeout: timeout, call: .signIn)
        try check(response, configuration, call: .signIn)
        guard
            let tokens = TokenResponse.read(
                response.body, configuration: configuration, now: now, onInvalidLifetime: noteInvalidLifetime)
        else { throw unusable(response, configuration, "signIn", call: .signIn) }
        let document = try await firstUser(credentials, tokens: tokens, traceparent: traceparent)
        let name = credentials.account
        let account = UserIdentity.account(in: document, upstream) ?? name
        return SignInResult(tokens: tokens, user: UserProfile(json: document, account: account, name: name))
    }

    /// Exchanges a session's refresh token, as for a token set.
    public func refresh(
        _ session: Session, traceparent: String?, now: WallTime
    ) async throws(TokenClientError) -> SessionUpdate {
        SessionUpdate(tokens: try await refresh(session.tokens, traceparent: traceparent, now: now))
    }

    /// Exchanges a refresh token for new tokens. The call is sent once at most, on a connection of its own: the call
    /// may spend the refresh token, and an upstream that receives a spent one again treats it as stolen.
    /// - Throws: ``TokenClientError``; of kind `rejected` only if the upstream responded with a code that the
    ///   configuration lists, by default the OAuth code `invalid_grant` (RFC 6749 §5.2), or without a known code and
    ///   with a status that the configuration lists, by default 401; with the format `oauth` only the code counts. A
    ///   response whose body was truncated, late or too large rejects nothing: it is `invalidResponse` instead. Without
    ///   a refresh call or a refresh token it is `invalidResponse`, which ends no session.
    public func refresh(
        _ tokens: TokenSet, traceparent: String?, now: WallTime
    ) async throws(TokenClientError) -> TokenSet {
        guard let configuration = upstream.refresh, let refreshToken = tokens.refreshToken,
            let request = RequestCredentials.refresh(refreshToken, configuration: configuration)
        else {
            throw TokenClientError(.invalidResponse, in: .refresh)
        }
        let response = try await send(
            configuration, request, traceparent: traceparent, timeout: timeout, call: .refresh)
        try check(response, configuration, call: .refresh)
        guard
            var refreshed = TokenResponse.read(
                response.body, configuration: configuration, now: now, onInvalidLifetime: noteInvalidLifetime)
        else { throw unusable(response, configuration, "refresh", call: .refresh) }
        refreshed.refreshToken = refreshed.refreshToken ?? refreshToken
        return refreshed
    }

    /// Fetches the user's data again, as ``user(_:replacing:traceparent:)`` does, and compares the user's id. A session
    /// whose account is the typed name had no id at the sign-in; its data may have one since.
    public func updatedUser(
        of session: Session, replacing previous: TokenSet, traceparent: String?
    ) async throws(TokenClientError) -> SessionUpdate? {
        let (user, tokens) = (session.user, session.tokens)
        let account = user.account == user.name ? UserIdentity.account(in: user.json, upstream) : user.account
        return try await self.user(
            tokens, of: account, replacing: previous, traceparent: traceparent, timeout: min(timeout, Self.userTimeout)
        ).map { SessionUpdate(userJSON: $0) }
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
            let request = RequestCredentials.revocation(refreshToken, configuration: configuration)
        else { return }
        let response = try await send(
            configuration, request, traceparent: traceparent, timeout: min(timeout, Self.revokeTimeout),
            call: .revoke)
        // A token that the upstream rejects is already invalid, which is the goal of the call. With OAuth an invalid
        // token is 200, and 401 means that the client's own credentials are wrong (RFC 7009 §2.2).
        guard response.status != 401 || configuration.credentials == .oauth else { return }
        try check(response, configuration, call: .revoke)
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
            return responded ?? UserDocument.fallback(from: credentials)
        } catch {
            // An upstream that is unavailable cannot process this call either; one that sent an invalid response may.
            if error.kind != .unreachable, error.kind != .timedOut {
                try? await revoke(tokens, traceparent: traceparent)
            }
            throw error
        }
    }

    /// - Parameter account: The account that the data have to be of; `nil` for any.
    private func user(
        _ tokens: TokenSet, of account: AccountName? = nil, replacing previous: TokenSet?, traceparent: String?,
        timeout: Duration
    ) async throws(TokenClientError) -> [UInt8]? {
        guard let configuration = upstream.user else { return nil }
        let response = try await send(
            configuration, .accessToken(tokens, in: configuration.bearer), traceparent: traceparent,
            timeout: timeout, call: .user)
        // The token was issued just before: a rejection contradicts the upstream's own response.
        guard response.status != 401 else {
            throw failure(of: response, configuration, call: .user, .invalidResponse, Defect("access_token_rejected"))
        }
        try check(response, configuration, call: .user)
        guard let document = UserDocument.read(response.body, excluding: [tokens] + (previous.map { [$0] } ?? []))
        else {
            throw failure(
                of: response, configuration, call: .user, .invalidResponse, UserDocument.defect(of: response.body))
        }
        guard let account else { return document }
        let found = UserIdentity.account(in: document, upstream)
        if account != found {
            throw found == nil
                ? failure(of: response, configuration, call: .user, .invalidResponse, Defect("user_id_missing"))
                : failure(of: response, configuration, call: .user, .rejected, Defect("other_user"))
        }
        return document
    }

    private func send(
        _ configuration: IdentityEndpointConfiguration, _ credentials: RequestCredentials, traceparent: String?,
        timeout: Duration, call: TokenClientError.Operation
    ) async throws(TokenClientError) -> IdentityTransport.Response {
        let identityCall = IdentityRequest(
            operation: call, configuration: configuration, credentials: credentials, apiToken: upstream.apiToken,
            traceparent: traceparent,
            isIdempotent: call != .refresh, readsErrors: call == .signIn || call == .refresh,
            isFollowUp: call == .user || call == .revoke)
        return try await transport.send(identityCall, timeout: timeout)
    }

    private typealias Defect = IdentityCallFailure.Defect

    /// Reports a response that cannot be used.
    /// - Parameter defect: `nil` for the word of the kind.
    private func failure(
        of response: IdentityTransport.Response, _ configuration: IdentityEndpointConfiguration,
        call: TokenClientError.Operation, _ kind: TokenClientError.Kind = .invalidResponse, _ defect: Defect? = nil
    ) -> TokenClientError {
        // Only for the report: it is not sent.
        let sent = IdentityRequest(
            operation: call, configuration: configuration, credentials: RequestCredentials(), apiToken: nil,
            traceparent: nil)
        transport.reportFailure(of: sent, response, kind, defect)
        return TokenClientError(kind, in: call, isUnjudged: response.status >= 500)
    }

    /// Reports a success whose tokens cannot be read.
    /// - Parameter section: The section of the configuration: `signIn` or `refresh`.
    private func unusable(
        _ response: IdentityTransport.Response, _ configuration: IdentityEndpointConfiguration, _ section: String,
        call: TokenClientError.Operation
    ) -> TokenClientError {
        failure(
            of: response, configuration, call: call, .invalidResponse,
            TokenResponse.defect(of: response.body, configuration: configuration, section: section))
    }

    private func check(
        _ response: IdentityTransport.Response, _ configuration: IdentityEndpointConfiguration,
        call: TokenClientError.Operation
    ) throws(TokenClientError) {
        if response.isSuccess, configuration.success?.accepts(body: response.body) ?? true { return }
        let rules = RejectedCall.Rules(configuration, of: call)
        let kind =
            response.isSuccess
            ? RejectedCall.kind(unsuccessful: response.body, rules: rules)
            : RejectedCall.kind(
                status: response.status, body: response.body, isWhole: response.isWhole, rules: rules)
        let isPage = response.isSuccess && kind == .invalidResponse
        throw failure(of: response, configuration, call: call, kind, isPage ? Defect("not_json") : nil)
    }
}
