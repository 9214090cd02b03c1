import CloakroomCore

/// The sign-in page. See ``SignInPage``.
extension AccountController {
    /// Responds with the page. If the browser has a session, the page links to where it continues.
    func signInPage(_ request: AccountRequest) async -> AccountResponse {
        guard let page else { return problem(.notFound) }
        var visit = page.visit(request)
        guard request.ticket != nil else { return page.response(visit) }
        let status = await withSession(of: request) { _ in AccountResponse(status: 204) }
        if let problem = status.problem {
            // An unavailable store signs no users out, and a page without a message would look as if it did.
            return page.response(visit, problem: problem.code == .unauthorized ? nil : problem)
        }
        visit.isSignedIn = true
        return page.response(visit)
    }

    /// Signs in with the form of the page: continues where the visit began, or shows the page again.
    func signInWithPage(_ request: AccountRequest) async -> AccountResponse {
        guard let page else { return problem(.notFound) }
        let visit = page.visit(request)
        var attempt = request
        // A browser adds this field by itself if a page of the host once asked for it.
        attempt.authorization = nil
        let response = await signIn(attempt)
        guard let problem = response.problem else { return page.continuation(visit, after: response) }
        return page.response(visit, problem: problem)
    }

    /// The `Set-Cookie` field of a new session, and the one with which it may be bound to a device.
    /// - Parameters:
    ///   - isRequested: Whether the sign-in requests a persistent cookie.
    ///   - now: The time of the response, in session time.
    func sessionFields(
        _ ticket: SessionTicket, of session: Session, isRequested: Bool, for request: AccountRequest, now: SessionTime
    ) -> [AccountResponse.Field] {
        let maxAge = self.session.cookie.maxAge(isRequested: isRequested, sessionEnd: session.expiresAt, now: now)
        var fields = [AccountResponse.Field("Set-Cookie", cookie.setCookieValue(ticket, maxAge: maxAge))]
        if let devices, devices.configuration.mode(of: session) != .off,
            let offer = devices.offer(
                for: ticket, isReadable: !request.fetchMetadata.hidesResponse, now: session.createdAt.wallTime)
        {
            let value = "(ES256);path=\"\(devicePath)\";challenge=\"\(offer)\""
            fields.append(AccountResponse.Field("Secure-Session-Registration", value))
        }
        return fields
    }
}
