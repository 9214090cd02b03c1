/// Sessions: where they are kept, how long they live, what their cookie looks like.
public struct SessionPlan: Sendable, Equatable {
    /// Where sessions are kept.
    public enum Store: String, Sendable, Hashable, CaseIterable {
        /// In this process: gone when it ends.
        case memory
    }

    /// Where sessions are kept.
    public var store: Store
    /// How long a session may go unused.
    public var idleTimeout: Duration
    /// How long a session may live.
    public var absoluteTimeout: Duration
    /// The most sessions at a time, 1...100,000,000; one more sign-in is answered with 503.
    public var maxSessions: Int
    /// The cookie.
    public var cookie: CookiePlan

    /// Makes a session plan.
    public init(
        store: Store = .memory, idleTimeout: Duration = .seconds(15 * 60),
        absoluteTimeout: Duration = .seconds(8 * 3_600), maxSessions: Int = 1_000_000,
        cookie: CookiePlan = CookiePlan()
    ) {
        self.store = store
        self.idleTimeout = idleTimeout
        self.absoluteTimeout = absoluteTimeout
        self.maxSessions = maxSessions
        self.cookie = cookie
    }
}

/// The session cookie. It is always `HttpOnly` and never has a `Domain`.
public struct CookiePlan: Sendable, Equatable {
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
public struct AccountsPlan: Sendable, Equatable {
    /// The path they stand under, without a trailing slash.
    public var prefix: String
    /// Index of the upstream that signs people in; `nil` switches the endpoints off.
    public var upstream: Int?
    /// Sentences for people, by the kind of failure.
    public var messages: [ProblemCode: String]

    /// Makes a plan of the endpoints.
    public init(prefix: String = "/auth", upstream: Int? = 0, messages: [ProblemCode: String] = [:]) {
        self.prefix = prefix
        self.upstream = upstream
        self.messages = messages
    }
}
