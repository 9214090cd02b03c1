import CloakroomCore

/// A message to the store or to the upstream, with its state. Includes global knowledge that replicas do not have.
struct Call {
    enum Owner {
        case refresh(Int)
        /// The second save of a refresh, for the user profile.
        case userSave(Int)
        case request(Int)
        case callback(Int)
        /// A logout of a provider, with the number of the attempt to deliver it.
        case logout(Int, attempt: Int)
        case none
    }

    enum Body {
        case lease(Int, Duration)
        case read(Int)
        case save(Int, SessionUpdate, over: UInt64, fence: UInt64, pair: Int?)
        case reject(Int, version: UInt64, fence: UInt64)
        case release(Int, fence: UInt64)
        case reseal(Int, Session)
        case touch(Int, Int64)
        case end(Int)
        case refresh(pair: Int)
        case resource(session: Int, pair: Int)
        case revoke(session: Int)
        case setMark(Mark)
        case hasMark(Mark)
        case redeem(session: Int)
        case create(session: Int, TokenSet)
        /// Ends the sessions of a session at the provider.
        case endProviderSession(Int)
    }

    let replica: Int
    /// The life of the replica that sent the call: lives are counted by restarts.
    let life: Int
    /// The connection of the replica to the store that the call was sent on.
    let link: Int
    let owner: Owner
    let body: Body
    let deadline: Int64
    /// Whether the replica no longer waits for the reply.
    var isClosed = false
    var isTimeoutScheduled = false
    var arrivals = 0
    /// Whether a reply arrived before the timeout.
    var isDelivered = false
    /// Whether it reached the upstream after its sender had lost its lease or stopped waiting.
    var wasOrphan = false
}

/// A reply of the store or of the upstream.
enum TestResponse {
    case lease(LeaseResult)
    case read(SessionLookup)
    case save(SaveResult)
    case reject(RejectResult)
    case done
    /// Whether a mark was set, or exists.
    case mark(Bool)
    case unavailable
    case tokens(pair: Int)
    case rejected
    case failed
}

/// A token refresh in progress, `f` in traces, with the state that executes its actions.
struct Refresh {
    let session: Int
    let replica: Int
    /// The session that the refresh started with.
    let initial: Session
    var machine: TokenRefreshStateMachine
    var waiters: [Int] = []
    var action: TokenRefreshStateMachine.Action = .lease
    var fence: UInt64 = 0
    var isFinished = false
    /// Whether the replica crashed.
    var isDead = false
    /// Whether a fault may have cost the refresh its lease.
    var isDisturbed = false
    /// The pair that was spent, and the pair that was received for it; -1 for none.
    var spent = -1
    var pair = -1
    /// When the pair was received, by the clock of the refresh.
    var pairAt: MonotonicTime?
    /// Whether the store has accepted the received pair under the latest lease.
    var isSaved = false
    var wasRejected = false
    /// For saving the user profile after the refresh has finished.
    var lease: RefreshLease?
    var result: Session?
}

/// A client's request at a replica.
struct Request {
    enum State { case going, served, unavailable, unauthorized, rejected, lost }

    let session: Int
    let replica: Int
    let life: Int
    let isProbe: Bool
    let startedAt: Int64
    var current: Session?
    var wasReplayed = false
    var waited = false
    var state = State.going
}

/// A gateway process.
struct Replica {
    var life = 0
    var isUp = true
    /// The wall clock's error in milliseconds.
    private(set) var offset: Int64 = 0
    /// The largest error of this life: the session clock never goes back while its process lives.
    private(set) var steadyOffset: Int64 = 0
    var pausedUntil: Int64 = 0
    /// The events that arrived during a pause.
    var inbox: [Event] = []
    var isPartitioned = false
    /// The number of connections to the store so far; replies on an earlier connection than the latest are lost.
    var link = 0
    var trustsLink = true
    /// The arrival time of the store's last reply or notice: the store's messages arrive in the order of sending.
    var lastDelivery: Int64 = 0
    var table: [Session?]
    /// The refreshes in progress, by session; -1 for none.
    var refreshes: [Int]
    var coolUntil: [Int64]
    var failures: [Int]
    /// The number of notices in transit, by session.
    var noticesUnderWay: [Int]

    init(sessions: Int) {
        table = Array(repeating: nil, count: sessions)
        refreshes = Array(repeating: -1, count: sessions)
        coolUntil = Array(repeating: 0, count: sessions)
        failures = Array(repeating: 0, count: sessions)
        noticesUnderWay = Array(repeating: 0, count: sessions)
    }

    /// Sets the wall clock.
    mutating func setClock(to offset: Int64) {
        self.offset = offset
        steadyOffset = max(steadyOffset, offset)
    }

    /// Sets both clocks, as at the start of a process.
    mutating func startClock(at offset: Int64) {
        self.offset = offset
        steadyOffset = offset
    }

    mutating func forget() {
        for index in table.indices {
            table[index] = nil
            refreshes[index] = -1
            coolUntil[index] = 0
            failures[index] = 0
        }
    }

    mutating func emptyTable() {
        for index in table.indices { table[index] = nil }
    }
}
