/// An endpoint of the gateway itself.
///
/// Folder `Accounts/`: the gateway's own endpoints, the account that a session belongs to, and when sign-in attempts
/// are delayed. `AccountEndpointHandler` and `TokenClient` are implemented by `CloakroomIdentity`.
public enum AccountEndpoint: Sendable, Hashable, CaseIterable {
    /// `POST` to the accounts prefix.
    case signIn
    /// `GET` of the accounts prefix.
    case currentSession
    /// `DELETE` of the accounts prefix.
    case signOut
    /// `GET` of `sessions` under the accounts prefix.
    case listSessions
    /// `DELETE` of `sessions` under the accounts prefix.
    case endOtherSessions
    /// `DELETE` of `sessions/{id}` under the accounts prefix.
    case endSession
    /// `GET` of `page` under the accounts prefix: the page to sign in with.
    case page
    /// `POST` to `page` under the accounts prefix: the form of that page.
    case pageSignIn
    /// `GET` of `login` under the accounts prefix: begins a login at a provider.
    case login
    /// `GET` of `callback`, or `callback/{identity}` with several identities: a browser returns from a provider.
    case callback
    /// `GET` of `logout` under the accounts prefix: continues a sign-out at its provider.
    case logout
    /// `POST` to `backchannel`, or `backchannel/{identity}`: a provider reports a logout.
    case backChannel
    /// `POST` to `app` under the accounts prefix: a native app begins a login.
    case app
    /// `POST` to `app/code`: a native app completes it.
    case appCode
    /// `GET` of `keys` under the accounts prefix: the keys that verify assertions.
    case keys
    /// `POST` to `device`: a client registers the key of its device, or proves that it has it.
    case device

    /// The maximum size of a request body in bytes.
    public var bodyLimit: Int {
        // Sufficient for an address of 254 bytes and a long passphrase, every byte of them percent-encoded.
        switch self {
        case .signIn: 1_024
        case .app: 2_048
        case .pageSignIn: 4_096
        case .appCode: 8_192
        case .backChannel: 16_384
        default: 0
        }
    }

    /// Whether the endpoint reads and removes the cookies of logins and sign-outs in progress.
    public var readsLoginCookies: Bool { [.login, .callback, .logout, .appCode].contains(self) }

    /// Whether browsers request the endpoint by navigating to it: with a link, a form or a redirect, none of which can
    /// add a field to the request.
    public var isNavigation: Bool {
        switch self {
        case .page, .pageSignIn, .login, .callback, .logout: true
        default: false
        }
    }
}

/// The origin of a request as recorded in the audit log.
public struct AuditContext: Sendable, Equatable {
    /// The peer's address without port.
    public var peer: String
    /// The request id that error responses contain: 32 hexadecimal digits.
    public var requestID: String
    /// The app of the session, or the one that signs in; `nil` for none.
    public var app: String?
    /// Whether the session is bound to a key of its device.
    public var isBound = false

    package init(peer: String = "", requestID: String = "") {
        self.peer = peer
        self.requestID = requestID
    }

    /// The same origin, of an event about a session.
    package func about(_ session: Session) -> Self {
        var context = self
        (context.app, context.isBound) = (session.app, session.isBoundToDevice)
        return context
    }
}

/// A request for one of the gateway's own endpoints, reduced to the parts that they need.
public struct AccountRequest: Sendable {
    /// The requested endpoint.
    public var endpoint: AccountEndpoint
    /// The last path segment, for endpoints with a name there.
    public var name: String?
    /// The query without its question mark.
    public var query: [UInt8]
    /// The cookies whose names begin with ``CookieConfiguration/loginPrefix``; empty unless
    /// ``AccountEndpoint/readsLoginCookies``.
    public var loginCookies: [ReceivedCookie]
    /// The fields by which navigations are recognized.
    public var fetchMetadata: FetchMetadata
    /// The value of `User-Agent`; `nil` if absent.
    public var userAgent: String?
    /// The ticket of the session cookie; `nil` unless there is exactly one well-formed ticket.
    public var ticket: SessionTicket?
    /// The tickets whose sessions a sign-out or a sign-in ends: ``ticket``, or, of a request whose session cookies are
    /// ambiguous, the well-formed ones; see ``SessionCookie/tickets(_:)``.
    public var endingTickets: [SessionTicket]
    /// The value of `Authorization`; `nil` if absent.
    public var authorization: Secret?
    /// The value of `Content-Type`; `nil` if absent.
    public var contentType: String?
    /// The body; may contain a password.
    public var body: Secret
    /// The trace context for calls upstream, as a `traceparent` value.
    public var traceparent: String?
    /// When the request was received completely, in session time.
    public var now: SessionTime
    /// When the request was received, in wall-clock time, which upstreams use for token expiry.
    public var wallTime: WallTime
    /// The client of the request, for the audit log.
    public var origin: AuditContext
    /// The group of the request's host in ``RouteTable``.
    public var routeGroup = 0
    /// Index of the site of the host in ``GatewayConfiguration/sites``.
    public var site = 0
    /// The proof that the client has the key of its device, and its fields at ``AccountEndpoint/device``.
    public var device = DeviceFields()

