public import FoundationEssentials

/// The settings of a mock API. All defaults suit `cloakroom-demo`.
public struct MockAPISettings: Sendable, Redacted {
    /// The address to listen on, a name or an IP address. Default 127.0.0.1.
    public var host: String
    /// The port to listen on, 0...65535; 0 selects a free port. Default 9000.
    public var port: Int
    /// The required value of `X-API-TOKEN` in every request. Default `demo-api-token`.
    public var apiToken: String
    /// The users that can sign in. Default: jo@example.com with the password `secret`.
    public var users: [MockUser]
    /// The client of `/oauth/token`. Default `mock-client`.
    public var clientID: String
    /// The secret of that client. Default `mock-client-secret`.
    public var clientSecret: String
    /// The lifetime of access tokens of `POST /auth` and `POST /auth/refresh`, in whole seconds, not negative. Default
    /// 5 minutes.
    public var accessTokenLifetime: Duration
    /// The lifetime of a refresh token from its own issue, not negative. Default 8 hours.
    public var refreshTokenLifetime: Duration
    /// Whether the `/__mock/…` paths exist: the recorded traffic and test bodies. Default false.
    public var exposeObservations: Bool
    /// The identities of the gateway that the page links to for sign-in. Default: none.
    public var identities: [PageIdentity] = []
    /// A request field whose value is the id of a user that the gateway has signed in at a provider; such requests need no
    /// access token. The gateway must remove the field from requests of clients. Default: none.
    public var userField: String?
    /// The clock for issuing and expiring tokens. Default: the system clock.
    public var now: @Sendable () -> Date

    /// Creates settings; omitted values have their defaults.
    public init(
        host: String = "127.0.0.1",
        port: Int = 9000,
        apiToken: String = "demo-api-token",
        users: [MockUser] = [MockUser(email: "jo@example.com", password: "secret", name: "Jo")],
        clientID: String = "mock-client",
        clientSecret: String = "mock-client-secret",
        accessTokenLifetime: Duration = .seconds(300),
        refreshTokenLifetime: Duration = .seconds(28_800),
        exposeObservations: Bool = false,
        now: @escaping @Sendable () -> Date = { Date() }
    ) {
        self.host = host
        self.port = port
        self.apiToken = apiToken
        self.users = users
        self.clientID = clientID
        self.clientSecret = clientSecret
        self.accessTokenLifetime = accessTokenLifetime
        self.refreshTokenLifetime = refreshTokenLifetime
        self.exposeObservations = exposeObservations
        self.now = now
    }
}

/// An identity of the gateway, as the page shows it.
public struct PageIdentity: Sendable, Equatable {
    /// The name in the configuration of the gateway.
    public var name: String
    /// The text of the link follows `Continue with`.
    public var label: String

    /// Creates an identity.
    public init(name: String, label: String) {
        self.name = name
        self.label = label
    }
}

/// A user of the mock.
public struct MockUser: Sendable, Redacted {
    /// The e-mail address for sign-in, case-insensitive.
    public var email: String
    /// The password, any text; compared byte by byte in UTF-8.
    public var password: String
    /// The name in `GET /user`.
    public var name: String

    /// Creates an account.
    public init(email: String, password: String, name: String) {
        self.email = email
        self.password = password
        self.name = name
    }
}

extension Duration {
    /// The duration in seconds with fractions, as used by Foundation dates.
    var inSeconds: Double {
        Double(components.seconds) + Double(components.attoseconds) / 1e18
    }
}
