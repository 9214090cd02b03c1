package import CloakroomCore

/// The login cookies of a browser: one for each login that has not returned, so that two tabs can sign in at once.
///
/// The name is that of the session cookie, `-login-`, and eight characters of the hash of the state. Each cookie is
/// sealed for its name. It is `SameSite=Lax`: the callback is a navigation from the provider's site, with which browsers
/// send no `Strict` cookie (RFC 6265bis §5.6.7.1).
package struct LoginCookies: Sendable {
    /// The maximum length of a value in characters.
    package static let maxValueLength = 1_024
    /// The number of characters of the hash in a name: 48 bits.
    private static let tagLength = 8

    /// What the names of all login cookies begin with.
    package let prefix: String
    private let isSecure: Bool
    private let timeout: Duration
    private let pending: Int
    private let sealing: any CookieSealing

    /// - Parameters:
    ///   - cookie: The session cookie.
    ///   - timeout: The maximum duration of a login, 1 to 30 minutes.
    ///   - pending: The maximum number of login cookies of a browser, 1 to 5.
    package init(
        _ cookie: CookieConfiguration, timeout: Duration, pending: Int, sealing: any CookieSealing
    ) {
        prefix = cookie.loginPrefix
        isSecure = cookie.isSecure
        self.timeout = timeout
        self.pending = pending
        self.sealing = sealing
    }

    /// The name of the cookie of a login.
    package func name(ofStateHash hash: [UInt8]) -> String {
        prefix + String(Base64URL.encode(hash).prefix(Self.tagLength))
    }

    /// The `Set-Cookie` value for a new login.
    /// - Returns: `nil` if a text of the login is too long, or the cipher fails.
    package func setCookieValue(_ login: PendingLogin) -> String? {
        let name = name(ofStateHash: login.stateHash)
        guard login.isWithinLimits, let sealed = sealing.seal(login.bytes, name: name) else { return nil }
        let value = Base64URL.encode(sealed)
        guard value.utf8.count <= Self.maxValueLength else { return nil }
        return "\(name)=\(value)\(attributes); Max-Age=\(timeout.components.seconds)"
    }

    /// The `Set-Cookie` value that removes a login cookie.
    package func clearCookieValue(name: String) -> String { "\(name)=\(attributes); Max-Age=0" }

    /// Opens a cookie.
    /// - Returns: `nil` if it was not sealed here for this name.
    package func open(_ cookie: ReceivedCookie) -> PendingLogin? {
        guard cookie.value.count <= Self.maxValueLength, let sealed = Base64URL.decode(cookie.value),
            let bytes = sealing.open(sealed, name: cookie.name), let login = PendingLogin(bytes: bytes),
            name(ofStateHash: login.stateHash) == cookie.name
        else { return nil }
        return login
    }

    /// The login that a callback belongs to.
    /// - Returns: `nil` if the browser has no valid cookie for the state.
    package func login(forState state: [UInt8], among cookies: [ReceivedCookie], now: Timestamp) -> PendingLogin? {
        let hash = LoginSecrets.hash(ofState: state)
        let name = name(ofStateHash: hash)
        // Two cookies of one name can differ in their path or domain; only one was set here.
        for cookie in cookies where cookie.name == name {
            // The name has only a part of the hash. Hashes are compared, so the time of the comparison reveals nothing
            // about a state.
            guard let login = open(cookie), login.stateHash == hash else { continue }
            return login.isExpired(now: now, timeout: timeout) ? nil : login
        }
        return nil
    }

    /// The cookies that make room for a new login: unreadable and expired ones, then the oldest, until at most one less
    /// than the limit remains. The new login never waits and never fails because of them.
    /// - Returns: Names, each once.
    package func namesToClear(_ cookies: [ReceivedCookie], now: Timestamp) -> [String] {
        var cleared: [String] = []
        var valid: [(name: String, startedAt: Timestamp)] = []
        // A browser sends at most some 50 cookies of a site; more are not processed, but removed.
        for (index, cookie) in cookies.enumerated() {
            guard index < 64, let login = open(cookie), !login.isExpired(now: now, timeout: timeout) else {
                cleared.append(cookie.name)
                continue
            }
            valid.append((cookie.name, login.startedAt))
        }
        valid.sort { $0.startedAt < $1.startedAt }
        cleared += valid.prefix(max(valid.count - max(pending - 1, 0), 0)).map(\.name)
        var seen: Set<String> = []
        return cleared.filter { seen.insert($0).inserted }
    }

    private var attributes: String {
        "; Path=/; HttpOnly\(isSecure ? "; Secure" : ""); SameSite=Lax"
    }
}
