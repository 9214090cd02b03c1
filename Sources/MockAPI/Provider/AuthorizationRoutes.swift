import NIOHTTP1

/// The endpoints that browsers visit: authorization (OpenID Connect Core §3.1.2) and end_session (RP-Initiated Logout §2).
struct AuthorizationRoutes {
    let state: ProviderState

    var routes: RouteTable {
        [
            "GET /authorize": { request in try await state.respond(.authorization) { authorize(request.query ?? "") } },
            "GET /end_session": { request in try await state.respond(.endSession) { endSession(request.query ?? "") } },
        ]
    }

    private func authorize(_ query: String) -> MockResponse {
        guard let form = TokenForm(text: query), form["client_id"] == state.settings.clientID else {
            return Self.page("The request is invalid.", .badRequest)
        }
        var parameters = form.parameters
        if let reference = form["request_uri"] {
            guard let pushed = state.pulled(reference) else {
                return Self.page("The request_uri is invalid.", .badRequest)
            }
            parameters = pushed
        }
        guard let redirectURI = parameters["redirect_uri"], isRegistered(redirectURI) else {
            return Self.page("The redirect_uri is invalid.", .badRequest)
        }
        let script = state.script
        var callback = RawObject()
        if let problem = Self.problem(of: parameters) ?? script.denial {
            callback["error"] = problem
            callback["error_description"] = "description of the provider"
        } else {
            callback["code"] = state.signIn(parameters)
        }
        callback["state"] = parameters["state"]
        callback["iss"] = state.issuer
        let separator = redirectURI.contains("?") ? "&" : "?"
        let location = redirectURI + separator + callback.applying(script.callback).query
        if script.asksUser {
            let link = location.replacing("&", with: "&amp;").replacing("\"", with: "&quot;")
            return Self.page(#"<a id="continue" href="\#(link)">Continue as \#(script.subject)</a>"#)
        }
        return Self.redirect(to: location)
    }

    private func isRegistered(_ redirectURI: String) -> Bool {
        state.settings.redirectURIs.isEmpty || state.settings.redirectURIs.contains(redirectURI)
    }

    /// The error code of an invalid request (RFC 6749 §4.1.2.1, RFC 7636 §4.4.1).
    private static func problem(of parameters: [String: String]) -> String? {
        if parameters["response_type"] != "code" { return "unsupported_response_type" }
        let scopes = parameters["scope"]?.split(separator: " ") ?? []
        if !scopes.contains("openid") { return "invalid_scope" }
        let hasChallenge = parameters["code_challenge"]?.utf8.count == 43
        return hasChallenge && parameters["code_challenge_method"] == "S256" ? nil : "invalid_request"
    }

    /// Returns to the client, if it is known where.
    private func endSession(_ query: String) -> MockResponse {
        guard let form = TokenForm(text: query) else { return Self.page("The request is invalid.", .badRequest) }
        guard let target = form["post_logout_redirect_uri"] else { return Self.page("Signed out.") }
        guard let value = form["state"] else { return Self.redirect(to: target) }
        return Self.redirect(to: target + (target.contains("?") ? "&" : "?") + "state=" + FormText.encode(value))
    }

    private static func redirect(to location: String) -> MockResponse {
        MockResponse(.seeOther, ["Location": location, "Cache-Control": "no-store"])
    }

    private static func page(_ markup: String, _ status: HTTPResponseStatus = .ok) -> MockResponse {
        MockResponse(
            status, ["Content-Type": "text/html; charset=utf-8", "Cache-Control": "no-store"],
            text: "<!doctype html><title>Provider</title>\(markup)")
    }
}
