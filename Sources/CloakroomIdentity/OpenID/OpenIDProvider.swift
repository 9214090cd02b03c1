package import CloakroomCore
import CloakroomTLS
package import NIOCore
import Synchronization
package import Tracing

/// One OpenID Provider under one configuration: its metadata and keys, which are fetched in the background, and the calls
/// of logins, refreshes and sign-outs.
///
/// No call fetches metadata or keys, except in the two cases that ``KeySetSchedule`` bounds: there are none yet, or a
/// token has an unknown key. A provider that is unavailable therefore costs a login one wait, and a start nothing.
package final class OpenIDProvider: TokenClient, Unprintable {
    /// The maximum length of a URL with `id_token_hint`; beyond it the hint is omitted, because servers reject long request
    /// targets.
    private static let maxURLLength = 7_168
    /// The maximum length of a logout token in bytes. Any client can send them, and those of providers have less than half.
    static let maxLogoutToken = 4_096

    package let configuration: IdentityConfiguration
    let transport: ProviderTransport
    let discovery: ProviderDiscovery
    let keys: ProviderKeys
    let timeout: Duration
    let report: @Sendable (ProviderEvent) -> Void
    let clock: @Sendable () -> WallTime
    let identity: ProviderIdentity
    private let signer: ClientAssertionSigner?
    private let hasInvalidLifetime = Atomic(false)
    let pushes: ClientQueue
    let introspections: ClientQueue
    /// About the tokens of streams, which ask again and again, and take no place of new requests.
    private let streamIntrospections: ClientQueue

    package var source: SessionSource { configuration.source }
    package var supportsRefresh: Bool { true }

    /// Creates a provider; ``run()`` fetches its metadata and ``shutdown()`` closes it. Opens no connection.
    /// - Parameters:
    ///   - previous: The provider of the previous configuration. Its metadata and keys are used until they are fetched
    ///     again, if this configuration trusts the same ones. What clients have in progress there counts here too.
    ///   - timeouts: ``TimeoutsConfiguration/identity`` bounds each call, ``TimeoutsConfiguration/connect`` each connection.
    ///   - tracer: Creates a span for each call that is made for a sampled request.
    ///   - calls: Receives the attempts and failures of all calls.
    ///   - clock: The wall clock by which tokens are evaluated.
    ///   - report: Called for each event; must not block.
    /// - Throws: ``ClientKeyError`` or `UpstreamTLSError` for a file that cannot be used. Each describes the file.
    package init(
        _ configuration: IdentityConfiguration, previous: OpenIDProvider? = nil,
        timeouts: TimeoutsConfiguration, eventLoopGroup: any EventLoopGroup, tracer: (any Tracer)? = nil,
        calls: (any IdentityCallObserver)? = nil,
        clock: @escaping @Sendable () -> WallTime,
        report: @escaping @Sendable (ProviderEvent) -> Void = { _ in }
    ) throws {
        self.configuration = configuration
        self.clock = clock
        self.report = report
        timeout = timeouts.identity
        identity = ProviderIdentity(
            issuer: configuration.issuer, clientID: configuration.client.id, clockSkew: configuration.clockSkew)
        let tls = try UpstreamTLS.configuration(configuration.caFile.map { UpstreamTLSConfiguration(caFile: $0) })
        transport = ProviderTransport(
            tls: tls, timeouts: timeouts, eventLoopGroup: eventLoopGroup, spans: SpanFactory(tracer: tracer),
            name: configuration.name, issuer: configuration.issuer, endpoints: configuration.endpoints, observer: calls)
        pushes = previous?.pushes ?? ClientQueue(ClientQueue.maxCalls)
        introspections = previous?.introspections ?? ClientQueue(ClientQueue.maxCalls)
        streamIntrospections = previous?.streamIntrospections ?? ClientQueue(ClientQueue.maxCalls)
        let trusted = previous.flatMap { configuration.trustsDocuments(of: $0.configuration) ? $0 : nil }
        let discovery = ProviderDiscovery(
            configuration, previous: trusted?.discovery.metadata, transport: transport, timeout: timeout,
            report: report)
        self.discovery = discovery
        keys = ProviderKeys(
            algorithms: Set(configuration.algorithms), previous: trusted?.keys.fetched,
            queues: previous?.keys.queues ?? ProviderKeys.Queues(), now: { NIODeadline.now().uptimeNanoseconds },
            report: { report(.keys($0)) }, fetch: { try await discovery.fetch() })
        signer =
            if case .privateKey(let key) = configuration.client.authentication {
                try ClientAssertionSigner(
                    key, clientID: configuration.client.id,
                    audience: { [issuer = configuration.issuer] in
                        key.audience == .issuer ? issuer : discovery.metadata?.tokenEndpoint.text
                    }, clock: clock)
            } else {
                nil
            }
    }

    /// Fetches metadata and keys at their times, until the task is cancelled.
    package func run() async {
        await keys.run()
    }

    /// Closes the connections. Calls in progress and all later calls fail.
    package func shutdown() async {
        await transport.shutdown()
    }

    /// Whether the provider can be used.
    package func status() async -> ProviderStatus {
        ProviderStatus(hasMetadata: discovery.metadata != nil, keys: await keys.usability)
    }

    /// Waits until there are metadata and keys, for one fetch at most. To be called before a code is spent, and before
    /// ``announcesIssuer`` is used. Any client with a login cookie can cause the wait.
    /// - Parameter address: The address of the client.
    /// - Throws: ``TokenClientError``: the provider is unavailable, or too many clients wait.
    package func prepare(from address: String) async throws(TokenClientError) {
        let client = RateKey(peer: address)
        _ = try await metadata(for: .discovery, of: client)
        guard await keys.prepare(for: client) else { throw TokenClientError(.unreachable, in: .keys) }
    }

    /// Whether authorization responses have `iss` (RFC 9207 §3). `false` before the first metadata.
    package var announcesIssuer: Bool { discovery.metadata?.announcesIssuer ?? false }

    // MARK: - Login and logout

    /// The URL that the browser is sent to. Pushes the request as configured (RFC 9126 §2).
    /// - Parameters:
    ///   - passed: Values of the client, which ``IdentityConfiguration/passParameters`` permits.
    ///   - address: The address of the client.
    /// - Throws: ``TokenClientError``.
    package func authorizationURL(
        _ secrets: LoginSecrets, redirectURI: String, stepUp: AuthorizationRequest.StepUp?,
        passed: [IdentityConfiguration.Parameter], address: String, traceparent: String?
    ) async throws(TokenClientError) -> String {
        let client = RateKey(peer: address)
        let metadata = try await metadata(for: .push, of: client)
        let names = Set(passed.map(\.name))
        let extra = passed + configuration.parameters.filter { !names.contains($0.name) }
        let request = AuthorizationRequest(
            secrets, clientID: configuration.client.id, redirectURI: redirectURI, scopes: configuration.scopes,
            extra: extra.map { ($0.name, $0.value) }, stepUp: stepUp)
        guard metadata.pushes(configuration), let endpoint = metadata.pushedRequestEndpoint else {
            guard configuration.pushed != .always else { throw TokenClientError(.misconfigured(.notFound), in: .push) }
            return request.url(at: metadata.authorizationEndpoint)
        }
        let response = try await pushes.run(from: client) { () async throws(TokenClientError) in
            try await post(request.parameters, to: endpoint, call: .push, traceparent: traceparent)
        }
        guard let response else { throw TokenClientError(.unreachable, in: .push) }
        guard let pushed = PushedResponse(response.body) else { throw failure(.invalidResponse, in: .push) }
        return request.url(at: metadata.authorizationEndpoint, requestURI: pushed.requestURI)
    }

    /// Verifies a token that was posted to the back-channel endpoint (OpenID Connect Back-Channel Logout §2.6).
    /// - Parameter address: The address of the client that has posted it.
    /// - Throws: ``TokenClientError``: `failed` is 400, `unreachable` is 503.
    package func verifyLogoutToken(
        _ token: [UInt8], from address: String, now: WallTime
    ) async throws(TokenClientError) -> LogoutToken {
        guard token.count <= Self.maxLogoutToken else { throw TokenClientError(.failed(.token(.tooLong)), in: .keys) }
        return try await keys.verify(token, from: .backChannel, of: RateKey(peer: address)) {
            [identity] (verified) throws(TokenRejection) in
            try LogoutTokenRules(provider: identity).check(verified, now: now)
        }
    }

    /// How the provider is asked about access tokens; `nil` if its keys verify them.
    var introspection: IdentityConfiguration.Introspection? { configuration.accessTokens?.introspection }

    /// Verifies an access token of a client. The limits are like those of logout tokens, or of pushed requests, which any
    /// client can cause too.
    /// - Parameters:
    ///   - clients: The registrations of the gateway, at all providers.
    ///   - client: The one that has sent it.
    ///   - isOfStream: Whether a response that has begun needs the token, and not a new request.
    ///   - charge: Called when it is the token's turn: whether another one may be rejected. With `true`, this one was, or
    ///     is going to be asked about.
    /// - Throws: ``TokenClientError``: `failed` with a ``TokenRejection`` if the token is rejected; all others if it cannot be
    ///   verified now.
    func verifyAccessToken(
        _ token: Secret, key: SessionKey, issuedTo clients: [ProviderIdentity], from client: RateKey,
        isOfStream: Bool, charge: @escaping @Sendable (Bool) -> Bool
    ) async throws(TokenClientError) -> Session {
        let rules = AccessTokenRules(provider: identity, clients: clients, configuration: configuration)
        if let introspection {
            let queue = isOfStream ? streamIntrospections : introspections
            let stated = try await introspect(token, in: introspection.timeout, from: client, queue, charge)
            do throws(TokenRejection) {
                return try rules.session(introspected: stated, token, key: key, now: clock())
            } catch {
                throw TokenClientError(.failed(.token(error)), in: .keys)
            }
        }
        return try await keys.verify(token.bytes, from: .client, of: client, charge: charge) {
            [clock] (verified) throws(TokenRejection) in
            try rules.session(verified, token, key: key, now: clock())
        }
    }

    /// What the provider states about an access token of a client (RFC 7662 §2).
    private func introspect(
        _ token: Secret, in time: Duration, from client: RateKey, _ queue: ClientQueue, _ charge: (Bool) -> Bool
    ) async throws(TokenClientError) -> [JSONMemberName: JSONValue] {
        let metadata = try await metadata(for: .introspect, until: ContinuousClock.now + time, of: client)
        guard let endpoint = metadata.introspectionEndpoint else {
            throw TokenClientError(.misconfigured(.notFound), in: .introspect)
        }
        let form = [
            (name: "token", value: String(decoding: token.bytes, as: UTF8.self)),
            (name: "token_type_hint", value: "access_token"),
        ]
        let response = try await queue.run(from: client) { () async throws(TokenClientError) in
            guard charge(true) else { throw TokenClientError(.busy, in: .introspect) }
            return try await post(form, to: endpoint, call: .introspect, traceparent: nil, time: time)
        }
        guard let response else { throw TokenClientError(.unreachable, in: .introspect) }
        guard response.status == 200, case .object(let members)? = JSONValue(document: response.body) else {
            throw failure(.invalidResponse, in: .introspect)
        }
        return members
    }

    /// The URL where the sign-out continues at the provider (OpenID Connect RP-Initiated Logout §2).
    /// - Parameter publicURL: That of the site, to which the provider sends the browser back.
    /// - Returns: `nil` if the provider has no such endpoint or the configuration disables it.
    package func endSessionURL(_ provenance: SessionProvenance, publicURL: String) -> String? {
        guard configuration.logout.isEnabled, let endpoint = discovery.metadata?.endSessionEndpoint else { return nil }
        let parameters = [
            (name: "client_id", value: configuration.client.id),
            (name: "post_logout_redirect_uri", value: publicURL + configuration.logout.returnTo),
        ]
        if configuration.logout.sendsHint, let token = provenance.idToken {
            let hint = (name: "id_token_hint", value: String(decoding: token.bytes, as: UTF8.self))
            let url = AuthorizationRequest.url(endpoint, [hint] + parameters)
            if url.utf8.count <= Self.maxURLLength { return url }
        }
        return AuthorizationRequest.url(endpoint, parameters)
    }
}

