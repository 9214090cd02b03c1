import CloakroomCore

/// Classifies an upstream's unsuccessful response to an identity call.
///
/// Only two conditions concern the credential: the OAuth code `invalid_grant` (RFC 6749 §5.2), and a status that the
/// call's configuration lists. All others concern the gateway's configuration or the upstream's condition, and must
/// neither reject a password nor end a session.
enum RejectedCall {
    /// Statuses that reject a sign-in, unless the configuration lists others.
    static let signInStatuses: Set<Int> = [400, 401, 403, 422]
    /// Statuses that reject a refresh token, unless the configuration lists others.
    static let refreshStatuses: Set<Int> = [401]

    /// The kind of failure.
    /// - Parameters:
    ///   - body: The response's body; may have any content.
    ///   - needsBody: Whether the status alone does not reject the credential because the body is incomplete: it might
    ///     have named another cause.
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

    /// The member `error` of a JSON object. Other dialects put a sentence or a code of their own there.
    private static func oauthCode(_ body: [UInt8]) -> String? {
        guard !body.isEmpty, case .string(let code) = JSONValue(document: body)?[path: "error"], code.utf8.count <= 64
        else { return nil }
        return code
    }
}
