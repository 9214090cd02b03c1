import CloakroomCore
import Testing

/// A token refresh with a clock, and short names for the values of the tests.
struct RefreshScenario {
    static let limits = RefreshTimeouts(
        call: .seconds(10), lease: .seconds(15), waiting: .seconds(16), keeping: .seconds(60),
        pause: .milliseconds(50))

    private var machine: TokenRefreshStateMachine
    private var now = MonotonicTime(seconds: 1_000)
    /// The last action as text: each action has a short form.
    private var last = "lease"

    init(after events: [Event] = []) {
        machine = TokenRefreshStateMachine(Self.session("a"), limits: Self.limits, now: now)
        for event in events { on(event) }
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

    /// What happens to a refresh.
    enum Event: Sendable {
        case leased(LeaseResult)
        case held(UInt64)
        case read(String, version: UInt64 = 1)
        case readNone(UnauthorizedReason)
        case readUnknown
        case waited
        case refreshed(String)
        case notRefreshed(TokenClientError.Kind)
        case saved(String, version: UInt64)
        case notSaved(SaveResult)
        case rejected(RejectResult)
        case storeFailed
        /// Time passes, and nothing else.
        case pass(Duration)
    }

    /// - Returns: The action that follows.
    @discardableResult
    mutating func on(_ event: Event) -> String {
        let action: TokenRefreshStateMachine.Action
        switch event {
        case .leased(let result): action = machine.leased(result, now: now)
        case .held(let fence): action = machine.leased(.acquired(RefreshLease(fence: fence)), now: now)
        case .read(let tokens, let version):
            action = machine.sessionRead(.active(Self.session(tokens, version: version)), now: now)
        case .readNone(let reason): action = machine.sessionRead(.missing(reason), now: now)
        case .readUnknown: action = machine.sessionRead(.notCached, now: now)
        case .waited: action = machine.waited(now: now)
        case .refreshed(let tokens): action = machine.refreshed(SessionUpdate(tokens: Self.tokens(tokens)), now: now)
        case .notRefreshed(let kind): action = machine.refreshFailed(kind, now: now)
        case .saved(let tokens, let version):
            action = machine.saved(.saved(Self.session(tokens, version: version)), now: now)
        case .notSaved(let result): action = machine.saved(result, now: now)
        case .rejected(let result): action = machine.rejected(result, now: now)
        case .storeFailed: action = machine.storeFailed(now: now)
        case .pass(let duration):
            now = now + duration
            return last
        }
        last = Self.text(action)
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

/// A row of a table: events of a refresh, and the action that follows each; `nil` is not checked.
struct RefreshRow: Sendable, CustomTestStringConvertible {
    let testDescription: String
    private let before: [RefreshScenario.Event]
    private let steps: [(event: RefreshScenario.Event, action: String?)]
    private let location: SourceLocation

    init(
        _ description: String, after before: [RefreshScenario.Event] = [], _ steps: (RefreshScenario.Event, String?)...,
        location: SourceLocation = #_sourceLocation
    ) {
        testDescription = description
        self.before = before
        self.steps = steps.map { (event: $0.0, action: $0.1) }
        self.location = location
    }

    func run() {
        var scenario = RefreshScenario(after: before)
        for (event, expected) in steps {
            let action = scenario.on(event)
            if let expected { #expect(action == expected, "\(event)", sourceLocation: location) }
        }
    }
}
