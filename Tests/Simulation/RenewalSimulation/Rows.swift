import CloakroomCore

/// A message to the store or to the upstream, and what is known of its answer. All-knowing: replicas do not see this.
struct Call {
    enum Owner {
        case refresh(Int)
        /// A flight's second save, of the user's data.
        case userSave(Int)
        case request(Int)
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
    }

    let replica: Int
    /// Which of the replica's lives it is of.
    let life: Int
    /// Which of the replica's links to the store it went over.
    let link: Int
    let owner: Owner
    let body: Body
    let deadline: Int64
    /// Whether the replica waits for the answer no more.
    var isClosed = false
    var isTimeoutScheduled = false
    var arrivals = 0
    /// Whether an answer came while it was waited for.
    var isDelivered = false
    /// Whether it came to the upstream when its sender held no lease any more, or waited no more.
    var wasOrphan = false
}

/// What the store or the upstream says.
enum TestResponse {
    case lease(LeaseResult)
    case read(SessionLookup)
    case save(SaveResult)
    case reject(RejectResult)
    case done
    case unavailable
    case tokens(pair: Int)
    case rejected
    case failed
}

/// A flight, with what carries it out.
struct Refresh {
    let session: Int
    let replica: Int
    /// What it began with.
    let initial: Session
    var machine: TokenRefreshStateMachine
    var waiters: [Int] = []
    var action: TokenRefreshStateMachine.Action = .lease
    var fence: UInt64 = 0
    var isFinished = false
    /// Its replica crashed.
    var isDead = false
    /// Something went wrong for it that may have cost it its lease.
    var isDisturbed = false
    /// The pair that it spent, the call that spent it, and what that brought.
    var spent = -1
    var pair = -1
    /// By the flight's own clock.
    var pairAt: Timestamp?
    /// Whether the store holds, or has held, its pair, and took it under the latest lease.
    var isSaved = false
    var wasRejected = false
    /// For saving the user's data after it has finished.
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
    /// The largest error of this life: a session clock never goes back while its process lives.
    private(set) var steadyOffset: Int64 = 0
    var pausedUntil: Int64 = 0
    /// What came during a pause.
    var inbox: [Event] = []
    var isPartitioned = false
    /// Counts the links to the store; answers that come over an earlier one than the latest never arrive.
    var link = 0
    var trustsLink = true
    /// When the store's last answer or notice arrives: they come in the order in which they were sent.
    var lastDelivery: Int64 = 0
    var table: [Session?]
    /// The flights under way, by session; -1 for none.
    var refreshes: [Int]
    var coolUntil: [Int64]
    var failures: [Int]
    /// Notices that are on their way, by session.
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

    /// Begins to go by the wall clock, as a process does that has just started.
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
