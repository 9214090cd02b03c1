public import FoundationEssentials

/// The settings of a mock API.
public struct MockAPISettings: Sendable, Redacted {
    /// The settings of `cloakroom-demo`: those without any change.
    public static let demo = MockAPISettings()

    /// The address to listen on, a name or an IP address.
    public var host = "127.0.0.1"
    /// The port to listen on, 0...65535; 0 selects a free port.
    public var port = 9000
    /// The required value of `X-API-TOKEN` in every request.
    public var apiToken = "demo-api-token"
    /// The users that can sign in.
    public var users = [MockUser(email: "jo@example.com", password: "secret", name: "Jo")]
    /// The client of `/oauth/token`.
    public var clientID = "mock-client"
    /// The secret of that client.
    public var clientSecret = "mock-client-secret"
    /// The lifetime of access tokens of `POST /auth` and `POST /auth/refresh`, in whole seconds, not negative.
    public var accessTokenLifetime = Duration.seconds(300)
    /// The lifetime of a refresh token from its own issue, not negative.
    public var refreshTokenLifetime = Duration.seconds(28_800)
    /// Whether the `/__mock/…` paths exist: the recorded traffic and test bodies.
    public var exposeObservations = false
    /// The names of the identities of the gateway that the page links to for sign-in.
    public var identities: [String] = []
    /// A request field whose value is the id of a user that the gateway has signed in at a provider; such requests need no
    /// access token. The gateway must remove the field from requests of clients.
    public var userField: String?
    /// The clock for issuing and expiring tokens.
    public var now: @Sendable () -> Date = { Date() }
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
