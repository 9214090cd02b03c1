import CloakroomCore

/// Judges an upstream's response to an identity call that is no success.
///
/// Only two things are about the credential: the OAuth code `invalid_grant` (RFC 6749 §5.2), and a status that the
/// call's plan lists. Everything else is about the gateway's configuration or the upstream's condition, and must
/// neither call a password wrong nor end a session.
enum RejectedCall {
    /// Statuses by which a sign-in is rejected, unless the plan has its own.
    static let signInStatuses: Set<Int> = [400, 401, 403, 422]
    /// Statuses by which a refresh token is rejected, unless the plan has its own.
    static let refreshStatuses: Set<Int> = [401]

    /// The kind of failure.
    /// - Parameters:
    ///   - body: The response's body; may be anything.
    ///   - needsBody: Whether the status alone rejects nothing, because the body did not come whole: it might have said
    ///     that something else is wrong.
    ///   - rejected: The statuses that reject the credential.
    static func kind(
        status: Int, body: [UInt8], needsBody: Bool = false, rejected: Set<Int>
    ) -> TokenClientError.Kind {
        if status >= 500 { return .unreachable }
        guard (400...499).contains(status) else { return .invalidResponse }
        switch oauthCode(body) {
        case "invalid_grant": return .rejected
        case let code?:
            if let reason = IdentityMisconfiguration(oauthCode: code) { return .misconfigured(reason) }
        case nil: break
        }
        if rejected.contains(status) { return needsBody ? .invalidResponse : .rejected }
        switch status {
        case 408, 425, 429: return .busy
        case 403: return .misconfigured(.forbidden)
        case 404: return .misconfigured(.notFound)
        default: return .misconfigured(.requestRejected)
        }
    }

    /// The member `error` of a JSON object. Other dialects have a sentence there, or a word of their own.
    private static func oauthCode(_ body: [UInt8]) -> String? {
        guard !body.isEmpty, case .string(let code) = JSONValue(document: body)?[path: "error"], code.utf8.count <= 64
        else { return nil }
        return code
    }
}
