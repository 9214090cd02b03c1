import CloakroomCore
import CloakroomTelemetry
import CloakroomWire
import NIOCore

/// A long-lived response: the tunnel of an upgraded connection, or an event stream. It continues while data is
/// transferred, at most until its session ends.
///
/// Pure value, no I/O: the exchange looks up sessions and closes connections.
struct Tunnel {
    enum Kind: Equatable {
        /// An upgraded connection, relayed in both directions.
        case upgraded
        /// An event stream. Endless if its framing gives no length.
        case eventStream(isEndless: Bool)
    }

    /// Why a response is ended that could continue.
    enum EndReason {
        case draining
        /// The configuration has changed, and the route with it; the client reconnects.
        case routeChanged
        case sessionEnded
        /// Its lifetime is over; the client reconnects.
        case lifetime
        /// A message is larger than allowed.
        case messageTooBig

        var errorType: ExchangeErrorType {
            switch self {
            case .draining: .draining
            case .routeChanged: .routeChanged
            case .sessionEnded: .sessionEnded
            case .lifetime: .streamLifetime
            case .messageTooBig: .bodyTooLarge
            }
        }

        var closeCode: WebSocketClose.Code {
            switch self {
            case .draining, .routeChanged, .lifetime: .goingAway
            case .sessionEnded: .policyViolation
            case .messageTooBig: .messageTooBig
            }
        }
    }

    let kind: Kind
    /// Time at which ``deadlineExpired(now:)`` has to be called.
    var deadline: UInt64 {
        let deadline = isSessionWatched ? min(idleDeadline, sessionDeadline) : idleDeadline
        return min(deadline, isInLastFrame ? end &+ Self.lastFrameTime : end)
    }

    /// Whether its lifetime has ended, and now also the frame that was being transferred then.
    var hasFinishedLastFrame: Bool { isInLastFrame && isAtFrameBoundary }

    private let idleTimeout: UInt64
    /// The end of its lifetime; the greatest value if it is unlimited.
    private let end: UInt64
    /// Whether its lifetime has ended within a frame.
    private var isInLastFrame = false
    /// The maximum size of a message, in bytes.
    private let maxMessage: UInt64
    private let isSessionWatched: Bool
    /// The time at which a session that is bound to a device would have to prove itself again.
    private let proofEnd: UInt64
    /// Whether it is bound, perhaps only since the response began.
    private var isBound: Bool
    private let sessionEnd: SessionTime?
    private var idleDeadline: UInt64
    /// Time of the next session check.
    private var sessionDeadline: UInt64
    private var isSessionLoading = false
    /// The session of an access token, as its provider has stated it last; `nil` for a session of the store.
    private(set) var tokenSession: Session?
    /// Since when it is unknown whether the session may be used; `nil` while that is known.
    private var unknownSince: UInt64?
    /// Whether the client has sent data since the last session check.
    private var hasClientActivity = false
    private var downstreamFrames = WebSocketFrameTracker()
    private var upstreamFrames = WebSocketFrameTracker()

    /// Interval between session checks, in nanoseconds.
    private static let sessionInterval: UInt64 = 1_000_000_000
    /// How long a response may continue while the provider of its access token does not respond, in nanoseconds.
    private static let maxUnknown: UInt64 = 60_000_000_000
    /// How long a frame may last at the end of the lifetime, in nanoseconds.
    private static let lastFrameTime: UInt64 = 10_000_000_000

    /// - Parameters:
    ///   - permit: The permit of the request; its session is checked, if it has one.
    ///   - idleTimeout: Maximum time without data, in nanoseconds.
    ///   - lifetime: Maximum time in nanoseconds, ± 10 %; 0 for none.
    ///   - proofLifetime: Maximum time in nanoseconds for a session that is bound to a device.
    ///   - isOfToken: Whether the session is that of an access token: it is in no store.
    ///   - maxMessage: Maximum size of a WebSocket message, in bytes; 0 for none.
    ///   - random: Random bits, with which responses that began together do not end together.
    init(
        _ kind: Kind, permit: UpstreamPermit?, idleTimeout: UInt64, lifetime: UInt64, proofLifetime: UInt64 = .max,
        isOfToken: Bool = false, maxMessage: Int, random: UInt64, now: UInt64
    ) {
        tokenSession = isOfToken ? permit?.session : nil
        proofEnd = now.addingClamped(proofLifetime)
        isBound = permit?.session?.isBoundToDevice == true
        self.kind = kind
        self.idleTimeout = idleTimeout
        end = lifetime == 0 ? .max : now &+ (lifetime - lifetime / 10 + random % (lifetime / 5 + 1))
        self.maxMessage = maxMessage == 0 ? .max : UInt64(maxMessage)
        isSessionWatched = permit?.hasSession == true
        sessionEnd = permit?.sessionEnd
        idleDeadline = now &+ idleTimeout
        sessionDeadline = now &+ Self.sessionInterval
    }

    // MARK: - Data

    /// Data was transferred. It does not postpone the session check.
    mutating func activity(now: UInt64) { idleDeadline = now &+ idleTimeout }

    /// Data of the client is forwarded to the upstream.
    /// - Returns: If a message is larger than allowed, how many of the bytes may be forwarded: then it has to end.
    mutating func forwardedToUpstream(_ bytes: ByteBuffer, now: UInt64) -> Int? {
        hasClientActivity = true
        activity(now: now)
        return upstreamFrames.advance(over: bytes, limit: maxMessage)
    }

