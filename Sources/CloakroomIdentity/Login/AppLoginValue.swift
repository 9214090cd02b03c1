import CloakroomCore
import Crypto

/// What a browser gets of an app's login: the login and the time, sealed under a name of its own, so that neither value
/// opens as the other or as a cookie.
enum AppLoginValue: String {
    /// Part of the URL that the app opens: a login without secrets, and the form of what its provider gets.
    case token = "app"
    /// What the redirect brings to the app: the login with the code of the provider.
    case code = "app-code"

    /// The maximum length in characters. That of a code has room for ``CallbackQuery/maxCode``.
    var maxLength: Int { self == .token ? 768 : 4_096 }
    /// How long a code is valid. Another clock may differ by as much.
    static let codeLifetime = Duration.seconds(60)
}

extension LoginCookies {
    /// The text of a value.
    /// - Returns: `nil` if it is too long, or the cipher fails.
    func seal(_ login: PendingLogin, as value: AppLoginValue, now: WallTime) -> String? {
        seal(login.bytes, as: value.rawValue, now: now).flatMap { $0.utf8.count <= value.maxLength ? $0 : nil }
    }

    /// The login of a value.
    /// - Returns: `nil` unless the value was sealed here, for this purpose, and is not too old.
    func open(_ text: String, as value: AppLoginValue, now: WallTime) -> PendingLogin? {
        let lifetime = value == .token ? timeout : AppLoginValue.codeLifetime
        let login = open(Array(text.utf8), as: value.rawValue, for: lifetime, now: now).flatMap(
            PendingLogin.init(bytes:))
        return login?.app == nil ? nil : login
    }

    /// The cookie with the verifier of an app's latest login. The names of login cookies are longer.
    var verifierName: String { prefix + "app" }

    /// Whether a client has the verifier of a login. The comparison takes constant time.
    func hasVerifier(of login: PendingLogin, among cookies: [ReceivedCookie], now: WallTime) -> Bool {
        Self.named(verifierName, among: cookies).lazy
            .compactMap { open($0.value, as: verifierName, for: timeout, now: now) }
            .contains { SHA256.hash(data: $0) == login.app?.verifierHash ?? [] }
    }
}
