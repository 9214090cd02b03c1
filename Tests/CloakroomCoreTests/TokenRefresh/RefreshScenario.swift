import CloakroomCore
import Testing

/// A token refresh with a clock, and short names for the values of the tests.
struct RefreshScenario {
    static let limits = RefreshTimeouts(
        call: .seconds(10), lease: .seconds(15), waiting: .seconds(16), keeping: .seconds(60),
        pause: .milliseconds(50))

    var machine: TokenRefreshStateMachine
    var now = MonotonicTime(seconds: 1_000)
    /// The last action as text: each action has a short form.
    private(set) var last = "lease"

    /// - Parameter fence: That of a lease which is acquired at once.
    init(_ session: Session = Self.session("a"), limits: RefreshTimeouts = Self.limits, held fence: UInt64? = nil) {
        machine = TokenRefreshStateMachine(session, limits: limits, now: now)
        if let fence { held(fence) }
    }

    static func tokens(_ name: String) -> TokenSet {
        TokenSet(
            authorization: Secret("Bearer \(name)"), refreshToken: Secret(name), obtainedAt: WallTime(seconds: 1_000))
    }

    static func session(_ tokens: String, version: UInt64 = 1) -> Session {
        let start = SessionTime(seconds: 900)
        return Session(
            key: SessionKey(1, 2, 3, 4),
            user: UserProfile(json: Array("{}".utf8), account: AccountName(email: "a@example.com")),
            tokens: Self.tokens(tokens), createdAt: start, expiresAt: start + .seconds(28_800), lastUsedAt: start,
            version: version)
    }

    // MARK: - Events

    @discardableResult
    mutating func leased(_ attempt: LeaseResult) -> String { events { $0.leased(attempt, now: $1) } }
    @discardableResult
    mutating func held(_ fence: UInt64) -> String { leased(.acquired(RefreshLease(fence: fence))) }
    @discardableResult
    mutating func read(_ tokens: String, version: UInt64 = 1) -> String {
        events { $0.sessionRead(.active(Self.session(tokens, version: version)), now: $1) }
    }
    @discardableResult
    mutating func readNone(_ reason: UnauthorizedReason) -> String {
        events { $0.sessionRead(.missing(reason), now: $1) }
    }
    @discardableResult
    mutating func readUnknown() -> String { events { $0.sessionRead(.notCached, now: $1) } }
    @discardableResult
    mutating func waited() -> String { events { $0.waited(now: $1) } }
    @discardableResult
    mutating func refreshed(_ tokens: String) -> String {
        events { $0.refreshed(SessionUpdate(tokens: Self.tokens(tokens)), now: $1) }
    }
    @discardableResult
    mutating func notRefreshed(_ kind: TokenClientError.Kind) -> String { events { $0.refreshFailed(kind, now: $1) } }
    @discardableResult
    mutating func saved(_ attempt: SaveResult) -> String { events { $0.saved(attempt, now: $1) } }
    @discardableResult
    mutating func rejected(_ attempt: RejectResult) -> String { events { $0.rejected(attempt, now: $1) } }
    @discardableResult
    mutating func storeFailed() -> String { events { $0.storeFailed(now: $1) } }

    mutating func pass(_ duration: Duration) { now = now + duration }

    private mutating func events(
        _ event: (inout TokenRefreshStateMachine, MonotonicTime) -> TokenRefreshStateMachine.Action
    ) -> String {
        last = Self.text(event(&machine, now))
        return last
    }

    // MARK: - Actions as text

    private static func text(_ action: TokenRefreshStateMachine.Action) -> String {
        switch action {
        case .lease: "lease"
        case .read: "read"
        case .wait(let pause): "wait \(pause.wholeMilliseconds)"
        case .refresh(let session): "refresh \(name(session.tokens))"
        case .save(let update, let over, let lease):
            "save \(update.tokens.map(name) ?? "nothing") over \(over.version) under \(lease.fencingToken)"
        case .reject(let session, let lease): "reject \(session.version) under \(lease.fencingToken)"
        case .finish(let result, let lease): text(result) + (lease.map { ", release \($0.fencingToken)" } ?? "")
        }
    }

    private static func text(_ result: TokenRefreshStateMachine.Result) -> String {
        switch result {
        case .refreshed(let session): "refreshed \(name(session.tokens))"
        case .coalesced(let session): "coalesced \(name(session.tokens))"
        case .rejected: "rejected"
        case .ended(let reason, let unused): "ended \(reason)" + (unused.map { ", unused \(name($0))" } ?? "")
        case .unavailable(let kind): "unavailable \(kind)"
        case .storeUnavailable: "store unavailable"
        case .leaseTimeout: "lease timeout"
        }
    }

    private static func name(_ tokens: TokenSet) -> String {
        String(decoding: tokens.refreshToken?.bytes ?? [], as: UTF8.self)
    }
}