extension IdentityConfiguration {
    /// Whether the metadata and keys that were fetched with another configuration are valid for this one too: they are
    /// of the same issuer at the same address, over connections with the same trust roots, and for the same algorithms.
    fileprivate func trustsDocuments(of other: IdentityConfiguration) -> Bool {
        issuer.utf8.elementsEqual(other.issuer.utf8) && endpoints == other.endpoints && caFile == other.caFile
            && algorithms == other.algorithms
    }
}

// MARK: - Calls

extension OpenIDProvider {
    /// The metadata. Waits for the first ones, for one fetch at most; see ``ProviderKeys/prepare(until:for:)``.
    func metadata(
        for call: TokenClientError.Operation, until deadline: ContinuousClock.Instant? = nil, of client: RateKey? = nil
    ) async throws(TokenClientError) -> ProviderMetadata {
        if let metadata = discovery.metadata { return metadata }
        _ = await keys.prepare(until: deadline, for: client)
        guard let metadata = discovery.metadata else { throw TokenClientError(.unreachable, in: call) }
        return metadata
    }

    /// Sends a form with the authentication of the client, and reads the response of a success.
    /// - Parameters:
    ///   - isSingle: Whether the call is sent once at most, on a connection of its own.
    ///   - time: The time limit; `nil` for the configured one.
    func post(
        _ form: [(name: String, value: String)], to endpoint: EndpointURL, isSingle: Bool = false,
        call: TokenClientError.Operation, traceparent: String?, time: Duration? = nil
    ) async throws(TokenClientError) -> IdentityTransport.Response {
        try await send(
            "POST", endpoint, credentials(form), isSingle: isSingle, call: call,
            traceparent: traceparent, time: time)
    }

