package import CloakroomCore

/// Tokens: from a code, from a refresh token, and for other audiences.
extension OpenIDProvider {
    /// The maximum time that a sign-out or a new sign-in waits for the revocation of tokens, and before that for the
    /// first metadata.
    private static let revokeTimeout = Duration.seconds(2)
    /// The time after a code call in which keys and the user can be fetched.
    private static let completionTime = Duration.seconds(5)
    /// The time after a refresh call in which keys can be fetched. The lease ends two seconds later, in which the
    /// session has to be saved.
    private static let refreshKeyTime = Duration.seconds(3)
    /// The maximum time that fetching the user may delay the next refresh of a session: the lease is held meanwhile.
    private static let userTimeout = Duration.seconds(3)

    /// Exchanges the code of a callback for tokens: once, on a connection of its own, because a provider revokes the tokens
    /// of a code that it sees twice (RFC 6749 §4.1.2). Verifies the ID token, and fetches the user's data if configured.
    ///
    /// The calls together take no longer than one call and five seconds.
    ///
    /// Tokens that were issued by then and cannot be used are not revoked: some providers would end their own session of
    /// the browser with them, and an earlier session here may belong to it. They expire by themselves.
    /// - Parameters:
    ///   - login: The login of the callback, which is marked as used.
    ///   - redirectURI: As in the authorization request.
    ///   - needsAuthenticationTime: Whether the request contained `max_age`.
    /// - Throws: ``TokenClientError``.
    package func redeem(
        code: Secret, login: PendingLogin, redirectURI: String, needsAuthenticationTime: Bool, traceparent: String?,
        now: WallTime
    ) async throws(TokenClientError) -> ProviderSignIn {
        let deadline = ContinuousClock.now + timeout + Self.completionTime
        let metadata = try await metadata(for: .code, until: deadline)
        // Without keys the code would be spent for nothing.
        guard await keys.prepare(until: deadline) else { throw TokenClientError(.unreachable, in: .code) }
        let form = CodeExchange.form(code: code, login: login, redirectURI: redirectURI)
        let response = try await post(
            form, to: metadata.tokenEndpoint, isSingle: true, call: .code, traceparent: traceparent,
            time: min(timeout, deadline - .now))
        guard let issued = IssuedTokens(response.body, now: now, onInvalidLifetime: noteInvalidLifetime) else {
            throw failure(.invalidResponse, in: .code)
        }
        guard let text = issued.idToken else { throw failure(.failed(.noIDToken), in: .code) }
        let idToken = try await verify(text, in: .code, until: deadline) {
            [clock] (rules, token) throws(TokenRejection) in
            try rules.check(
                token,
                of: IDTokenRules.SignIn(
                    nonce: Secret(login.nonceText), startedAt: login.startedAt,
                    requiresAuthenticationTime: needsAuthenticationTime, accessToken: issued.accessToken),
                now: clock())
        }
        let claims = try await claims(idToken, issued.tokens, metadata, traceparent: traceparent, until: deadline)
        let provenance = SessionProvenance(
            identity: configuration.name, issuer: configuration.issuer, subject: idToken.subject,
            providerSession: idToken.sessionID, authenticatedAt: idToken.authenticatedAt, acr: idToken.contextClass,
            nonceHash: idToken.nonceHash ?? [], claims: claims, idToken: keepsIDToken ? text : nil)
        return ProviderSignIn(
            tokens: issued.tokens, provenance: provenance,
            user: UserProfile(json: UserDocument.empty, account: provenance.account), endsBy: issued.endsBy)
    }

    /// Users do not sign in to a provider with credentials.
    package func signIn(
        _ credentials: Credentials, traceparent: String?, now: WallTime
    ) async throws(TokenClientError) -> SignInResult {
        throw TokenClientError(.invalidResponse, in: .signIn)
    }

