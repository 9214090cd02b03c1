/// The cause and the remedy for each reason of a rejected or failed request. Both are texts of Troubleshooting.md without
/// their markup; a test compares them.
enum RejectionAdvice {
    typealias Advice = (cause: String, remedy: String)

    /// - Parameter reasons: The most specific first.
    static func of(_ reasons: [String]) -> (reason: String, advice: Advice) {
        for reason in reasons { if let advice = table[reason] { return (reason, advice) } }
        return (reasons.first ?? "", ("Not known", "Search the log for the request id"))
    }

    /// By reasons of a 401, errors of the access log, and codes of error documents.
    static let table: [String: Advice] = Dictionary(
        rows.split(separator: "\n").flatMap { row in
            let cells = row.split(separator: " | ").map(String.init)
            return cells[0].split(separator: ", ").map { (String($0), (cause: cells[1], remedy: cells[2])) }
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
        invalid_token | The access token is not valid for the route | Search the log for bearer_rejected
        insufficient_scope | The access token lacks a scope that the route requires | Request a token with the scope
        device_required | The route requires a session that is bound to a device | Compare bound in GET /auth/sessions with session.device.mode
        https_required | The listener only redirects to https | Send the request to https
        expectation_failed, not_implemented, version_not_supported | The request uses what the gateway does not support | Correct the client
        session_ended | The session has ended | The client connects again, after a sign-in
        stream_lifetime, draining, route_changed | stream.lifetime is over, the gateway stops, or the route was changed | The client connects again
        internal_error | An error of the gateway | Report it with the lines of the log
        """
}