    /// Data of the upstream is forwarded to the client.
    /// - Returns: As ``forwardedToUpstream(_:now:)``.
    mutating func forwardedToClient(_ bytes: ByteBuffer) -> Int? {
        kind == .upgraded ? downstreamFrames.advance(over: bytes, limit: maxMessage) : nil
    }

    private var isAtFrameBoundary: Bool { downstreamFrames.isAtFrameBoundary && upstreamFrames.isAtFrameBoundary }

    // MARK: - Deadlines

    enum DeadlineAction: Equatable {
        /// Look up the session and call ``sessionLookedUp(_:at:now:)``.
        /// - Parameter isUsed: Whether the client has used the session since the last check.
        case recheckSession(isUsed: Bool)
        /// Load the session and call ``sessionLoaded(_:isOver:)``. The response continues meanwhile.
        case loadSession
        /// The response continues until ``deadline``.
        case `continue`
        /// The idle timeout has passed.
        case timeOut
        case close(EndReason)
    }

    /// ``deadline`` has passed.
    mutating func deadlineExpired(now: UInt64) -> DeadlineAction {
        if now >= end {
            // A Close frame cannot be sent within another frame, so that one may end first.
            guard !isAtFrameBoundary, now < end &+ Self.lastFrameTime else { return .close(.lifetime) }
            isInLastFrame = true
        }
        guard isSessionWatched else { return checkIdleTimeout(now: now) }
        // The session is checked each second.
        guard now < proofEnd || !isBound else { return .close(.sessionEnded) }
        return recheckSession()
    }

    /// Sessions of the store have changed, perhaps that of this response: it is checked before its next check is due. Those of
    /// tokens are in no store.
    mutating func sessionsChanged() -> DeadlineAction {
        isSessionWatched && tokenSession == nil ? recheckSession() : .continue
    }

    private mutating func recheckSession() -> DeadlineAction {
        defer { hasClientActivity = false }
        return .recheckSession(isUsed: hasClientActivity)
    }

    /// The session was looked up.
    ///
    /// The response continues for as long as the session may be used, also if `maxAge` of its route has passed.
    /// - Parameter time: Session time of `now`.
    mutating func sessionLookedUp(_ admission: SessionAdmission, at time: SessionTime, now: UInt64) -> DeadlineAction {
        if admission.endsResponse { return .close(.sessionEnded) }
        switch admission {
        case .admitted(let session, _), .denied(_, let session): isBound = isBound || session.isBoundToDevice
        case .missing, .notCached: break
        }
        guard case .notCached = admission else {
            unknownSince = nil
            return checkIdleTimeout(now: now)
        }
        // A store has other ways to end a response. A provider only has its statement about the token.
        let since = unknownSince ?? now
        unknownSince = since
        if tokenSession != nil, now &- since >= Self.maxUnknown { return .close(.sessionEnded) }
        // The session's absolute end is known and fixed, so it applies even if the store is unreachable.
        if let sessionEnd, time >= sessionEnd { return .close(.sessionEnded) }
        let action = checkIdleTimeout(now: now)
        guard action == .continue, !isSessionLoading else { return action }
        isSessionLoading = true
        return .loadSession
    }

    /// The session was loaded.
    /// - Parameters:
    ///   - lookup: `nil` if the store, or the provider of an access token, has not responded. That ends no session.
    ///   - isOver: Whether the response has to end.
    mutating func sessionLoaded(_ lookup: SessionLookup?, isOver: Bool) -> DeadlineAction {
        assert(isSessionLoading, "no session was being loaded")
        isSessionLoading = false
        if lookup != nil { unknownSince = nil }
        if case .active(let session)? = lookup {
            isBound = isBound || session.isBoundToDevice
            if tokenSession != nil { tokenSession = session }
        }
        return isOver ? .close(.sessionEnded) : .continue
    }

    private mutating func checkIdleTimeout(now: UInt64) -> DeadlineAction {
        guard idleDeadline > now else { return .timeOut }
        sessionDeadline = now &+ Self.sessionInterval
        return .continue
    }

    // MARK: - Ends

    /// Whether draining ends the response. Other responses end by themselves.
    var endsWhenDraining: Bool { kind != .eventStream(isEndless: false) }

    enum EndAction: Equatable {
        /// End both directions. A close frame is sent only at a frame boundary.
        case closeFrames(WebSocketClose.Code, toClient: Bool, toUpstream: Bool)
        /// Complete the response: the client reconnects (HTML §9.2.3). The last event may be truncated; clients discard
        /// an incomplete event.
        case complete
        /// Abort the response: the client must notice that it is incomplete.
        case abort
    }

    /// The response has to end.
    func end(_ reason: EndReason) -> EndAction {
        switch (kind, reason) {
        case (.upgraded, _):
            .closeFrames(
                reason.closeCode, toClient: downstreamFrames.isAtFrameBoundary,
                toUpstream: upstreamFrames.isAtFrameBoundary)
        case (.eventStream(isEndless: true), .draining), (.eventStream(isEndless: true), .lifetime): .complete
        case (.eventStream, _): .abort
        }
    }
}