    /// Exchanges a session's refresh token for new tokens (RFC 6749 §6, OpenID Connect Core §12). The call is sent once at
    /// most, on a connection of its own.
    ///
    /// The wait for metadata and keys and the call take no longer than one call together, and keys for the response
    /// three seconds more, because the lease on the session ends soon after.
    ///
    /// A 400 or 401 with a code of ``IdentityConfiguration/endsOn`` rejects the refresh token, and so does an ID token of
    /// another user: its access token may be of that user too. Another ID token that is invalid discards the whole
    /// response. An ID token whose key cannot be fetched in time counts as absent.
    /// - Throws: ``TokenClientError``.
    package func refresh(
        _ session: Session, traceparent: String?, now: WallTime
    ) async throws(TokenClientError) -> SessionUpdate {
        guard let provenance = session.provenance, let refreshToken = session.tokens.refreshToken else {
            throw TokenClientError(.invalidResponse, in: .refresh)
        }
        let deadline = ContinuousClock.now + timeout
        // Without keys an ID token of the response could not be verified, and the refresh token would be spent.
        guard let endpoint = try? await metadata(for: .refresh, until: deadline).tokenEndpoint,
            await keys.prepare(until: deadline),
            deadline - .now > timeout / 4
        else { throw TokenClientError(.unreachable, in: .refresh, isUnjudged: true) }
        let response = try await sendRefresh(
            refreshToken, to: endpoint, traceparent: traceparent, time: deadline - .now)
        guard let issued = IssuedTokens(response.body, now: now, onInvalidLifetime: noteInvalidLifetime) else {
            throw failure(.invalidResponse, in: .refresh)
        }
        var tokens = issued.tokens
        tokens.refreshToken = tokens.refreshToken ?? refreshToken
        let updated = try await updated(
            provenance, with: issued, tokens, until: deadline + Self.refreshKeyTime)
        return SessionUpdate(
            tokens: tokens, provenance: updated == provenance ? nil : updated, endsBy: issued.endsBy)
    }

    /// Requests a refresh with a token that the provider has not issued, for `cloakroom doctor`. A provider authenticates the
    /// client before it validates the token (RFC 6749 §6): `invalid_client` means that it rejects the client, `invalid_grant`
    /// that it accepts it.
    /// - Throws: ``TokenClientError``, in any case but a success.
    package func probeClient() async throws(TokenClientError) {
        let endpoint = try await metadata(for: .refresh).tokenEndpoint
        _ = try await sendRefresh(Secret("cloakroom-doctor"), to: endpoint, traceparent: nil, time: timeout)
    }

    /// Fetches the user's data from the provider again if they come from there, within three seconds.
    /// - Throws: ``TokenClientError``; the session then keeps its claims, except for kind `rejected`: data of another
    ///   `sub` end it, because the access token with which they were fetched may be of that user too.
    package func updatedUser(
        of session: Session, replacing previous: TokenSet, traceparent: String?
    ) async throws(TokenClientError) -> SessionUpdate? {
        guard configuration.userSource == .userInfo, var provenance = session.provenance,
            let endpoint = discovery.metadata?.userInfoEndpoint
        else { return nil }
        do throws(TokenClientError) {
            let user = try await userInfo(
                endpoint, session.tokens, subject: provenance.subject, traceparent: traceparent,
                time: min(timeout, Self.userTimeout))
            provenance.claims = select(from: user, without: session.tokens, previous, in: .user)
        } catch {
            throw error.kind == .failed(.otherSubject) ? TokenClientError(.rejected, in: .user) : error
        }
        return SessionUpdate(provenance: provenance)
    }

    /// Revokes the refresh token, or the access token if there is none (RFC 7009 §2.1), within two seconds. Waits up to
    /// two seconds more for the first metadata. Does nothing if the provider has no endpoint for it.
    /// - Throws: ``TokenClientError`` unless the provider responded with success, which an invalid token is too (§2.2).
    package func revoke(_ tokens: TokenSet, traceparent: String?) async throws(TokenClientError) {
        let deadline = ContinuousClock.now + Self.revokeTimeout
        guard let metadata = try? await metadata(for: .revoke, until: deadline) else {
            throw TokenClientError(.unreachable, in: .revoke)
        }
        guard let endpoint = metadata.revocationEndpoint else { return }
        let token = tokens.refreshToken ?? tokens.accessToken
        let form = [
            (name: "token", value: String(decoding: token.bytes, as: UTF8.self)),
            (name: "token_type_hint", value: tokens.refreshToken == nil ? "access_token" : "refresh_token"),
        ]
        _ = try await post(
            form, to: endpoint, call: .revoke, traceparent: traceparent, time: min(timeout, Self.revokeTimeout))
    }

