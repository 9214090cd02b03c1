import CloakroomCore

/// A login at a provider, and the browser that began it.
struct SimulatedLogin {
    /// The session that the login creates.
    let session: Int
    /// The session at the provider.
    let sid: Int
    /// When the provider sends the browser back; more than once if the user reloads the page.
    let callbacks: [Int64]
    /// Whether the browser got a cookie.
    var isSignedIn = false
    /// How often the gateway has sent the code.
    var sentCodes = 0
}

/// A logout that a provider reports until it is acknowledged.
struct SimulatedLogout {
    enum Step { case checkToken, markLogout, endSessions, markToken }

    let sid: Int
    let at: Int64
    var attempt = 0
    var replica = 0
    /// The steps of the attempt that remain, the next one first.
    var steps: [Step] = []
    var isAcknowledged = false
}

/// The handling of a browser that a provider has sent back.
struct Callback {
    enum Step { case markLogin, redeem, create, checkLogout }

    let login: Int
    let replica: Int
    /// The steps that remain, the next one first.
    var steps: [Step]
    var tokens: TokenSet?
    /// Whether a session may exist.
    var hasCreated = false
    var isFinished = false
}

/// A timed mark; none expires within a run.
enum Mark: CustomStringConvertible {
    case usedLogin(Int)
    case logoutToken(Int)
    case endedAtProvider(Int)

    var numbers: [Int] {
        switch self {
        case .usedLogin(let login): [0, login]
        case .logoutToken(let logout): [1, logout]
        case .endedAtProvider(let sid): [2, sid]
        }
    }

    var description: String {
        switch self {
        case .usedLogin(let login): "login \(login) used"
        case .logoutToken(let logout): "logout \(logout) processed"
        case .endedAtProvider(let sid): "sid \(sid) ended"
        }
    }
}
