import CloakroomCore

/// The cause and the remedy for each reason of a rejected or failed request. Both are texts of Troubleshooting.md without
/// their markup; a test compares them.
enum RejectionAdvice {
    typealias Advice = (cause: String, remedy: String)

    /// - Parameter reasons: The most specific first.
    static func of(_ reasons: [String]) -> (reason: String, advice: Advice) {
        for reason in reasons { if let advice = table[reason] { return (reason, advice) } }
        return (reasons.first ?? "", ("Not known", "Search the log for the request id"))
    }

    /// The steps of a sign-in at a provider.
    static let loginSteps = [
        "start": "its start, before the provider", "discovery": "the provider's metadata",
        "keys": "the provider's keys",
        "push": "the pushed request", "callback": "the return from the provider", "code": "the token response",
        "user": "UserInfo",
    ]

    /// The keys of a failed sign-in at a provider, the most specific first.
    static func loginReasons(_ code: String, _ reason: String) -> [String] {
        // Of a claim or a code, which the reason may name, there is one row for all.
        let general = reason.firstIndex(of: ":").map { reason[..<$0] + ":" } ?? ""
        let isToken = TokenRejection(rawValue: reason) != nil
        return ["\(code) \(reason)", "\(code) \(general)", isToken ? "\(code) token" : code]
    }

    /// By reasons of a 401, errors of the access log, and codes of error documents. Of a sign-in at a provider, by code and
    /// reason.
    static let table: [String: Advice] = Dictionary(
        rows.split(separator: "\n").flatMap { row in
            let cells = row.split(separator: " | ").map(String.init)
            let words = cells[0].split(separator: " = ")
            let code = words.count == 2 ? words[0] + " " : ""
            return words[words.count - 1].split(separator: ", ").map {
                ("\(code)\($0)", (cause: cells[1], remedy: cells[2]))
            }
        }
    ) { first, _ in first }

