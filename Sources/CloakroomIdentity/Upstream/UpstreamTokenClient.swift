import AsyncHTTPClient
public import CloakroomCore
public import NIOCore
public import NIOSSL

/// Deals in tokens with one upstream over HTTP/1.1.
///
/// Off the hot path: sign-ins and sign-outs only. It logs nothing, and its errors name the call and the kind of failure.
public final class UpstreamTokenClient: TokenClient {
    /// How long making tokens void may keep a person waiting who signs out or in anew.
    private static let revokeTimeout = Duration.seconds(2)

    private let upstream: UpstreamPlan
    private let timeout: Duration
    private let accountKey: KeyedHash
    private let transport: IdentityTransport

    /// Makes a client; ``shutdown()`` ends it.
    /// - Parameters:
    ///   - upstream: The upstream that signs people in; calls that it has no plan for are not made.
    ///   - timeouts: ``TimeoutsPlan/identity`` bounds each call, ``TimeoutsPlan/connect`` each connection.
    ///   - accountKey: The key of ``UserProfile/accountHash``.
    ///   - tls: Trust roots and certificate for `https` targets: what ``UpstreamPlan/tls`` says, read from its files.
    public init(
        _ upstream: UpstreamPlan, timeouts: TimeoutsPlan, accountKey: KeyedHash, eventLoopGroup: any EventLoopGroup,
        tls: TLSConfiguration = .makeClientConfiguration()
    ) {
        var configuration = HTTPClient.Configuration(redirectConfiguration: .disallow)
        // Its spans would record whole URLs and carry a second trace context.
        configuration.tracing.tracer = nil
        configuration.httpVersion = .http1Only
        configuration.tlsConfiguration = tls
        configuration.timeout.connect = TimeAmount(min(timeouts.connect, timeouts.identity))
        configuration.connectionPool.concurrentHTTP1ConnectionsPerHostSoftLimit = upstream.pool.maxConnections
        configuration.connectionPool.idleTimeout = TimeAmount(upstream.pool.idleTimeout)
        // A target that refuses connections is not asked again and again until the time is over: the next one is.
        configuration.connectionPool.retryConnectionEstablishment = false
        self.upstream = upstream
        self.accountKey = accountKey
        timeout = timeouts.identity
        let targets = upstream.targets.map {
            IdentityTarget($0, tls: upstream.tls, configuration: configuration, eventLoopGroup: eventLoopGroup)
        }
        transport = IdentityTransport(targets: targets)
    }

    /// Closes the connections. Calls that are under way fail, and so do all after it.
    public func shutdown() async {
        // Only a second shutdown throws, and then there is nothing left to close.
        for target in transport.targets { try? await target.client.shutdown() }
    }

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
        // Only 401 is about the credentials (00-product's table). 403 is about our API key and 400 about our dialect:
        // telling people that their password is wrong would be a lie.
        guard answer.status != 401 else { throw TokenClientError(.rejected, in: .signIn) }
        try check(answer, call: .signIn)
        guard let tokens = TokenAnswer.read(answer.body, plan: plan, now: now) else {
            throw TokenClientError(.invalidResponse, in: .signIn)
        }
        let document = try await user(credentials, tokens: tokens, traceparent: traceparent)
        let accountHash = AccountName(email: credentials.email).hash(under: accountKey)
        return SignedIn(tokens: tokens, user: UserProfile(json: document, accountHash: accountHash))
    }

    /// Makes the tokens void by their refresh token, within two seconds or the plan's time if that is less.
    /// - Throws: ``TokenClientError`` unless the upstream took the call or said (401) that the token is void already.
    public func revoke(_ tokens: SessionTokens, traceparent: String?) async throws(TokenClientError) {
        guard let plan = upstream.revoke, let refreshToken = tokens.refreshToken,
            let credential = IdentityCall.Credential.revoke(refreshToken, plan: plan)
        else { return }
        let answer = try await send(
            plan, credential, traceparent: traceparent, timeout: min(timeout, Self.revokeTimeout), call: .revoke)
        // A token that the upstream does not take any more is void, which is all that was asked for.
        guard answer.status != 401 else { return }
        try check(answer, call: .revoke)
    }

    /// Fetches the user with tokens that nobody knows of yet, and makes them void again if that comes to nothing.
    private func user(
        _ credentials: Credentials, tokens: SessionTokens, traceparent: String?
    ) async throws(TokenClientError) -> [UInt8] {
        do {
            return try await fetchUser(credentials, tokens: tokens, traceparent: traceparent)
        } catch {
            // An upstream that is not there now will not take this call either; one that talks nonsense may.
            if error.kind == .invalidResponse { try? await revoke(tokens, traceparent: traceparent) }
            throw error
        }
    }

    private func fetchUser(
        _ credentials: Credentials, tokens: SessionTokens, traceparent: String?
    ) async throws(TokenClientError) -> [UInt8] {
        let document: [UInt8]?
        if let plan = upstream.user {
            let answer = try await send(
                plan, .authorization(tokens.authorization), traceparent: traceparent, timeout: timeout, call: .user)
            // A 401 here too: the token is from a moment ago, so the upstream contradicts itself.
            try check(answer, call: .user)
            document = UserDocument.read(answer.body, tokens: tokens)
        } else {
            document = UserDocument.made(from: credentials)
        }
        guard let document else { throw TokenClientError(.invalidResponse, in: .user) }
        return document
    }

    private func send(
        _ plan: TokenCallPlan, _ credential: IdentityCall.Credential, traceparent: String?, timeout: Duration,
        call: TokenClientError.Call
    ) async throws(TokenClientError) -> IdentityTransport.Answer {
        let identityCall = IdentityCall(
            plan: plan, credential: credential, apiToken: upstream.apiToken, traceparent: traceparent)
        do {
            return try await transport.send(identityCall, timeout: timeout)
        } catch {
            throw error.asTokenClientError(in: call)
        }
    }

    /// An upstream that says it cannot at the moment is as good as not there.
    private func check(_ answer: IdentityTransport.Answer, call: TokenClientError.Call) throws(TokenClientError) {
        guard !answer.isSuccess else { return }
        let isBusy = answer.status >= 500 || answer.status == 429
        throw TokenClientError(isBusy ? .unreachable : .invalidResponse, in: call)
    }
}
