public import CloakroomCore
import CloakroomTelemetry
import CloakroomWire
import Logging

/// `POST /sessions/revoke`: ends the sessions of a user, or one session.
///
/// The request has `Authorization: Bearer` with the admin token and a JSON object: `user`, the e-mail address or name
/// entered at sign-in or the upstream's user id; `issuer` and `subject`, the account of a user at an OpenID Provider;
/// or `session`, the 16 digits shown in logs. The response is `{"ended": n}`, or a problem document (RFC 9457). Wrong
/// tokens are limited per address and in total: 429 with `Retry-After`. A cross-origin browser request is rejected,
/// with or without a token.
public struct RevokeSessionsHandler: Sendable {
    static let path = "/sessions/revoke"
    /// The maximum body size in bytes: an address of 254 bytes fits with any escaping.
    private static let bodyLimit = 1_024

    /// The check of the token, also for pages that require it.
    let tokens: AdminTokenCheck
    let rejections = RejectionLog()
    private let sessions: any SessionRevoking
    private let now: @Sendable () -> SessionTime
    private let nameKind: @Sendable () -> AccountNameKind

    /// - Parameters:
    ///   - token: The admin token; an empty one rejects all requests.
    ///   - sessions: Ends the sessions.
    ///   - nameKind: Returns the kind of the names that users sign in with.
    ///   - now: Returns the session time.
    public init(
        token: Secret, sessions: any SessionRevoking, nameKind: @escaping @Sendable () -> AccountNameKind = { .email },
        now: @escaping @Sendable () -> SessionTime
    ) {
        tokens = AdminTokenCheck(token, rejections: rejections, now: now)
        self.sessions = sessions
        self.nameKind = nameKind
        self.now = now
    }

    func respond(_ request: AdminRequest, logger: Logger) async -> AdminResponse {
        guard !Self.isFromBrowser(request) else {
            rejections.note(.page, peer: request.peer, now: now(), logger: logger)
            return .problem(.crossSite, "Browser requests are not allowed: omit Origin and Sec-Fetch-Site.")
        }
        if let rejection = tokens.rejectionOfAction(request, logger: logger) { return rejection }
        guard Self.isJSON(request.values(.contentType)) else {
            return .problem(.unsupportedMediaType, "Send Content-Type: application/json.")
        }
        guard request.body.count <= Self.bodyLimit else {
            return .problem(.contentTooLarge, "The body is larger than \(Self.bodyLimit) bytes.")
        }
        do {
            let origin = AuditContext(peer: request.peer)
            let ended =
                switch try RevocationRequest(json: request.body) {
                case .user(let text): try await revoke(text, from: origin)
                case .account(let issuer, let subject):
                    try await sessions.revoke(
                        user: AccountName(issuer: issuer, subject: subject), from: origin, now: now())
                case .session(let id): try await sessions.revoke(session: id, from: origin, now: now())
                }
            return .json(200, ["ended": ended])
        } catch let error as RevocationRequest.InputError {
            return .problem(error.isMalformed ? .badRequest : .invalidInput, error.detail)
        } catch {
            logger.error("revocation failed: session store unreachable")
            return .problem(.storeUnavailable, "The session store is unreachable. Try again.", ("Retry-After", "5"))
        }
    }

    /// Ends the sessions of a user, identified by the address or name entered at sign-in or by the upstream's user id.
    /// An address is never an id. If a name is also the id of another user, the sessions of both end: an operator who
    /// ends too few would believe that a user is signed out.
    private func revoke(_ user: String, from origin: AuditContext) async throws -> Int {
        let byID = try await sessions.revoke(userID: user, from: origin, now: now())
        let account: AccountName
        switch nameKind() {
        case .email:
            guard user.contains("@") else { return byID }
            account = AccountName(email: user)
        case .text: account = AccountName(text: user)
        }
        return byID + (try await sessions.revoke(user: account, from: origin, now: now()))
    }

    /// Browsers send `Origin` with every POST (Fetch standard, "append a request `Origin` header"). Operators' tools
    /// send neither field; `none` is a request initiated by the user.
    private static func isFromBrowser(_ request: AdminRequest) -> Bool {
        !request.values(.origin).isEmpty || request.values(.secFetchSite).contains { $0 != "none" }
    }

    private static func isJSON(_ contentTypes: [String]) -> Bool {
        guard contentTypes.count == 1, let type = contentTypes.first?.prefix(while: { $0 != ";" }) else { return false }
        return type.filter { $0 != " " && $0 != "\t" }.lowercased() == "application/json"
    }
}

/// The sessions that an operator wants to end.
package enum RevocationRequest: Equatable {
    /// All sessions of an account, identified by the e-mail address entered at sign-in or the upstream's user id.
    case user(String)
    /// All sessions of an account at an OpenID Provider. Both parts are compared byte by byte.
    case account(issuer: String, subject: String)
    /// One session of any account.
    case session(SessionID)

    /// The error of a request. Contains nothing from the request.
    package struct InputError: Error, Equatable {
        /// Whether the body cannot be parsed (400); otherwise its content is invalid (422).
        let isMalformed: Bool
        let detail: String
    }

    /// Parses a JSON object with `user` or `session`, or with `issuer` and `subject`, and no other member.
    package init(json: [UInt8]) throws(InputError) {
        guard let document = JSONValue(document: json) else { throw Self.notJSON }
        // Further members could request more than the endpoint does.
        guard case .object(let members) = document else { throw Self.unclear }
        func text(_ name: JSONMemberName) -> String? {
            if case .string(let text)? = members[name] { text } else { nil }
        }
        if members.count == 2, let issuer = text("issuer"), let subject = text("subject") {
            guard (1...512).contains(issuer.utf8.count), (1...255).contains(subject.utf8.count) else {
                throw InputError(
                    isMalformed: false, detail: "issuer and subject must be iss and sub of the user's tokens.")
            }
            self = .account(issuer: issuer, subject: subject)
            return
        }
        guard members.count == 1 else { throw Self.unclear }
        if let user = text("user") {
            guard (1...255).contains(user.utf8.count) else {
                throw InputError(
                    isMalformed: false,
                    detail: "user must be the e-mail address entered at sign-in, or the upstream's user id.")
            }
            self = .user(user)
        } else if let session = text("session") {
            guard let id = SessionID(session) else {
                throw InputError(isMalformed: false, detail: "session must be the 16 hexadecimal digits shown in logs.")
            }
            self = .session(id)
        } else {
            throw Self.unclear
        }
    }

    private static let notJSON = InputError(isMalformed: true, detail: "The body is not JSON, or repeats a member.")
    private static let unclear = InputError(
        isMalformed: false,
        detail: #"Send {"user": "e-mail or user id"}, {"issuer": "iss", "subject": "sub"} or "#
            + #"{"session": "16 hexadecimal digits"}, nothing else."#)
}
