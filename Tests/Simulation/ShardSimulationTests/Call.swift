import CloakroomCore

@testable import CloakroomSessions

/// A command to a server, with its state. Includes global knowledge that gateways do not have.
struct Call {
    enum Owner {
        case request(Int)
        case refresh(Int)
        case signIn(Int)
        case signOut(Int)
        /// The callback of a login, with its mark.
        case callback(Int)
        case attempt(Int)
        case topology
        /// Writes the journal again.
        case repetition(Int)
        case none
    }

    enum Body {
        case read(Int)
        case readCutoff(Int)
        case lease(Int, Duration)
        case save(Int, SessionUpdate, over: UInt64, fence: UInt64, pair: Int)
        case reject(Int, version: UInt64, fence: UInt64)
        case release(Int, fence: UInt64)
        case remove(Int)
        /// Lists a new session in the account's index. The reply is the time at which the session is born.
        case index(account: Int, session: Int)
        case insert(Int, Session, born: Int64)
        /// Ends the sessions of an account, except one.
        case setCutoff(Int, keeping: KeptSession?, at: Int64?)
        case list(Int)
        case setMark(Int)
        /// Writes an entry of the journal again.
        case repeated(ReassertionCall)
        case time
        /// Counts an attempt at a time of the gateway's clock, unless the rule delays it.
        case countAttempt(Int, at: SessionTime)
        /// `CLUSTER SLOTS`.
        case topology

        var isWrite: Bool {
            switch self {
            case .read, .readCutoff, .list, .time, .topology: false
            default: true
            }
        }
    }

    let gateway: Int
    /// The process of the gateway that sent the command: each start of a gateway is another process.
    let process: Int
    let owner: Owner
    let body: Body
    let slot: Int
    let isDurable: Bool
    let sentAt: Int64
    var deadline: Int64
    var node = -1
    /// The link that the command was sent on, by its number.
    var link = 0
    /// The journal's numbers of the slot when the command was sent first.
    var repetition: UInt32 = 0
    var replacement: UInt32 = 0
    /// The version that the journal keeps before the result is known.
    var pendingSave: WriteJournal.PendingSave?
    /// Whether a server may execute it, or has executed it.
    var isSent = false
    var isAsking = false
    /// How often it was redirected, or waited for a link, and how often it was sent to a server that receives its slot.
    var attempts = 0
    var asks = 0
    /// The server that has redirected it last.
    var sender = -1
    var isClosed = false
    /// How often servers have executed the command, and when.
    var executions = 0
    var executedAt: Int64?
    /// The reply that waits for the confirmation of a replica, and whether there was one.
    var heldReply: Reply?
    var isConfirmed = false
}

/// A reply of a server.
enum Reply {
    case record(Session, born: Int64)
    case ended
    case missing
    case cutoff(String?)
    case lease(LeaseResult)
    case save(SaveResult)
    case reject(RejectResult)
    case born(Int64)
    case list([Int])
    /// Whether a mark was set, or an attempt counted.
    case changed(Bool)
    /// Whether there was a record to remove.
    case removed(Bool)
    /// The result of a script, and the microseconds of the server's clock.
    case number(Int64)
    case time(Int64)
    case done
    case moved(to: Int)
    case ask(to: Int)
    case clusterDown
    /// The owners of the slots in the view of a server.
    case topology([Int])
    /// Not executed.
    case unavailable
    /// Sent, and no reply.
    case lost
}

/// A record that is read, and then compared with the cutoff.
struct RecordRead {
    let registration: SessionCache.ReadRegistration
    var session: Session?
    var born: Int64 = 0
    var stamp: TrustStamp?
}

/// A client's request at a gateway.
struct Request {
    enum State { case going, served, unavailable, unauthorized, lost }

    let session: Int
    let gateway: Int
    let process: Int
    let isProbe: Bool
    let startedAt: Int64
    var read: RecordRead?
    var state = State.going
}

/// A token refresh in progress, `f` in traces.
struct Refresh {
    let session: Int
    let gateway: Int
    let process: Int
    let startedAt: Int64
    /// Whether the process does not know of a failure shortly before.
    let isFresh: Bool
    var machine: TokenRefreshStateMachine
    var waiters: [Int] = []
    var action: TokenRefreshStateMachine.Action = .lease
    var read: RecordRead?
    /// The fence of the lease, and since when the journal has it.
    var lease: (fence: UInt64, at: Int64)?
    /// The version that is saved, or may be, with the slot's number and the time when the journal got it.
    var journaled: (version: UInt64, replacement: UInt32, at: Int64)?
    var hasSpent = false
    var isFinished = false
    /// Whether the refresh ended without saving the tokens that it received.
    var hasGivenUp = false
}

/// An attempt to sign in that the throttle counts.
struct Attempt {
    let key: Int
    let gateway: Int
    let startedAt: SessionTime
}

/// A sign-out of one session or of all sessions of an account.
struct SignOut {
    let gateway: Int
    let process: Int
    /// The sessions that were signed in when it was requested, and that have ended when it is acknowledged.
    var sessions: [Int]
    let account: Int?
    let keeps: Int
    var pending = 0
    var isConfirmed = true
    var hasFailed = false
}
