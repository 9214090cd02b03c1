/// The session store, the session lifetimes and the session cookie.
public struct SessionConfiguration: Sendable, Equatable {
    /// Where sessions are kept.
    public enum Store: String, Sendable, Hashable, CaseIterable {
        /// In the memory of this process: lost when it ends.
        case memory
        /// In a file on this machine: kept across restarts.
        case sqlite
        /// In a Valkey or Redis server that several gateways share.
        case valkey
    }

    /// Where sessions are kept.
    public var store: Store = .memory
    /// The maximum time without a use.
    public var idleTimeout: Duration = .seconds(15 * 60)
    /// The maximum lifetime of a session.
    public var absoluteTimeout: Duration = .seconds(8 * 3_600)
    /// The maximum number of sessions, 1...100,000,000; beyond it sign-ins are rejected with 503.
    public var maxSessions = 1_000_000
    /// The maximum number of sessions of an account, 1...10,000; a further sign-in ends the oldest session.
    public var maxSessionsPerAccount = 100
    /// The gateway's secrets, the newest first: at least 32 bytes each. Sessions are sealed under the newest and opened
    /// under any of them. At most 8; at least one for stores outside the process.
    public var secrets: [Secret] = []
    /// The maximum number of decrypted sessions that are cached if the store is outside the process, 1...100,000,000.
    public var cacheSize = 100_000
    /// The configuration of the `sqlite` store.
    public var sqlite = SQLiteConfiguration()
    /// The configuration of the `valkey` store.
    public var valkey = ValkeyConfiguration()
    /// The cookie.
    public var cookie = CookieConfiguration()
    /// Whether sessions are bound to a key of their device.
    public var device = DeviceConfiguration()
    /// Those of the apps that differ: ``AppConfiguration/terms(_:)``. What ends sessions is kept for the longest.
    public var apps: [SessionTerms] = []
}

/// Sessions that are bound to a key of their device (Device Bound Session Credentials, the draft of 2026-02-17).
public struct DeviceConfiguration: Sendable, Equatable {
    /// Which sessions are bound.
    public enum Mode: String, Sendable, Hashable, CaseIterable {
        /// None, and the proof of one that was bound earlier is not required.
        case off
        /// Those of clients that register a key.
        case auto
        /// All: others can be used for ``DeviceConfiguration/offer`` only.
        case required
    }

    /// Which sessions are bound, unless their app has a mode of its own.
    public var mode = Mode.off
    /// Whether an app has another mode than `off`.
    public var isUsedByApps = false
    /// How long a proof is valid, 10 s to 1 hour.
    public var lifetime: Duration = .seconds(600)
    /// How long after its sign-in a session can get a key, 30 s to 10 minutes.
    public var offer: Duration = .seconds(120)
    /// How long a session can be used without a proof after it got its key, 0 s to 1 minute: a browser sends requests
    /// before it has processed the response.
    public var settle: Duration = .seconds(10)
    /// The maximum duration of a WebSocket or an event stream of a bound session, 5 minutes to 1 day.
    public var streams: Duration = .seconds(3_600)

    /// Whether any session is bound.
    public var isUsed: Bool { mode != .off || isUsedByApps }

    /// The mode of a session.
    @inline(__always)
    public func mode(of session: Session) -> Mode { session.terms?.device ?? mode }
}

/// Sessions in a SQLite file.
public struct SQLiteConfiguration: Sendable, Equatable {
    /// The database file; created if it does not exist. SQLite creates two more files next to it.
    public var path = ""
}

/// Sessions in a Valkey or Redis server, version 6 or later.
public struct ValkeyConfiguration: Sendable, Equatable {
    /// How the servers are organized.
    public enum Topology: String, Sendable, Hashable, CaseIterable {
        /// Sentinels if ``sentinelPrimary`` is set; otherwise the server reports whether it belongs to a cluster.
        case auto
        /// One primary.
        case single
        /// Sentinels report the primary.
        case sentinel
        /// A cluster, whose servers have parts of the keys.
        case cluster
    }

    /// The address of the server, of the sentinels that report the primary, or of some servers of the cluster. At least
    /// one.
    public var addresses: [HostAndPort] = []
    /// How the servers are organized.
    public var topology: Topology = .auto
    /// The sentinels' name for the primary; `nil` without sentinels.
    public var sentinelPrimary: String?
    /// The ACL user; `nil` is the default user.
    public var user: String?
    /// The user's password; `nil` if the server requires none.
    public var password: Secret?
    /// The sentinels' password; `nil` if they require none.
    public var sentinelPassword: Secret?
    /// TLS with the server and the sentinels; `nil` is plain text. An empty configuration uses the system's trust
    /// roots.
    public var tls: UpstreamTLSConfiguration?
    /// The prefix of all keys: letters, digits, `:`, `-` and `_`.
    public var prefix = "cloakroom"
    /// The timeout of a command, 10 ms to 60 s.
    public var timeout: Duration = .milliseconds(500)
    /// The number of the server's replicas that have to confirm that a session was created, refreshed or ended, 0 to 5;
    /// 0 waits for none.
    public var replicas = 1
    /// The maximum time to wait for these confirmations, 10 ms to 10 s. Not configurable: the wait delays sign-ins, and a
    /// write without confirmations is no error.
    public var replicationTimeout: Duration = .milliseconds(200)
}