    /// Exchanges a session's access token for one of an upstream (RFC 8693 §2.1). A refresh token in the response is
    /// discarded.
    /// - Parameter upstream: The index of an upstream in ``IdentityConfiguration/exchanges``.
    /// - Throws: ``TokenClientError``; `denied` if the provider rejects the access token or the target.
    package func exchange(
        _ session: Session, for upstream: Int, traceparent: String?
    ) async throws(TokenClientError) -> ExchangedToken {
        guard let exchange = configuration.exchanges.first(where: { $0.upstream == upstream }) else {
            throw TokenClientError(.misconfigured(.requestRejected), in: .exchange)
        }
        let metadata = try await metadata(for: .exchange)
        var parameters = [
            (name: "grant_type", value: "urn:ietf:params:oauth:grant-type:token-exchange"),
            (name: "subject_token", value: String(decoding: session.tokens.accessToken.bytes, as: UTF8.self)),
            (name: "subject_token_type", value: Self.accessTokenType),
            (name: "requested_token_type", value: Self.accessTokenType),
        ]
        if let audience = exchange.audience { parameters.append((name: "audience", value: audience)) }
        if let resource = exchange.resource { parameters.append((name: "resource", value: resource)) }
        if let scope = exchange.scope { parameters.append((name: "scope", value: scope)) }
        let response = try await post(
            parameters, to: metadata.tokenEndpoint, call: .exchange, traceparent: traceparent)
        let now = clock()
        guard let issued = IssuedTokens(response.body, now: now, onInvalidLifetime: noteInvalidLifetime) else {
            throw failure(.invalidResponse, in: .exchange)
        }
        guard TokenClaims.isSame(issued.issuedTokenType ?? "", Self.accessTokenType) else {
            throw failure(.failed(.otherTokenType), in: .exchange)
        }
        return ExchangedToken(
            authorization: issued.tokens.authorization, expiresAt: issued.tokens.accessTokenExpiresAt, issuedAt: now)
    }

    /// The identifier of an access token (RFC 8693 §3).
    private static let accessTokenType = "urn:ietf:params:oauth:token-type:access_token"

    // MARK: - ID tokens and claims

    private var keepsIDToken: Bool { configuration.logout.isEnabled && configuration.logout.sendsHint }

    private func verify(
        _ token: Secret, in call: TokenClientError.Operation, until deadline: ContinuousClock.Instant,
        _ check: @escaping @Sendable (IDTokenRules, VerifiedToken) throws(TokenRejection) -> IDToken
    ) async throws(TokenClientError) -> IDToken {
        do throws(TokenClientError) {
            return try await keys.verify(token.bytes, from: .tokenEndpoint, until: deadline) {
                [identity] (verified) throws(TokenRejection) in
                try check(IDTokenRules(provider: identity), verified)
            }
        } catch {
            throw failure(error.kind, in: call)
        }
    }

    /// The claims that a new session keeps.
    private func claims(
        _ idToken: IDToken, _ tokens: TokenSet, _ metadata: ProviderMetadata, traceparent: String?,
        until deadline: ContinuousClock.Instant
    ) async throws(TokenClientError) -> [UInt8] {
        var claims = idToken.claims
        if configuration.userSource == .userInfo {
            guard let endpoint = metadata.userInfoEndpoint else {
                throw TokenClientError(.misconfigured(.notFound), in: .user)
            }
            claims = try await userInfo(
                endpoint, tokens, subject: idToken.subject, traceparent: traceparent,
                time: min(timeout, deadline - .now))
        }
        do throws(ResponseDefect) {
            return try KeptClaims.select(from: claims, configuration.keep, without: tokens)
        } catch {
            throw failure(.failed(error), in: configuration.userSource == .userInfo ? .user : .code)
        }
    }

