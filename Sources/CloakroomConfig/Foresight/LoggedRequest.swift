import CloakroomCore
import CloakroomWire

/// What a line of the access log states about a request and its decision.
struct LoggedRequest {
    /// Of the decisions in the log, those that routes, hosts and sessions lead to, and rejections before.
    enum Decision: String {
        case forwarded, `public`, unauthenticated, forbidden, local, redirected, file, misdirected, undecided
        case csrfRejected = "csrf_rejected"
        case rateLimited = "rate_limited"
    }

    let method: String
    /// In the normal form of ``RequestTarget``.
    let path: [UInt8]
    /// Folded; `nil` without one.
    let host: String?
    /// The address of the listener; `nil` if the gateway had only one.
    let listener: String?
    /// Whether it came over TLS; `nil` if the log does not state it.
    let isSecure: Bool?
    /// Whether another proxy asked about it, which gets other statuses.
    let isAsked: Bool
    let route: String
    let decision: Decision
    let status: Int
    /// Whether the gateway reported a reason for the absence of a session.
    let hasReason: Bool
    let hasSession: Bool
    /// What of `Authorization` decided; `nil` if a cookie or nothing did.
    let credential: Credential?
    let upstream: String?
    /// `nil` for ``path``.
    let sentPath: [UInt8]?
    /// The path, and the host with its port.
    private let names: (path: String, authority: String)

    /// For readers: method, host and path.
    var title: String { "\(method.shortened) \(names.authority)\(names.path)".escaped }

    /// Whether a listener that redirects to https responded, in place of a route.
    var isOfRedirectingListener: Bool {
        decision == .redirected && route == Self.unmatched || decision == .undecided && status == 403
    }

    /// The route of requests without one.
    static let unmatched = "(unmatched)"

    /// The reason why a line is not replayed.
    enum Defect: Error {
        /// No line of an access log, or not all of one.
        case foreign
        /// A line of the log about something else.
        case event
        /// The request was rejected before it had a path, or the path is not in the log completely.
        case incomplete
    }

    /// The length from which a path may be truncated in the log.
    private static let loggedPath = 1_024

    init(line: [UInt8]) throws(Defect) {
        guard case .object(let members)? = JSONValue(document: line), case .string(let logger)? = members["logger"]
        else { throw .foreign }
        guard logger == "access" else { throw .event }
        let text = { (name: JSONMemberName) -> String? in
            if case .string(let text)? = members[name] { text } else { nil }
        }
        guard let method = text("method"), let route = text("route"), let path = text("path"),
            case .number(let status)? = members["status"], let status = Int(exactly: status),
            let decision = text("decision").flatMap(Decision.init)
        else { throw .foreign }
        (self.method, self.route, self.status, self.decision) = (method, route, status, decision)
        let sent = text("sent_path")
        guard path.utf8.count < Self.loggedPath, (sent ?? "").utf8.count < Self.loggedPath, method != "CONNECT" else {
            throw .incomplete
        }
        let bytes = Array(path.utf8)
        var normal: [UInt8] = []
        guard let target = try? RequestTarget.parse(bytes.span, scratch: &normal), !target.isAsterisk,
            target.path.count == bytes.count
        else { throw .incomplete }
        self.path = target.isPathRewritten ? normal : bytes
        let authority = text("host")
        host = authority.flatMap { HostNames.folded($0) }
        guard authority == nil || host != nil else { throw .incomplete }
        (listener, isAsked) = (text("listener"), members["decided_for"] != nil)
        isSecure = text("scheme").map { $0 == "https" }
        (upstream, sentPath) = (text("upstream"), sent.map { Array($0.utf8) })
        hasReason = members["unauthorized_reason"] != nil
        hasSession = members["session"] != nil
        credential = text("credential").map {
            ["bearer", "dpop"].contains($0) ? .token : $0 == "basic" ? .basic : .unverified
        }
        names = (path, authority ?? "")
    }
}

extension String {
    /// At most 256 bytes of it. Lines of a log are from elsewhere, and may be long.
    var shortened: String { utf8.count <= 256 ? self : String(decoding: utf8.prefix(253), as: UTF8.self) + "…" }
}
