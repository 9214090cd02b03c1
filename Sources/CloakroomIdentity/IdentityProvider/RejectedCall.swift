import CloakroomCore

/// Classifies an upstream's unsuccessful response to an identity call.
///
/// Only three conditions concern the credential: a code that the call lists, by default the OAuth code `invalid_grant`
/// (RFC 6749 §5.2); a status that the call lists; and, for a sign-in, a 2xx response without the configured sign of
/// success, unless it is a page. All others concern the gateway's configuration or the upstream's condition, and must
/// neither reject a password nor end a session: a wrong client secret would otherwise sign all users out.
enum RejectedCall {
    /// Statuses that reject a sign-in, unless the configuration lists others.
    static let signInStatuses: Set<Int> = [400, 401, 403, 422]
    /// Statuses that reject a refresh token, unless the configuration lists others.
    static let refreshStatuses: Set<Int> = [401]
    /// The statuses of OAuth's error responses (RFC 6749 §5.2).
    fileprivate static let oauthStatuses: Set<Int> = [400, 401]

    /// What rejects the credential of a call.
    struct Rules: Sendable {
        /// Whether the call is a sign-in: it can reject a password, and never ends a session.
        var isSignIn = false
        /// Whether the upstream's errors have codes (RFC 6749 §5.2), so that a truncated error means nothing.
        var isTokenEndpoint = false
        /// The statuses that reject the credential if the response has no known code.
        var statuses: Set<Int> = []
        /// The codes that reject it.
        var codes: Set<String> = IdentityEndpointConfiguration.usualEndingCodes
        /// The statuses with which ``codes`` apply; `nil` is all 4xx.
        var codeStatuses: Set<Int>?
        /// Whether only a complete body rejects it: an incomplete one might have named another cause.
        var needsBody = false
        /// The path of the code in the body.
        var codePath = "error"
    }

    /// The kind of failure.
    /// - Parameters:
    ///   - body: The response's body; may have any content.
    ///   - isWhole: Whether the body is complete.
    static func kind(status: Int, body: [UInt8], isWhole: Bool = true, rules: Rules) -> TokenClientError.Kind {
        if status >= 500 { return .unreachable }
        guard (400...499).contains(status) else { return .invalidResponse }
        if let code = code(body, at: rules.codePath) {
            if rules.codes.contains(code), rules.codeStatuses?.contains(status) ?? true { return .rejected }
            if let reason = IdentityMisconfiguration(oauthCode: code) { return .misconfigured(reason) }
        }
        if rules.statuses.contains(status) { return rules.needsBody && !isWhole ? .invalidResponse : .rejected }
        switch status {
        case 408, 425, 429: return .busy
        case 403: return .misconfigured(.forbidden)
        case 404: return .misconfigured(.notFound)
        default: return rules.isTokenEndpoint && !isWhole ? .invalidResponse : .misconfigured(.requestRejected)
        }
    }

    /// The kind of failure of a provider's unsuccessful response (RFC 6749 §5.2). Codes that do not concern the gateway's
    /// configuration are `denied`.
    static func kind(ofProvider response: IdentityTransport.Response) -> TokenClientError.Kind {
        if (400...499).contains(response.status), let code = code(response.body),
            IdentityMisconfiguration(oauthCode: code) == nil
        {
            return .denied(printable(code))
        }
        return kind(
            status: response.status, body: response.body, isWhole: response.isWhole,
            rules: Rules(isTokenEndpoint: true, codes: []))
    }

    /// An error code of OAuth consists of these characters in practice; anything else is no code but a text of the
    /// provider.
    private static func printable(_ code: String) -> String {
        let isCode = code.utf8.allSatisfy { byte in
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"): true
            default: false
            }
        }
        return isCode && !code.isEmpty ? code : "other"
    }

    /// The kind of failure of a 2xx response without the configured sign of success.
    static func kind(unsuccessful body: [UInt8], rules: Rules) -> TokenClientError.Kind {
        if let code = code(body, at: rules.codePath) {
            if rules.codes.contains(code) { return .rejected }
            if let reason = IdentityMisconfiguration(oauthCode: code) { return .misconfigured(reason) }
        }
        guard rules.isSignIn else { return .misconfigured(.requestRejected) }
        // A page, in most cases that of a login, is the response at a wrong path or of a proxy in between.
        let isPage = body.first { ![0x09, 0x0a, 0x0d, 0x20].contains($0) } == UInt8(ascii: "<")
        return isPage ? .invalidResponse : .rejected
    }

    /// The error code in a JSON body. Other dialects put a sentence or a code of their own there.
    static func code(_ body: [UInt8], at path: String = "error") -> String? {
        guard !body.isEmpty, case .string(let code) = JSONValue(document: body)?[path: path], code.utf8.count <= 64
        else { return nil }
        return code
    }
}

extension RejectedCall.Rules {
    /// The rules of a call. Calls other than sign-in and refresh reject nothing by their status.
    init(_ configuration: IdentityEndpointConfiguration, of call: TokenClientError.Operation) {
        let isOAuth = configuration.credentials == .oauth
        codePath = configuration.errorCode
        isTokenEndpoint = isOAuth
        switch call {
        case .signIn:
            isSignIn = true
            statuses = configuration.rejectedStatuses ?? (isOAuth ? [] : RejectedCall.signInStatuses)
        case .refresh:
            needsBody = true
            let endsOn = configuration.endsOn ?? IdentityEndpointConfiguration.usualEndingCodes
            codes = endsOn.subtracting([IdentityEndpointConfiguration.any400])
            if isOAuth { codeStatuses = RejectedCall.oauthStatuses }
            statuses = configuration.rejectedStatuses ?? (isOAuth ? [] : RejectedCall.refreshStatuses)
            if endsOn.contains(IdentityEndpointConfiguration.any400) { statuses.formUnion(RejectedCall.oauthStatuses) }
        // Only data of another user reject a session, see ``TokenClient``.
        case .user: codes = []
        case .revoke, .discovery, .keys, .push, .code, .exchange, .introspect: break
        }
    }
}

extension IdentityEndpointConfiguration.SuccessMember {
    /// Whether the body of a 2xx response has the value.
    func accepts(body: [UInt8]) -> Bool {
        switch JSONValue(document: body)?[path: path] {
        case .string(let text): return text.utf8.elementsEqual(value.utf8)
        case .bool(let flag): return value == (flag ? "true" : "false")
        case .number(let number): return Double(value) == number
        case .null, .array, .object, nil: return false
        }
    }
}
