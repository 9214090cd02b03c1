@testable import CloakroomCore
@testable import CloakroomIdentity

/// What the tests of the login have in common.
enum LoginFixture {
    static let now = WallTime(seconds: 1_800_000_000)
    static let issuer = "https://id.example.com"

    static func secrets(_ seed: UInt64) -> LoginSecrets {
        var generator = CountingGenerator(state: seed &* 1_000)
        return LoginSecrets(using: &generator)
    }

    static func login(
        _ secrets: LoginSecrets, issuer: String = issuer, returnTarget: String = "/episodes?page=2",
        startedAt: WallTime = now
    ) -> PendingLogin {
        PendingLogin(
            identity: "company", issuerHash: PendingLogin.hash(ofIssuer: issuer), stateHash: secrets.stateHash,
            nonce: secrets.nonce, verifier: secrets.verifier, returnTarget: returnTarget, startedAt: startedAt)
    }

    static func cookies(
        pending: Int = 3, timeout: Duration = .seconds(600), name: String = "__Host-sid", domain: String? = nil,
        sealing: any CookieSealing = KeyedSealing()
    ) -> LoginCookies {
        LoginCookies(
            CookieConfiguration(name: name, domain: domain), timeout: timeout, pending: pending,
            sealing: sealing)
    }

    /// The cookie that a browser sends after a `Set-Cookie` value.
    static func received(_ setCookie: String) -> ReceivedCookie {
        let pair = setCookie.prefix { $0 != ";" }
        let name = pair.prefix { $0 != "=" }
        return ReceivedCookie(name: String(name), value: Array(pair.dropFirst(name.count + 1).utf8))
    }

    /// The login of the only valid cookie.
    static func pending(_ cookies: [ReceivedCookie]) -> PendingLogin? {
        let logins = cookies.compactMap { Self.cookies(name: "__Host-cloakroom").open($0) }
        return logins.count == 1 ? logins.first : nil
    }

    static func routes() throws -> RouteTable {
        let accounts = AccountsConfiguration(prefix: "/auth", upstream: 0)
        let routes = try ["/", "/episodes", "/videos/{id}", "/files/*"].enumerated().map { index, path in
            Route(
                name: "r\(index)", methods: ["GET"], pattern: try PathPattern(path), requiresAuthorization: true)
        }
        let post = Route(
            name: "post", methods: ["POST"], pattern: try PathPattern("/orders"), requiresAuthorization: true)
        return RouteTable(
            GatewayConfiguration(listeners: [], upstreams: [], routes: routes + [post], accounts: accounts))
    }
}

/// A deterministic source of different words.
struct CountingGenerator: RandomNumberGenerator {
    var state: UInt64

    mutating func next() -> UInt64 {
        state &+= 1
        return state &* 0x9e37_79b9_7f4a_7c15
    }
}

/// Sealing without a cipher: a copy and a keyed hash over the name and the content. Sufficient to detect that a value
/// was changed or moved.
struct KeyedSealing: CookieSealing {
    private let hash = KeyedHash(key0: 1, key1: 2)

    func seal(_ content: [UInt8], name: String) -> [UInt8]? { tag(content, name) + content }

    func open(_ sealed: [UInt8], name: String) -> [UInt8]? {
        guard sealed.count >= 8 else { return nil }
        let content = Array(sealed[8...])
        return Array(sealed[..<8]) == tag(content, name) ? content : nil
    }

    private func tag(_ content: [UInt8], _ name: String) -> [UInt8] {
        hash.hash(Array(name.utf8) + [0] + content).bigEndianBytes
    }
}
