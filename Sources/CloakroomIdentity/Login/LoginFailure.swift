package import CloakroomCore

/// Why a login did not create a session. The client gets the problem; the log gets the reason. Nothing that the
/// provider wrote is shown to a user.
package struct LoginFailure: Error, Sendable, Equatable {
    /// The reason, for the log: a constant word.
    package enum Reason: String, Sendable, CaseIterable {
        /// The query of the callback is invalid.
        case malformedCallback = "malformed_callback"
        /// The browser has no login cookie for the state: another browser, a used or an expired login.
        case noPendingLogin = "no_pending_login"
        /// The code of an app's login came from another client than the one that began it last.
        case otherClient = "other_client"
        /// The login was already used.
        case used
        /// The cookie is of another identity, or the issuer of the identity has changed.
        case otherIdentity = "other_identity"
        /// The response names another issuer (RFC 9207 §2.4).
        case issuerMismatch = "issuer_mismatch"
        /// The provider announces `iss` in its responses, and this one has none (RFC 9207 §2.4).
        case issuerMissing = "issuer_missing"
        /// The user or the provider denied the login.
        case denied
        /// The provider could not be called.
        case unavailable
        /// The provider is temporarily unavailable, as the browser states. Any client can state it.
        case declined = "provider_declined"
        /// The metadata or the keys of the provider could not be fetched yet.
        case notReady = "provider_not_ready"
        /// The provider rejected the gateway's request.
        case providerError = "provider_error"
        /// The user did not authenticate as the route requires.
        case stepUp = "step_up"
        /// Another user returned than the one who has to authenticate again.
        case otherUser = "other_user"
        /// A response of the provider, or a token in it, is rejected.
        case invalidResponse = "invalid_response"
        /// The configuration of the gateway does not match the provider.
        case misconfigured
        /// The provider reported a logout of the user during the login.
        case loggedOut = "logged_out"
        /// Too many attempts from the address.
        case throttled
        case storeUnavailable = "store_unavailable"
        /// The limit of sessions is reached.
        case storeFull = "store_full"
    }

    package let reason: Reason
    /// The error code of the provider; `nil` if there is none. It is never logged as it is: see ``logged``.
    package let providerCode: String?
    /// A constant word that is more specific than the reason; `nil` for none.
    private let detail: String?
    /// Seconds after which another attempt is reasonable; `nil` for unknown.
    package let retryAfter: Int?
    /// The call that failed; `nil` if the gateway itself rejected the login.
    private(set) var call: TokenClientError.Operation?

    package init(_ reason: Reason, providerCode: String? = nil, detail: String? = nil, retryAfter: Int? = nil) {
        self.reason = reason
        self.providerCode = providerCode
        self.detail = detail
        self.retryAfter = retryAfter
    }

    package init(_ error: SessionStoreError) {
        self.init(
            error.kind == .full ? .storeFull : .storeUnavailable, retryAfter: AccountController.retryAfter)
    }

    /// The failure of a call to the provider.
    package init(_ error: TokenClientError) {
        switch error.kind {
        case .unreachable, .timedOut, .busy:
            self.init(
                .unavailable, detail: "\(error.call.rawValue)_unavailable", retryAfter: AccountController.retryAfter)
        case .failed(let defect): self.init(.invalidResponse, detail: defect.name)
        case .denied(let code): self.init(.providerError, providerCode: code)
        case .rejected: self.init(.providerError)
        case .misconfigured(let reason): self.init(.misconfigured, detail: reason.rawValue)
        }
        call = error.call
    }

    static func store<Result: Sendable>(
        _ call: @autoclosure () async throws(SessionStoreError) -> Result
    ) async throws(LoginFailure) -> Result {
        do throws(SessionStoreError) {
            return try await call()
        } catch {
            throw LoginFailure(error)
        }
    }

    /// The reason for the log: a constant word, or the provider's error code if it is a registered one. Any page can
    /// send a browser to the callback with any code, so others are not logged.
    package var logged: String {
        if let providerCode, Self.registeredCodes.contains(providerCode) { return providerCode }
        return detail ?? reason.rawValue
    }

    /// OAuth Extensions Error Registry (RFC 6749 §11.4), the codes of authorization and token responses.
    package static let registeredCodes: Set<String> = [
        "access_denied", "account_selection_required", "consent_required", "interaction_required", "invalid_client",
        "invalid_grant", "invalid_request", "invalid_request_object", "invalid_request_uri", "invalid_scope",
        "invalid_target", "login_required", "registration_not_supported", "request_not_supported",
        "request_uri_not_supported", "server_error", "temporarily_unavailable", "unauthorized_client",
        "unmet_authentication_requirements", "unsupported_grant_type", "unsupported_response_type",
    ]

    /// Whether the browser has no cookie of the login.
    var isUnknownLogin: Bool { reason == .noPendingLogin && detail == nil }

    /// Whether a reload of the callback may complete the login, if its code was not spent.
    package var isTemporary: Bool { [.throttled, .storeUnavailable, .notReady].contains(reason) }

    /// Whether the failure counts against the address of the client, if its code was not spent: only what a browser that
    /// follows the rules does not send. Errors that the provider states have other causes; they count as attempts.
    var countsAsAttempt: Bool { [.otherIdentity, .issuerMismatch, .otherClient].contains(reason) }

    /// The response, and the outcome for metrics.
    package var effects: (code: ProblemCode, outcome: AccountEvent.LoginOutcome) {
        switch reason {
        case .malformedCallback: (.badRequest, .invalid)
        case .noPendingLogin, .otherClient, .used: (.loginExpired, .expired)
        case .otherIdentity, .issuerMismatch, .issuerMissing, .providerError, .invalidResponse: (.loginFailed, .failed)
        case .denied: (.loginRefused, .denied)
        case .loggedOut: (.loginRefused, .loggedOut)
        case .unavailable, .notReady: (.identityUnavailable, .unavailable)
        case .declined: (.identityUnavailable, .denied)
        case .stepUp, .otherUser: (.stepUpFailed, .stepUpFailed)
        case .misconfigured: (.identityMisconfigured, .misconfigured)
        case .throttled: (.throttled, .throttled)
        case .storeUnavailable: (.storeUnavailable, .storeError)
        case .storeFull: (.overloaded, .storeError)
        }
    }

    /// Whether the provider would have to show a page to the user, which `prompt=none` excludes (OpenID Connect Core
    /// §3.1.2.6).
    var requiresPage: Bool {
        let codes = ["login_required", "interaction_required", "consent_required", "account_selection_required"]
        return reason == .denied && providerCode.map { codes.contains($0) } == true
    }

    /// The failure for an error code of a provider (RFC 6749 §4.1.2.1, OpenID Connect Core §3.1.2.6, OpenID Connect
    /// Unmet Authentication Requirements 1.0).
    package init(providerCode: String) {
        switch providerCode {
        case "access_denied", "login_required", "interaction_required", "consent_required",
            "account_selection_required":
            self.init(.denied, providerCode: providerCode)
        case "temporarily_unavailable", "server_error": self.init(.declined, providerCode: providerCode)
        case "unmet_authentication_requirements": self.init(.stepUp, providerCode: providerCode)
        default: self.init(.providerError, providerCode: providerCode)
        }
    }
}

