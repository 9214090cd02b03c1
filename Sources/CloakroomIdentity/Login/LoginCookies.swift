package import CloakroomCore

/// The login cookies of a browser: one for each login that has not returned, so that two tabs can sign in at once.
///
/// The name is that of the session cookie, `-login-`, and eight characters of the hash of the state. Each cookie is
/// sealed for its name. It is `SameSite=Lax`: the callback is a navigation from the provider's site, with which browsers
/// send no `Strict` cookie (RFC 6265bis §5.6.7.1).
package struct LoginCookies: Sendable {
    /// The maximum length of a value in characters.
    package static let maxValueLength = 1_024
    /// The maximum number of cookies that a new login removes: each is a field of the response. A browser sends at most
    /// some 50 cookies of a site.
    private static let maxCleared = 64
    /// The number of characters of the hash in a name: 48 bits.
    private static let tagLength = 8

    /// What the names of all login cookies begin with.
    package let prefix: String
    private let isSecure: Bool
    let timeout: Duration
    private let pending: Int
    let sealing: any CookieSealing
    /// Follows the name that a cookie is sealed for: a space, which no name has, and the site; empty for the default one.
    let place: String

    /// - Parameters:
    ///   - cookie: The session cookie.
    ///   - timeout: The maximum duration of a login, 1 to 30 minutes.
    ///   - pending: The maximum number of login cookies of a browser, 1 to 5.
    ///   - site: The name of the site; its cookies cannot be opened at another one.
    package init(
        _ cookie: CookieConfiguration, timeout: Duration, pending: Int, sealing: any CookieSealing, site: String = ""
    ) {
        place = site.isEmpty ? "" : " " + site
        prefix = cookie.loginPrefix
        isSecure = cookie.isSecure
        self.timeout = timeout
        self.pending = pending
        self.sealing = sealing
    }

    package func name(ofStateHash hash: [UInt8]) -> String {
        prefix + String(Base64URL.encode(hash).prefix(Self.tagLength))
    }

    /// The `Set-Cookie` value for a new login.
    /// - Returns: `nil` if a text of the login is too long, or the cipher fails.
    package func setCookieValue(_ login: PendingLogin) -> String? {
        let name = name(ofStateHash: login.stateHash)
        guard login.isWithinLimits, let sealed = sealing.seal(login.bytes, name: name + place) else { return nil }
        let value = Base64URL.encode(sealed)
        return value.utf8.count <= Self.maxValueLength ? cookie(name, value, lifetime: timeout) : nil
    }

    /// The `Set-Cookie` value that removes a login cookie.
    package func clearCookieValue(name: String) -> String { cookie(name, "", lifetime: .zero) }

    /// Opens a cookie.
    /// - Returns: `nil` if it was not sealed here for this name.
    package func open(_ cookie: ReceivedCookie) -> PendingLogin? {
        guard cookie.value.count <= Self.maxValueLength, let sealed = Base64URL.decode(cookie.value),
            let bytes = sealing.open(sealed, name: cookie.name + place), let login = PendingLogin(bytes: bytes),
            name(ofStateHash: login.stateHash) == cookie.name
        else { return nil }
        return login
    }

    /// The login that a callback belongs to. Cookies with other names are skipped, so that no number of them, which
    /// pages of other hosts of the same site may set, hides the one of the login.
    /// - Returns: `nil` if the browser has no valid cookie for the state.
    package func login(forState state: [UInt8], among cookies: [ReceivedCookie], now: WallTime) -> PendingLogin? {
        let hash = LoginSecrets.hash(ofState: state)
        let name = name(ofStateHash: hash)
        for cookie in Self.named(name, among: cookies) {
            // The name has only a part of the hash. Hashes are compared, so the time of the comparison reveals nothing
            // about a state.
            guard let login = open(cookie), login.stateHash == hash else { continue }
            return login.isExpired(now: now, timeout: timeout) ? nil : login
        }
        return nil
    }

    /// The cookies of a name: two can differ in their path or domain, and only one was set here. The last four, because browsers
    /// send those of the path `/`, as the gateway's own, last (RFC 6265 §5.4), and opening one costs more than receiving it.
    static func named(_ name: String, among cookies: [ReceivedCookie]) -> ArraySlice<ReceivedCookie> {
        cookies.filter { $0.name == name }.suffix(4)
    }

    /// The cookies that make room for a new login: unreadable and expired ones, then the oldest, until at most one less
    /// than the limit remains. The new login never waits and never fails because of them.
    /// - Returns: Names, each once.
    package func namesToClear(_ cookies: [ReceivedCookie], now: WallTime) -> [String] {
        var cleared: [String] = []
        var valid: [(name: String, startedAt: WallTime)] = []
        for cookie in cookies.prefix(Self.maxCleared) where cookie.name != verifierName {
            guard let login = open(cookie), !login.isExpired(now: now, timeout: timeout) else {
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

    // MARK: - Sign-out

    /// The cookie of a sign-out that continues at a provider. It has no name of a login: those are longer.
    package var signOutName: String { prefix + "out" }
    /// How long a sign-out may take to continue.
    private static let signOutLifetime = Duration.seconds(60)
    /// The size of a cookie that browsers support, with name and attributes (RFC 6265 §6.1).
    private static let maxLength = 4_096

    /// The `Set-Cookie` value with the URL at which a sign-out continues. The URL contains an ID token, so only a
    /// redirect may contain it: the scripts of a page can read neither its target nor this cookie.
    /// - Returns: `nil` if the URL is too long for a cookie, or the cipher fails.
    package func signOutCookieValue(url: String, now: WallTime) -> String? {
        guard let value = seal(Array(url.utf8), as: signOutName, now: now) else { return nil }
        let cookie = cookie(signOutName, value, lifetime: Self.signOutLifetime)
        return cookie.utf8.count <= Self.maxLength ? cookie : nil
    }

    /// The URL at which a sign-out continues.
    /// - Returns: `nil` without a cookie of a sign-out within the last minute.
    package func signOutURL(among cookies: [ReceivedCookie], now: WallTime) -> String? {
        Self.named(signOutName, among: cookies).lazy.compactMap {
            open($0.value, as: signOutName, for: Self.signOutLifetime, now: now)
        }.first.map { String(decoding: $0, as: UTF8.self) }
    }

    /// Seals content with the time, for a name and the site.
    /// - Returns: `nil` if the cipher fails.
    func seal(_ content: [UInt8], as name: String, now: WallTime) -> String? {
        let time = UInt64(bitPattern: now.milliseconds).bigEndianBytes
        return sealing.seal(time + content, name: name + place).map { Base64URL.encode($0) }
    }

    /// The content of a value that was sealed here for the name, at most `lifetime` ago.
    func open(_ text: [UInt8], as name: String, for lifetime: Duration, now: WallTime) -> [UInt8]? {
        guard text.count <= Self.maxLength, let sealed = Base64URL.decode(text),
            let content = sealing.open(sealed, name: name + place), content.count > 8
        else { return nil }
        let milliseconds = content.prefix(8).reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
        let age = now - WallTime(milliseconds: Int64(bitPattern: milliseconds))
        return age <= lifetime && age >= .seconds(-60) ? Array(content.dropFirst(8)) : nil
    }

    func cookie(_ name: String, _ value: String, lifetime: Duration) -> String {
        let attributes = "; Path=/; HttpOnly\(isSecure ? "; Secure" : ""); SameSite=Lax"
        return "\(name)=\(value)\(attributes); Max-Age=\(lifetime.components.seconds)"
    }
}