/// The session cookie. It is always `HttpOnly`.
public struct CookieConfiguration: Sendable, Equatable {
    /// The `SameSite` attribute.
    public enum SameSite: String, Sendable, Hashable, CaseIterable {
        /// Sent with requests from the same site only.
        case strict = "Strict"
        /// Sent with top-level navigations from other sites too.
        case lax = "Lax"
        /// Sent with all requests, also of pages of other sites and in frames there. Browsers require `Secure`.
        case always = "None"
    }

    /// The defaults of all keys.
    public static let defaults = Self()

    /// The prefix of names for which browsers enforce `Secure`, `Path=/` and no `Domain` (RFC 6265bis §4.1.3).
    package static let hostPrefix = "__Host-"
    /// The prefix of names for which browsers enforce `Secure` only.
    package static let securePrefix = "__Secure-"

    /// The cookie name. If the cookie is `Secure`, it begins with `__Host-`, or with `__Secure-` if there is a
    /// ``domain``. So a cookie with `Domain` never has the name of an earlier one without.
    public var name = "__Host-cloakroom"
    /// The domain whose hosts all receive the cookie and can set it (RFC 6265bis §4.1.2.3): at least two labels in lower
    /// case; `nil` for this host only.
    public var domain: String?
    /// Whether the cookie has the `Secure` attribute. Only development on loopback omits it.
    public var isSecure = true
    /// The `SameSite` attribute.
    public var sameSite: SameSite = .strict
    /// Whether browsers keep a cookie of its own for each site whose pages embed the gateway (CHIPS). Only with
    /// ``SameSite/always``.
    public var isPartitioned = false
    /// Which sign-ins set a cookie that remains after the browser is closed.
    public var persistence: Persistence = .never

    /// Which sign-ins set a persistent cookie. Its `Max-Age` is the remaining lifetime of the session.
    public enum Persistence: String, Sendable, Hashable, CaseIterable {
        /// None: the cookie is deleted when the browser or the app is closed.
        case never
        /// All.
        case always
        /// Those that request it.
        case onRequest
    }

    /// The `Max-Age` of the cookie of a session; `nil` for a cookie that is not persistent.
    /// - Parameters:
    ///   - isRequested: Whether the sign-in requests a persistent cookie.
    ///   - end: The latest end of the session. The cookie never outlives it.
    public func maxAge(isRequested: Bool, sessionEnd end: SessionTime, now: SessionTime) -> Duration? {
        switch persistence {
        case .never: nil
        case .onRequest where !isRequested: nil
        case .always, .onRequest: max(end - now, .zero)
        }
    }
}

/// How long and how many sign-ins with `Authorization: Basic` are kept, in one process.
public struct BasicConfiguration: Sendable, Equatable {
    /// How long one is kept without being used, 1 s to 1 h.
    public var idle: Duration = .seconds(300)
    /// How long one is kept, 1 min to 1 day: how long a password is accepted after it was changed upstream.
    public var maximum: Duration = .seconds(3_600)
    /// How many are kept, 2...100,000.
    public var entries = 10_000
}

/// The gateway's own endpoints for sign-in and sign-out.
public struct AccountsConfiguration: Sendable, Equatable {
    /// What users sign in with at the gateway.
    public struct SignInName: Sendable, Equatable {
        /// The defaults of all keys.
        public static let defaults = Self()

        /// The member of the JSON object or the form that holds the name: 1 to 64 bytes, not `password`.
        public var member = "email"
        /// The kind of the name.
        public var kind: AccountNameKind = .email
    }

    /// The path prefix of the endpoints, without a trailing slash.
    public var prefix = "/auth"
    /// Index of the upstream that signs users in; `nil` disables the endpoints.
    public var upstream: Int? = 0
    /// Indices of further upstreams that may get the access tokens of its sessions.
    public var tokensFor: [Int] = []
    /// What users sign in with.
    public var name = SignInName()
    /// Sentences for users, by problem code.
    public var messages: [ProblemCode: String] = [:]
    /// Whether sign-in attempts are throttled. Only load tests disable this.
    public var isThrottled = true
    /// The maximum number of sign-in attempts from one address in 10 minutes, successful or not, 0...1,000,000; at most
    /// 20 of them for one account. The /48 of an IPv6 address has 16 times as many. A callback of a login is one, also
    /// with an error. 0 is unlimited. Ignored if ``isThrottled`` is `false`.
    public var signInsPerAddress = 100
    /// The gateway's origin as browsers see it, such as `https://app.example.com`; redirect URIs are made of it. Required
    /// with identities.
    public var publicURL: String?
    /// What users may sign in with, the default first. Empty if no provider is configured.
    public var identities: [SignInSource] = []
    /// How users sign in at a provider.
    public var login = LoginConfiguration()
    /// The native apps, at most 16.
    public var apps: [AppConfiguration] = []
    /// The sign-ins of routes that accept ``RouteCredentials/basic``.
    public var basic = BasicConfiguration()

    /// Whether an upstream may get the access tokens of sessions that ``upstream`` issued.
    public func receivesToken(_ index: Int) -> Bool { index == upstream || tokensFor.contains(index) }
    /// Whether users can sign in at all, so that the endpoints exist.
    public var isEnabled: Bool { upstream != nil || hasProviders }
    /// Whether users can sign in at a provider.
    public var hasProviders: Bool { SiteConfiguration(self).hasProviders }
    /// Whether users who need to sign in see a page first, because they can choose or have to enter a password.
    public var usesSignInPage: Bool { upstream != nil || identities.count != 1 }
    /// The path where a browser without a session signs in: that of the only provider, or the sign-in page.
    public var signInPath: String { prefix + (usesSignInPage ? "/page" : "/login") }
}