    /// Sends a call, and reads the response of a success.
    func send(
        _ method: String, _ endpoint: EndpointURL, _ credentials: RequestCredentials, isSingle: Bool = false,
        call: TokenClientError.Operation, traceparent: String?, time: Duration? = nil
    ) async throws(TokenClientError) -> IdentityTransport.Response {
        let response: IdentityTransport.Response
        do {
            response = try await transport.send(
                method, endpoint, credentials, call: call, isSingle: isSingle, traceparent: traceparent,
                timeout: time ?? timeout)
        } catch {
            throw failure(error.kind, in: call)
        }
        guard response.isSuccess else { throw failure(RejectedCall.kind(ofProvider: response), in: call) }
        return response
    }

    /// Reports an invalid lifetime of an access token, once.
    func noteInvalidLifetime() {
        if !hasInvalidLifetime.exchange(true, ordering: .relaxed) { report(.invalidLifetime) }
    }

    /// The error of a call. A rejected response is reported. However a provider is unavailable, the same follows:
    /// `unreachable`.
    func failure(_ kind: TokenClientError.Kind, in call: TokenClientError.Operation) -> TokenClientError {
        switch kind {
        case .failed(let defect): report(.rejected(defect, in: call))
        case .unreachable, .timedOut, .busy: return TokenClientError(.unreachable, in: call)
        case .rejected, .denied, .misconfigured: break
        }
        return TokenClientError(kind, in: call)
    }

    /// A form with the authentication of the client (OpenID Connect Core §9).
    func credentials(_ form: [(name: String, value: String)]) -> RequestCredentials {
        let client = configuration.client
        // No parameter may appear twice (RFC 6749 §3.2).
        let id = form.contains { $0.name == "client_id" } ? [] : [(name: "client_id", value: client.id)]
        func body(_ form: [(name: String, value: String)]) -> (RequestCredentials.MediaType, Secret) {
            (.form, Secret(FormEncoding.encode(form)))
        }
        return switch client.authentication {
        case .basic(let secret):
            RequestCredentials(
                authorization: RequestCredentials.basic(clientID: client.id, secret: secret), body: body(form))
        case .post(let secret):
            RequestCredentials(
                body: body(form + [(name: "client_secret", value: String(decoding: secret.bytes, as: UTF8.self))] + id))
        // The id is unnecessary, but permitted (RFC 7521 §4.2). Some providers do not read it from the assertion.
        case .privateKey: RequestCredentials(body: body(form + id), assertion: signer)
        }
    }
}
