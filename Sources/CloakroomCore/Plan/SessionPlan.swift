/// Sessions: where they are kept, how long they live, what their cookie looks like.
public struct SessionConfiguration: Sendable, Equatable {
    /// Where sessions are kept.
    public enum Store: String, Sendable, Hashable, CaseIterable {
        /// In this process: gone when it ends.
        case memory
        /// In a file of this machine: survives the process.
        case sqlite
        /// In a Valkey or Redis server that several gateways share.
        case valkey
    }

    /// Where sessions are kept.
    public var store: Store
    /// How long a session may go unused.
    public var idleTimeout: Duration
    /// How long a session may live.
    public var absoluteTimeout: Duration
    /// The most sessions at a time, 1...100,000,000; one more sign-in is answered with 503.
    public var maxSessions: Int
    /// The most sessions of one account, 1...10,000; one more sign-in ends the oldest.
    public var maxSessionsPerAccount: Int
    /// The gateway's secrets, the newest first: 32 bytes or more each. Sessions are sealed under the newest and opened
    /// under any. At least one for stores that leave the process; at most 8.
    public var secrets: [Secret]
    /// The most opened sessions that are kept at hand where the store leaves the process, 1...100,000,000.
    public var localSessions: Int
    /// The store of kind `sqlite`.
    public var sqlite: SQLiteConfiguration
    /// The store of kind `valkey`.
    public var valkey: ValkeyConfiguration
    /// The cookie.
    public var cookie: CookieConfiguration

    /// Makes a session plan.
    public init(
        store: Store = .memory, idleTimeout: Duration = .seconds(15 * 60),
        absoluteTimeout: Duration = .seconds(8 * 3_600), maxSessions: Int = 1_000_000, maxSessionsPerAccount: Int = 100,
        secrets: [Secret] = [], localSessions: Int = 100_000, sqlite: SQLiteConfiguration = SQLiteConfiguration(),
        valkey: ValkeyConfiguration = ValkeyConfiguration(), cookie: CookieConfiguration = CookieConfiguration()
    ) {
        self.store = store
        self.idleTimeout = idleTimeout
        self.absoluteTimeout = absoluteTimeout
        self.maxSessions = maxSessions
        self.maxSessionsPerAccount = maxSessionsPerAccount
        self.secrets = secrets
        self.localSessions = localSessions
        self.sqlite = sqlite
        self.valkey = valkey
        self.cookie = cookie
    }
}

/// Sessions in a SQLite file.
public struct SQLiteConfiguration: Sendable, Equatable {
    /// The file; made if it is not there. SQLite keeps two more beside it.
    public var path: String

    /// Makes a plan.
    public init(path: String = "") {
        self.path = path
    }
}

/// Sessions in a Valkey or Redis server, version 6 or later.
public struct ValkeyConfiguration: Sendable, Equatable {
    /// The server, or the sentinels that know which one is the primary. At least one.
    public var addresses: [HostAndPort]
    /// The name under which the sentinels know the primary; `nil` where ``addresses`` is the server itself.
    public var sentinelPrimary: String?
    /// The ACL user; `nil` is the default user.
    public var user: String?
    /// The user's password; `nil` where the server wants none.
    public var password: Secret?
    /// The sentinels' password; `nil` where they want none.
    public var sentinelPassword: Secret?
    /// TLS with the server and the sentinels; `nil` is clear text. An empty plan trusts what the system trusts.
    public var tls: UpstreamTLSConfiguration?
    /// What all keys begin with: letters, digits, `:`, `-` and `_`.
    public var prefix: String
    /// After this a command has failed, 10 ms to 60 s.
    public var timeout: Duration

    /// Makes a plan.
    public init(
        addresses: [HostAndPort] = [], sentinelPrimary: String? = nil, user: String? = nil, password: Secret? = nil,
        sentinelPassword: Secret? = nil, tls: UpstreamTLSConfiguration? = nil, prefix: String = "cloakroom",
        timeout: Duration = .milliseconds(500)
    ) {
        self.addresses = addresses
        self.sentinelPrimary = sentinelPrimary
        self.user = user
        self.password = password
        self.sentinelPassword = sentinelPassword
        self.tls = tls
        self.prefix = prefix
        self.timeout = timeout
    }
}

/// The session cookie. It is always `HttpOnly` and never has a `Domain`.
public struct CookieConfiguration: Sendable, Equatable {
    /// The `SameSite` attribute.
    public enum SameSite: String, Sendable, Hashable, CaseIterable {
        /// Sent with requests from our own site only.
        case strict = "Strict"
        /// Sent with top-level navigations from elsewhere too.
        case lax = "Lax"
    }

    /// The name. With the prefix `__Host-` browsers hold it to `Secure`, `Path=/` and no `Domain` (RFC 6265bis §4.1.3).
    public var name: String
    /// Whether it has the `Secure` attribute. Only development on loopback goes without.
    public var isSecure: Bool
    /// The `SameSite` attribute.
    public var sameSite: SameSite

    /// Makes a cookie plan.
    public init(name: String = "__Host-cloakroom", isSecure: Bool = true, sameSite: SameSite = .strict) {
        self.name = name
        self.isSecure = isSecure
        self.sameSite = sameSite
    }
}

/// The gateway's own endpoints for signing in and out.
public struct AccountsConfiguration: Sendable, Equatable {
    /// The path they stand under, without a trailing slash.
    public var prefix: String
    /// Index of the upstream that signs people in; `nil` switches the endpoints off.
    public var upstream: Int?
    /// Sentences for people, by the kind of failure.
    public var messages: [ProblemCode: String]
    /// Whether attempts to sign in are throttled. Only load tests do without.
    public var isThrottled: Bool
    /// The most attempts to sign in from one address in 10 minutes, successful or not, 0...1,000,000; of one account at
    /// most 20 of them. 0 is without limit. Not used where ``isThrottled`` is `false`.
    public var signInsPerAddress: Int

    /// Makes a plan of the endpoints.
    public init(
        prefix: String = "/auth", upstream: Int? = 0, messages: [ProblemCode: String] = [:], isThrottled: Bool = true,
        signInsPerAddress: Int = 100
    ) {
        self.prefix = prefix
        self.upstream = upstream
        self.messages = messages
        self.isThrottled = isThrottled
        self.signInsPerAddress = signInsPerAddress
    }
}
