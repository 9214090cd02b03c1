/// An API behind the gateway.
public struct UpstreamConfiguration: Sendable, Equatable {
    /// The name that routes, logs and metrics use. Unique.
    public var name: String
    /// Where it is reached; connections go round. At least one.
    public var targets: [UpstreamTargetConfiguration]
    /// What TLS with the `https` targets needs; `nil` is the system's trust roots and no certificate of our own.
    public var tls: UpstreamTLSConfiguration?
    /// How old the addresses of a host name may get while it is in use, 1 second to 1 day.
    public var resolveInterval: Duration
    /// Whether the client's `Host` is passed on; otherwise the target's own name is sent.
    public var preserveHost: Bool
    /// The API token that routes with `inject: [apiToken]` add, and that every sign-in call carries.
    public var apiToken: APIToken?
    /// How credentials are exchanged for tokens; `nil` where nobody signs in at this upstream.
    public var signIn: IdentityEndpointConfiguration?
    /// How tokens are renewed.
    public var refresh: IdentityEndpointConfiguration?
    /// How tokens are made void at sign-out.
    public var revoke: IdentityEndpointConfiguration?
    /// How the signed-in user is fetched.
    public var user: IdentityEndpointConfiguration?
    /// The name under which sessions record that this upstream issued their tokens; see ``SessionSource``. Only of use
    /// where people sign in.
    public var sessionSource: String
    /// Limits of the connection pool.
    public var pool: PoolConfiguration

    /// Makes an upstream.
    /// - Parameter sessionSource: `nil` is the upstream's name.
    public init(
        name: String, targets: [UpstreamTargetConfiguration], tls: UpstreamTLSConfiguration? = nil,
        resolveInterval: Duration = .seconds(30), preserveHost: Bool = true, apiToken: APIToken? = nil,
        signIn: IdentityEndpointConfiguration? = nil, refresh: IdentityEndpointConfiguration? = nil,
        revoke: IdentityEndpointConfiguration? = nil,
        user: IdentityEndpointConfiguration? = nil, sessionSource: String? = nil,
        pool: PoolConfiguration = PoolConfiguration()
    ) {
        self.name = name
        self.targets = targets
        self.tls = tls
        self.resolveInterval = resolveInterval
        self.preserveHost = preserveHost
        self.apiToken = apiToken
        self.signIn = signIn
        self.refresh = refresh
        self.revoke = revoke
        self.user = user
        self.sessionSource = sessionSource ?? name
        self.pool = pool
    }
}

/// A static key that an upstream wants with every request.
public struct APIToken: Sendable, Equatable {
    /// The field's name, a token of RFC 9110 §5.6.2.
    public var header: String
    /// The field's value: visible ASCII, no line breaks.
    public var value: Secret

    /// Makes an API token.
    public init(header: String = "X-API-TOKEN", value: Secret) {
        self.header = header
        self.value = value
    }
}

/// One call to an upstream that deals in tokens: its method and path, how the credential travels, where the answer stands.
public struct IdentityEndpointConfiguration: Sendable, Equatable {
    /// How the credential is sent.
    public enum CredentialFormat: String, Sendable, Hashable, CaseIterable {
        /// `Authorization: Basic`, UTF-8 (RFC 7617).
        case basic
        /// `Authorization: Bearer` with the token that the call is about (RFC 6750).
        case bearer
        /// A JSON object: `email` and `password`, or `refreshToken`.
        case json
    }

    /// The method, upper case.
    public var method: String
    /// The path, beginning with a slash.
    public var path: String
    /// How the credential travels.
    public var credentials: CredentialFormat
    /// Where the access token stands in the JSON answer, as member names joined by dots.
    public var accessToken: String
    /// Where the refresh token stands; an answer without it is the dialect without refresh.
    public var refreshToken: String
    /// Where the access token's lifetime in seconds stands; `nil` reads `exp` of a JWT, if it is one.
    public var expiresIn: String?
    /// The statuses, 400...499, by which the upstream rejects the password or the refresh token where it gives no OAuth
    /// error code; `nil` is 400, 401, 403, 422 for a sign-in and 401 for a refresh.
    public var rejectedStatuses: Set<Int>?
    /// Where the user's id stands in the answer of a `user` call: a string or an integer. Of no use in other calls.
    public var userID: String

    /// Makes a token call.
    public init(
        method: String = "POST", path: String, credentials: CredentialFormat = .bearer,
        accessToken: String = "accessToken", refreshToken: String = "refreshToken", expiresIn: String? = nil,
        rejectedStatuses: Set<Int>? = nil, userID: String = "id"
    ) {
        self.method = method
        self.path = path
        self.credentials = credentials
        self.accessToken = accessToken
        self.refreshToken = refreshToken
        self.expiresIn = expiresIn
        self.rejectedStatuses = rejectedStatuses
        self.userID = userID
    }
}

/// Limits of the connections to one upstream, over all event loops; each loop gets its even share.
public struct PoolConfiguration: Sendable, Equatable {
    /// The most connections at a time, 1...65535.
    public var maxConnections: Int
    /// The most requests that wait for a connection, 0...1,000,000; one more is answered with 503.
    public var maxPending: Int
    /// How long a request waits for a connection before it is answered with 503.
    public var pendingTimeout: Duration
    /// How long an idle connection is kept.
    public var idleTimeout: Duration
    /// The requests after which a connection is not kept, 0...1,000,000; 0 is without limit.
    public var requestsPerConnection: Int
    /// The age after which a connection is not kept, so that new addresses come into use; zero is without limit.
    public var connectionLifetime: Duration

    /// Makes pool limits.
    public init(
        maxConnections: Int = 1_024, maxPending: Int = 1_024, pendingTimeout: Duration = .seconds(10),
        idleTimeout: Duration = .seconds(60), requestsPerConnection: Int = 0,
        connectionLifetime: Duration = .seconds(3_600)
    ) {
        self.maxConnections = maxConnections
        self.maxPending = maxPending
        self.pendingTimeout = pendingTimeout
        self.idleTimeout = idleTimeout
        self.requestsPerConnection = requestsPerConnection
        self.connectionLifetime = connectionLifetime
    }
}