    private static let rows = """
        no_session | The client did not send the cookie, or no session has it | Compare the Cookie that the client sends with that of the sign-in
        expired_idle | The session was not used for session.idleTimeout | Sign in again, or set a longer session.idleTimeout
        expired_absolute | session.absoluteTimeout; or a session without a refresh token, whose access token has expired | Sign in again, or set a longer session.absoluteTimeout
        revoked | Ended by the user or an operator | Search the log for sign_out_others, sessions_revoked and sessions_evicted
        refresh_rejected | The upstream or the provider rejected the refresh | Search the log for refresh_rejected
        unproven | The session is bound to a device, and the request has no proof of it | Search the log for device_unproven and device_rejected
        invalid_credentials | The upstream rejected the name or the password | Repeat the call directly with curl
        upstream_unreachable | No connection to the upstream: connection refused, name not resolved, or TLS handshake failed | Search the log for upstream connection failed; the line has error_type and reason
        upstream_reset | The upstream closed the connection before the response head was complete | Read the upstream's own log
        upstream_invalid_response | The response is not HTTP, or is ambiguous | Send the request directly to the upstream with curl
        upstream_timeout | No connection within timeouts.connect, no response head within timeouts.responseHead, or the deadline of the route has passed | Compare the upstream's response time with responseHeadTimeout and deadline of the route
        invalid_response | The sign-in response has no token at the path signIn.accessToken | Compare signIn and user of the upstream with the event identity_call_failed
        identity_misconfigured | The upstream or the provider rejects the gateway's own call | Search the log for identity_misconfigured
        identity_call_failed | The call of the sign-in did not reach the upstream, or got no response in time | Search the log for identity_call_failed
        refresh_failed | The session's access token has expired and the refresh failed | Search the log for refresh_failed
        overloaded | No connection to the upstream became free in time, no target is in use, or the route has too many requests in flight | Check cause of cloakroom_upstream_rejected_total
        store_unavailable | The session store is unavailable | The log and the status page state the reason
        step_up | The route requires another or a more recent authentication | Navigate to login of the document
        login_expired, login_refused, login_failed, step_up_failed, identity_unavailable | a sign-in at a provider failed | The event login in the log has the outcome and the reason
        missing_claim | The user lacks the claim, or the provider does not put it into the ID token | GET /auth shows those of the user
        wrong_identity | The session is of an identity whose tokens the route's upstream does not get | Sign in at another identity, or add the upstream to tokensFor of this one
        cross_site | The browser reports that the request comes from another site | list it in csrf.trustedOrigins, or in cors.origins if it also reads responses
        not_found | No route serves the request: there is none, a stricter one may be meant, or the path is that of a call with tokens | Ask explain which of these it is
        no_file | The folder of the route has no such file, or files.names excludes it | Compare the path with the files in files.root of the route
        method_not_allowed | No route with the path serves the method | Add the method to a route with the path
        misdirected | No route or listener serves the host | Write the host in hosts of the listener or of a route
        bad_request | The target, the host or the message is malformed | Search the log for malformed request rejected, or ask explain
        content_too_large | The body is larger than its limit | Check limits.body or bodyLimit of the route
        target_too_long | The target is larger than half of limits.head | Send a shorter target, or raise limits.head
        header_fields_too_large | The head is larger than limits.head, or has more than limits.fields fields | Delete cookies of other applications on the host, or raise the limit
        unsupported_media_type | The body of a sign-in is neither JSON nor a form | Send it as application/json
        invalid_input | The name or the password of a sign-in is missing or invalid | Compare it with accounts.name
        throttled | Too many sign-in attempts | Wait for Retry-After. If all clients get 429, list your load balancer in trustedProxies
        too_many_requests | One address or session has too many requests in flight | Check limits.inFlightPerAddress and limits.inFlightPerSession; list your load balancer in trustedProxies
        rate_limited | A rate limit is exceeded | Compare the limit that the step rule names with explain
        request_timeout, client_too_slow | The client sends or reads more slowly than limits.minimumRate | cloakroom_slow_clients_total counts such clients
        invalid_dpop_proof | The client did not prove that it has the key of its access token | Search the log for bearer_rejected
        use_dpop_nonce | The proof of the key of the access token needs the nonce of the response | None, unless it follows each request: then the client ignores DPoP-Nonce
        invalid_token | The access token is not valid for the route | Search the log for bearer_rejected or bearer_own_token
        insufficient_scope | The access token lacks a scope that the route requires | Request a token with the scope
        device_required | The route requires a session that is bound to a device | Compare bound in GET /auth/sessions with session.device.mode
        https_required | The listener only redirects to https | Send the request to https
        expectation_failed, not_implemented, version_not_supported | The request uses what the gateway does not support | Correct the client
        session_ended | The session has ended | The client connects again, after a sign-in
        stream_lifetime, draining, route_changed | stream.lifetime is over, the gateway stops, or the route was changed | The client connects again
        internal_error | An error of the gateway | Report it with the lines of the log
        bad_request = malformed_callback | The callback has a parameter twice, both a code and an error, none of them, or is too long | Usually a scanner
        login_expired = no_pending_login | The browser has no login cookie for the state. The login took longer than 10 minutes, or was replaced by a further one (a browser has at most three). Or it began on another host name than accounts.publicURL, or in another browser. Or session.secrets differ over replicas | Begin again. If it fails always, open accounts.publicURL
        login_expired = used | The callback was loaded a second time: reload, back button, or a link preview | None needed; the user is signed in already
        login_expired = app_token_invalid | The URL that an app opened is older than 10 minutes, was changed, or its app or identity was removed or renamed | The app begins anew
        login_expired = app_code_invalid, app_removed | The code of an app is older than 60 s or was changed, or its app or identity was removed | The app redeems the code at once
        login_expired = other_client | The code came from a client without the cookie of the login | One HTTP client with cookies for both requests
        login_refused = access_denied, login_required, interaction_required, consent_required, account_selection_required | The user cancelled, or the provider denies this user or client | The provider's own log; assign the user to the application
        login_refused = logged_out | The provider reported a sign-out of this user while the login was in progress | None needed; the user can sign in again
        step_up_failed = step_up, unmet_authentication_requirements | The provider ignored acr_values or max_age, cannot satisfy them, or sends no acr or auth_time; or the route does not exist since a reload | Configure the authentication contexts at the provider
        step_up_failed = other_user | Another user signed in than the one of the session. The session continues | The user signs out first
        login_failed = issuer_mismatch, issuer_missing | The callback names another issuer, or none although the metadata announces it | Copy issuer from the metadata
        login_failed = issuer_missing: | The callback names no issuer although the metadata announces it, but has this error code. Some providers omit iss in errors | Report it to the provider's developers
        login_failed = other_identity | The callback of one provider was called for a login of another, or the issuer was changed during the login | Register the redirect URI with the name: /auth/callback/NAME
        login_failed = invalid_request, invalid_scope, unauthorized_client, unsupported_response_type, request_not_supported, invalid_client, invalid_target, unsupported_grant_type, invalid_request_object, invalid_request_uri, request_uri_not_supported, registration_not_supported | The provider rejected the authorization request | scopes and parameters; grant types and redirect URI of the client at the provider
        login_failed = invalid_grant | The provider rejected the code: it was too old, or used already | The lifetime of codes at the provider; the clocks
        login_failed = provider_error | The provider, or a page that calls the callback, sent a code that is not registered | The provider's own log
        login_failed = token | The ID token is not valid | Most often the clocks (clockSkew), client.id, or algorithms
        login_failed = invalid_response, no_id_token | The token response is not JSON, too large, or has no ID token | openid among scopes; a proxy between gateway and provider
        login_failed = claims_too_large | The claims to keep exceed keep.bytes | Keep fewer claims
        login_failed = unsupported_claim: | The claim in a field for an upstream is an object, a list without join or with a list in it, or a number that is a fraction or not below 2^53 | Set join, change the claim at the provider (a number to a text), or remove the field from claimHeaders
        login_failed = session_too_short | The provider's refresh_expires_in is less than 10 seconds | The lifetime of its sessions or refresh tokens
        login_failed = other_subject | UserInfo describes another user than the ID token | A cache in front of the provider's UserInfo endpoint
        identity_misconfigured = invalid_client, unauthorized_client | The token endpoint rejects the client | client.id, the secret and its method
        identity_misconfigured = unsupported_grant_type, invalid_scope, invalid_request, not_found, forbidden, request_refused | The provider rejects the gateway's request, or lacks an endpoint that the configuration requires | The client's grant types and scopes at the provider; a firewall in front of it
        identity_misconfigured = token_too_short | The provider issued no refresh token, and an access token that is valid for less than 10 seconds | The lifetime of access tokens at the provider, or a refresh token: often the scope offline_access and the grant type of the client
        identity_misconfigured = login_too_long | The name of the identity or the route has more than 64 bytes | Shorten it
        identity_unavailable = push_unavailable, provider_not_ready, discovery_unavailable | The metadata or the keys of the provider were never fetched, or its endpoint for pushed requests is unreachable | The status page has the last failure of each provider
        identity_unavailable = code_unavailable, user_unavailable, keys_unavailable | The token endpoint, the userinfo endpoint or the keys are unreachable, do not respond in time, or respond with 5xx | The provider's own log
        identity_unavailable = temporarily_unavailable, server_error | The provider reports so in the callback | The provider's own log
        store_unavailable = store_unavailable | The session store is unavailable. If the callback was already loaded, the code is unused: reloading the page usually completes the login | The log and the status page state the reason
        overloaded = store_full | The store is full | session.maxSessions, or the server's maxmemory
        throttled = throttled | Too many failed logins from one address; the code was not used | Wait for Retry-After
        """
}
