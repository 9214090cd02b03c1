/// What the gateway answers itself.
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

    /// The largest request body that the endpoint reads, in bytes.
    public var bodyLimit: Int {
        // An address of 254 bytes and a long passphrase, every byte of them percent-encoded, fit in.
        self == .signIn ? 1_024 : 0
    }
}

/// Where a request came from, as the audit log names it.
public struct AuditContext: Sendable, Equatable {
    /// The peer's address, without port.
    public var peer: String
    /// The id that the client is told in errors: 32 hexadecimal digits.
    public var requestID: String

    /// Makes an origin.
    public init(peer: String = "", requestID: String = "") {
        self.peer = peer
        self.requestID = requestID
    }
}

/// A request for one of the gateway's own endpoints, with nothing left of the wire but what they need.
public struct AccountRequest: Sendable {
    /// Which endpoint.
    public var endpoint: AccountEndpoint
    /// What stands behind the last slash of the path, where the endpoint has a name there.
    public var name: String?
    /// The value of `User-Agent`; `nil` if there was none.
    public var userAgent: String?
    /// The ticket in the request's cookie, if there was exactly one that is well formed.
    public var ticket: SessionTicket?
    /// The value of `Authorization`; `nil` if there was none.
    public var authorization: Secret?
    /// The value of `Content-Type`; `nil` if there was none.
    public var contentType: String?
    /// The body: may hold a password.
    public var body: Secret
    /// The trace context for calls upstream, as a `traceparent` value.
    public var traceparent: String?
    /// When the request came, by the time that sessions live by.
    public var now: Timestamp
    /// The same by the wall clock, which upstreams mean when they say when a token ends.
    public var wallTime: Timestamp
    /// Who sent it.
    public var origin: AuditContext

    /// Makes a request.
    public init(
        endpoint: AccountEndpoint, name: String? = nil, userAgent: String? = nil, ticket: SessionTicket? = nil,
        authorization: Secret? = nil, contentType: String? = nil,
        body: Secret = Secret(bytes: []), traceparent: String? = nil, now: Timestamp,
        wallTime: Timestamp? = nil, origin: AuditContext = AuditContext()
    ) {
        self.endpoint = endpoint
        self.name = name
        self.userAgent = userAgent
        self.ticket = ticket
        self.authorization = authorization
        self.contentType = contentType
        self.body = body
        self.traceparent = traceparent
        self.now = now
        self.wallTime = wallTime ?? now
        self.origin = origin
    }
}

/// The answer of one of the gateway's own endpoints. `Cache-Control: no-store` goes with every one of them.
public struct AccountResponse: Sendable, Equatable {
    /// What stands in the body.
    public enum Content: Sendable, Equatable {
        /// Nothing.
        case none
        /// A JSON document, UTF-8.
        case json([UInt8])
        /// A problem document; it brings its own status.
        case problem(Problem)
    }

    /// The status, unless the content is a problem.
    public var status: Int
    /// Fields besides `Content-Type`, `Content-Length` and `Cache-Control`.
    public var fields: [Field]
    /// The body.
    public var content: Content

    /// A header field. Printing or reflecting it shows the name alone: the value of `Set-Cookie` is a ticket.
    public struct Field: Sendable, Equatable, CustomStringConvertible, CustomReflectable {
        /// The name.
        public var name: String
        /// The value: no control characters.
        public var value: String

        /// Makes a field.
        public init(_ name: String, _ value: String) {
            self.name = name
            self.value = value
        }

        /// The name, and `<redacted>` for the value.
        public var description: String { "\(name): <redacted>" }
        /// Shows no child.
        public var customMirror: Mirror { Mirror(self, children: []) }
    }

    /// Makes an answer.
    public init(status: Int, fields: [Field] = [], content: Content = .none) {
        self.status = status
        self.fields = fields
        self.content = content
    }

    /// Makes an answer that is a problem.
    public init(_ problem: Problem, fields: [Field] = []) {
        self.init(status: problem.status, fields: fields, content: .problem(problem))
    }
}

/// Answers requests for the gateway's own endpoints. It may wait for an upstream or a store, so it is asked off the
/// event loops; it never throws, for whatever happens has an answer.
public protocol AccountEndpointHandler: Sendable {
    /// Answers one request.
    func respond(_ request: AccountRequest) async -> AccountResponse
}
