public import Crypto
public import FoundationEssentials

/// How a mock API behaves. Every value has a default that suits `cloakroom demo`.
public struct MockAPISettings: Sendable, Redacted {
    /// The address to listen on, a name or an IP address. Default 127.0.0.1.
    public var host: String
    /// The port to listen on, 0...65535; 0 lets the system choose. Default 9000.
    public var port: Int
    /// What `X-API-TOKEN` must hold on every request. Default `demo-api-token`.
    public var apiToken: String
    /// Who can sign in. Default: jo@example.com with the password `secret`.
    public var users: [MockUser]
    /// How long an access token of `POST /auth` and `POST /auth/refresh` lives, in whole seconds, not negative.
    /// Default 5 minutes.
    public var accessTokenLifetime: Duration
    /// How long a refresh token lives, counted from its own issue, not negative. Default 8 hours.
    public var refreshTokenLifetime: Duration
    /// How long every answer is held back. Default 0.
    public var latency: Duration
    /// The share of requests that are answered 500, 0...1; see ``MockFaults``. Default 0.
    public var errorRate: Double
    /// Where the count behind `errorRate` starts: the same seed fails the same requests. Default 0.
    public var errorSeed: Int
    /// The HMAC key that access tokens are signed with. Default: random.
    public var signingKey: SymmetricKey
    /// Whether the `/__mock/…` paths exist: what was seen, and bodies to try proxies with. Default false.
    public var exposeObservations: Bool
    /// The time, for issuing and expiring tokens. Default: the system's clock.
    public var now: @Sendable () -> Date

    /// Settings with everything at its default but what is named.
    public init(
        host: String = "127.0.0.1",
        port: Int = 9000,
        apiToken: String = "demo-api-token",
        users: [MockUser] = [MockUser(email: "jo@example.com", password: "secret", name: "Jo")],
        accessTokenLifetime: Duration = .seconds(300),
        refreshTokenLifetime: Duration = .seconds(28_800),
        latency: Duration = .zero,
        errorRate: Double = 0,
        errorSeed: Int = 0,
        signingKey: SymmetricKey = SymmetricKey(size: .bits256),
        exposeObservations: Bool = false,
        now: @escaping @Sendable () -> Date = { Date() }
    ) {
        self.host = host
        self.port = port
        self.apiToken = apiToken
        self.users = users
        self.accessTokenLifetime = accessTokenLifetime
        self.refreshTokenLifetime = refreshTokenLifetime
        self.latency = latency
        self.errorRate = errorRate
        self.errorSeed = errorSeed
        self.signingKey = signingKey
        self.exposeObservations = exposeObservations
        self.now = now
    }
}