/// Decides about a callback before its code is sent to any server.
package enum CallbackCheck {
    /// What is known about the identity whose callback was requested.
    package struct Expectation: Sendable, Equatable {
        /// The name of the identity that the callback's path belongs to.
        package var identity: String
        package var issuer: String
        /// Whether the provider announces `iss` in its responses (RFC 9207 §3).
        package var announcesIssuer: Bool
    }

    /// Checks a callback against the login it belongs to.
    ///
    /// The issuer is checked before the outcome, so errors of another provider are rejected too.
    /// - Parameter login: The login of the state; `nil` if the browser has none.
    /// - Returns: The code. It may be sent to the token endpoint of this identity only, and only after the login was
    ///   marked as used.
    package static func code(
        of query: CallbackQuery, login: PendingLogin?, expecting expected: Expectation
    ) throws(LoginFailure) -> Secret {
        guard let login else { throw LoginFailure(.noPendingLogin) }
        guard login.identity == expected.identity, login.issuerHash == PendingLogin.hash(ofIssuer: expected.issuer)
        else { throw LoginFailure(.otherIdentity) }
        if let issuer = query.issuer {
            // Simple string comparison (RFC 9207 §2.4): by bytes, not by Unicode equivalence.
            guard issuer.utf8.elementsEqual(expected.issuer.utf8) else { throw LoginFailure(.issuerMismatch) }
        } else if expected.announcesIssuer {
            // Some providers omit it in errors only: the error is not trusted, but the operator should know it.
            guard case .error(let code) = query.outcome, LoginFailure.registeredCodes.contains(code) else {
                throw LoginFailure(.issuerMissing)
            }
            throw LoginFailure(.issuerMissing, detail: "\(LoginFailure.Reason.issuerMissing.rawValue):\(code)")
        }
        switch query.outcome {
        case .code(let code): return code
        case .error(let code): throw LoginFailure(providerCode: code)
        }
    }
}