    /// The user's data (OpenID Connect Core §5.3). Signed or encrypted responses are not supported.
    private func userInfo(
        _ endpoint: EndpointURL, _ tokens: TokenSet, subject: String, traceparent: String?, time: Duration
    ) async throws(TokenClientError) -> [JSONMemberName: JSONValue] {
        let response: IdentityTransport.Response
        do {
            response = try await send(
                "GET", endpoint, .accessToken(tokens), call: .user, traceparent: traceparent, time: time)
        } catch {
            // The token was issued just before: a rejection contradicts the provider's own response.
            guard error.kind != .unreachable else { throw error }
            throw failure(.invalidResponse, in: .user)
        }
        guard response.status == 200, case .object(let claims)? = JSONValue(document: response.body) else {
            throw failure(.invalidResponse, in: .user)
        }
        // Without this comparison the data could be those of another user (§5.3.2).
        guard case .string(let found)? = claims["sub"], found.utf8.elementsEqual(subject.utf8) else {
            throw failure(.failed(.otherSubject), in: .user)
        }
        return claims
    }

    /// The claims that an existing session keeps. Claims that are too large for that are none: the session continues with
    /// fewer rights, not with those of earlier claims.
    private func select(
        from claims: [JSONMemberName: JSONValue], without tokens: TokenSet, _ others: TokenSet?,
        in call: TokenClientError.Operation
    ) -> [UInt8] {
        do throws(ResponseDefect) {
            let document = try KeptClaims.select(from: claims, configuration.keep, without: tokens)
            if let others, UserDocument.contains(others, in: document) { throw ResponseDefect.invalidResponse }
            return document
        } catch {
            report(.rejected(error, in: call))
            return KeptClaims.none
        }
    }

    // MARK: - Refresh

    private func sendRefresh(
        _ token: Secret, to endpoint: EndpointURL, traceparent: String?, time: Duration
    ) async throws(TokenClientError) -> IdentityTransport.Response {
        let form = [
            (name: "grant_type", value: "refresh_token"),
            (name: "refresh_token", value: String(decoding: token.bytes, as: UTF8.self)),
        ]
        let response = try await transport.send(
            "POST", endpoint, credentials(form), call: .refresh, isSingle: true,
            traceparent: traceparent, timeout: time)
        guard !response.isSuccess else { return response }
        let rules = RejectedCall.Rules(
            IdentityEndpointConfiguration(path: "/", credentials: .oauth, endsOn: Set(configuration.endsOn)),
            of: .refresh)
        let kind = RejectedCall.kind(
            status: response.status, body: response.body, isWhole: response.isWhole, rules: rules)
        throw TokenClientError(kind, in: .refresh, isUnjudged: response.status >= 500)
    }

    /// What the provider states with a refresh (OpenID Connect Core §12.2). The time and the nonce of the authentication
    /// stay those of the sign-in.
    /// - Parameter tokens: The tokens of a session with this response.
    private func updated(
        _ provenance: SessionProvenance, with issued: IssuedTokens, _ tokens: TokenSet,
        until deadline: ContinuousClock.Instant
    ) async throws(TokenClientError) -> SessionProvenance {
        guard let text = issued.idToken else { return provenance }
        let idToken: IDToken
        do {
            idToken = try await verify(text, in: .refresh, until: deadline) {
                [clock] (rules, token) throws(TokenRejection) in
                try rules.check(
                    token,
                    of: IDTokenRules.Refresh(
                        subject: provenance.subject, authenticatedAt: provenance.authenticatedAt,
                        nonceHash: provenance.nonceHash, accessToken: issued.accessToken),
                    now: clock())
            }
        } catch {
            switch error.kind {
            // Without its key, nothing in the token counts, as if the provider had sent none. The other tokens count: the
            // previous refresh token is spent, so that discarding its successor would end the session.
            case .unreachable: return provenance
            case .failed(.token(let rejection)) where rejection.suggestsOtherKeys: return provenance
            case .failed(.token(.otherSubject)): throw TokenClientError(.rejected, in: .refresh, foreign: tokens)
            default: throw TokenClientError(.invalidResponse, in: .refresh)
            }
        }
        var updated = provenance
        updated.acr = idToken.contextClass ?? provenance.acr
        if keepsIDToken { updated.idToken = text }
        if configuration.userSource == .idToken {
            updated.claims = select(from: idToken.claims, without: issued.tokens, nil, in: .refresh)
        }
        return updated
    }
}