    package init(
        endpoint: AccountEndpoint, name: String? = nil, query: [UInt8] = [], loginCookies: [ReceivedCookie] = [],
        fetchMetadata: FetchMetadata = FetchMetadata(isGET: false), userAgent: String? = nil,
        ticket: SessionTicket? = nil,
        authorization: Secret? = nil, contentType: String? = nil,
        body: Secret = Secret(bytes: []), traceparent: String? = nil, now: SessionTime,
        wallTime: WallTime? = nil, origin: AuditContext = AuditContext()
    ) {
        self.endpoint = endpoint
        self.name = name
        self.query = query
        self.loginCookies = loginCookies
        self.fetchMetadata = fetchMetadata
        self.userAgent = userAgent
        self.ticket = ticket
        if let ticket { endingTickets = [ticket] } else { endingTickets = [] }
        self.authorization = authorization
        self.contentType = contentType
        self.body = body
        self.traceparent = traceparent
        self.now = now
        self.wallTime = wallTime ?? now.wallTime
        self.origin = origin
    }
}

/// The response of one of the gateway's own endpoints.
public struct AccountResponse: Sendable, Equatable {
    /// The content of the body.
    public enum Content: Sendable, Equatable {
        /// An empty body.
        case none
        /// A JSON document, UTF-8.
        case json([UInt8])
        /// An HTML document, UTF-8, and the problem that it reports to the user; `nil` for none.
        case html([UInt8], problem: Problem? = nil)
        /// A problem document; its status takes precedence over that of the response.
        case problem(Problem)
    }

    /// The status, unless the content is a problem.
    public var status: Int
    /// Fields other than `Content-Type`, `Content-Length` and `Cache-Control`.
    public var fields: [Field]
    /// The value of `Cache-Control`, unless the content is a problem.
    public var cacheControl = "no-store"
    /// The body.
    public var content: Content
    /// The step and the reason of a failed login at a provider, for `cloakroom why`: constant words. Never sent.
    package var loginFailure: String?

    /// A header field. Printing or reflecting it shows only the name: the value of `Set-Cookie` is a ticket.
    public struct Field: Sendable, Equatable, CustomStringConvertible, CustomReflectable {
        /// The name.
        public var name: String
        /// The value, without control characters.
        public var value: String

        package init(_ name: String, _ value: String) {
            self.name = name
            self.value = value
        }

        /// The name, and `<redacted>` for the value.
        public var description: String { "\(name): <redacted>" }
        /// Has no children.
        public var customMirror: Mirror { Mirror(self, children: []) }
    }

    package init(status: Int, fields: [Field] = [], content: Content = .none) {
        self.status = status
        self.fields = fields
        self.content = content
    }

    /// The problem that the response reports, in a problem document or a page; `nil` for none.
    public var problem: Problem? {
        switch content {
        case .problem(let problem), .html(_, let problem?): problem
        case .html(_, nil), .json, .none: nil
        }
    }

    package init(_ problem: Problem, fields: [Field] = []) {
        self.init(status: problem.status, fields: fields, content: .problem(problem))
    }
}

/// Responds to requests for the gateway's own endpoints. It may wait for an upstream or a store, so it is called off
/// the event loops. It never throws: every failure has a response.
public protocol AccountEndpointHandler: Sendable {
    /// Responds to a request.
    func respond(_ request: AccountRequest) async -> AccountResponse
}

/// Ends sessions on behalf of an operator.
public protocol SessionRevoking: Sendable {
    /// Ends all sessions of an account, and those that were signed in to under its name.
    /// - Returns: The number of sessions that were ended.
    func revoke(user account: AccountName, from origin: AuditContext, now: SessionTime)
        async throws(SessionStoreError) -> Int
    /// Ends all sessions of the account with a user id of the upstream.
    /// - Returns: The number of sessions that were ended.
    func revoke(userID id: String, from origin: AuditContext, now: SessionTime)
        async throws(SessionStoreError) -> Int
    /// Ends one session of any user.
    /// - Returns: 1, or 0 if there was none.
    func revoke(session id: SessionID, from origin: AuditContext, now: SessionTime)
        async throws(SessionStoreError) -> Int
}

/// Where at the gateway a browser continues that needs to sign in, or to authenticate again.
public struct LoginLinks: Sendable {
    /// The maximum length of the address to which the browser returns in bytes. With a longer one it continues at
    /// ``LoginConfiguration/returnTo``.
    package static let maxReturnTarget = 384

    private let signInPath: String
    private let loginPath: String

    package init(_ accounts: AccountsConfiguration) {
        signInPath = accounts.signInPath
        loginPath = accounts.prefix + "/login"
    }

    /// The address to sign in at.
    /// - Parameter target: Path and query of the request, to which the browser returns; `nil` if it cannot.
    public func signIn(returnTo target: [UInt8]?) -> String { link(signInPath, [], returnTo: target) }

    /// The address to authenticate at as a route requires.
    /// - Parameters:
    ///   - route: The name of the route.
    ///   - target: Path and query of the request; `nil` if the client selects where to continue.
    public func stepUp(for route: String, returnTo target: [UInt8]? = nil) -> String {
        link(loginPath, [("for", route)], returnTo: target)
    }

    /// The endpoint parses the target like that of a request, so nothing is checked here.
    private func link(_ path: String, _ pairs: [(name: String, value: String)], returnTo target: [UInt8]?) -> String {
        var pairs = pairs
        if let target, target.count <= Self.maxReturnTarget {
            pairs.append(("returnTo", String(decoding: target, as: UTF8.self)))
        }
        return pairs.isEmpty ? path : path + "?" + FormEncoding.encode(pairs)
    }
}
