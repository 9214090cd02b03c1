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
        let time = UInt64(bitPattern: now.milliseconds).bigEndianBytes
        let text = sealing.seal(time + login.bytes, name: value.rawValue + place).map { Base64URL.encode($0) }
        return text.flatMap { $0.utf8.count <= value.maxLength ? $0 : nil }
    }

    /// The login of a value.
    /// - Returns: `nil` unless the value was sealed here, for this purpose, and is not too old.
    func open(_ text: String, as value: AppLoginValue, now: WallTime) -> PendingLogin? {
        guard text.utf8.count <= value.maxLength, let sealed = Base64URL.decode(text.utf8),
            let bytes = sealing.open(sealed, name: value.rawValue + place), bytes.count > 8,
            let login = PendingLogin(bytes: Array(bytes.dropFirst(8))), login.app != nil
        else { return nil }
        let time = bytes.prefix(8).reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
        let age = now - WallTime(milliseconds: Int64(bitPattern: time))
        let isRecent = age <= (value == .token ? timeout : AppLoginValue.codeLifetime)
        return isRecent && age >= .seconds(-60) ? login : nil
    }

    /// The cookie of an app's HTTP client. It has no name of a login: those are longer.
    var verifierName: String { prefix + "app" }

    /// The `Set-Cookie` value with a verifier. It replaces that of an earlier login, which cannot be completed any more.
    /// - Returns: `nil` if the cipher fails.
    func verifierCookieValue(_ verifier: [UInt8]) -> String? {
        sealing.seal(verifier, name: verifierName + place).map {
            "\(verifierName)=\(Base64URL.encode($0))\(attributes); Max-Age=\(timeout.components.seconds)"
        }
    }

    /// Whether a client has the verifier of a login. The comparison takes constant time.
    func hasVerifier(of login: PendingLogin, among cookies: [ReceivedCookie]) -> Bool {
        cookies.contains { cookie in
            guard cookie.name == verifierName, cookie.value.count <= Self.maxValueLength,
                let sealed = Base64URL.decode(cookie.value),
                let verifier = sealing.open(sealed, name: verifierName + place)
            else { return false }
            return SHA256.hash(data: verifier) == login.app?.verifierHash ?? []
        }
    }
}
