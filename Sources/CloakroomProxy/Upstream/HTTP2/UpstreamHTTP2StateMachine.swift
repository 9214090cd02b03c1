/// State of an HTTP/2 connection to an upstream: how many streams it can carry, and when it is closed.
///
/// Pure state machine, no I/O. Streams are counted when a request leases one (``reserve(now:)``), when its head is
/// written (``open()``), and when the stream is closed. All times are in nanoseconds of a monotonic clock.
///
/// NIOHTTP2 queues streams above the peer's limit and fails them later without closing anything, so the limit is
/// enforced here.
struct UpstreamHTTP2StateMachine {
    private enum State {
        /// The peer's SETTINGS frame has not been received: no request is sent, since the peer may not support HTTP/2.
        case settling
        case open
        /// The pool retired the connection: no streams are added, those that are leased continue.
        case retiring
        /// GOAWAY was received: no further heads are written.
        case closing
        case closed
    }

    private enum Ping {
        case none
        case sent
        /// No frame but the acknowledgement was received since: the silence is not probed again before the next request,
        /// because servers limit PING frames.
        case acknowledged
    }

    private var state = State.settling
    private let configuredStreams: Int
    private let idleTimeout: UInt64
    /// `SETTINGS_MAX_CONCURRENT_STREAMS` of the peer. Without the setting NIOHTTP2 applies 100.
    private var peerStreams = 100
    /// Streams that are leased and whose head is not written.
    private var unsent = 0
    /// Streams whose head is written and that are not closed.
    private(set) var open = 0
    private var nextID: Int32 = 1
    private var ping = Ping.none
    /// Time since which nothing was received although streams are in use.
    private var quietSince: UInt64 = 0
    /// Whether nothing was received since a head was written. Then the connection is probed even if all streams have
    /// ended: requests that time out one after the other would be sent to a disconnected peer for ever.
    private var isUnanswered = false
    private var resetWindowStart: UInt64 = 0
    private var resets = 0
    /// Time at which ``deadlineExpired(now:)`` has to be called, apart from ``drainDeadline``.
    private var probeDeadline: UInt64
    /// Time at which streams that are received only to be dropped are reset; `.max` if there are none.
    private(set) var drainDeadline = UInt64.max

    /// Silence after which a connection with streams is probed, in nanoseconds.
    static let pingInterval: UInt64 = 10_000_000_000
    /// Maximum time until the probe is acknowledged, in nanoseconds.
    static let pingTimeout: UInt64 = 5_000_000_000
    /// Maximum time in nanoseconds to receive a response that is dropped.
    static let drainTime: UInt64 = 1_000_000_000
    /// Maximum number of streams that are reset within ``resetWindow``. Servers end connections with more resets than
    /// they expect: some accept 200 in 30 s, others 20 of requests that they have not begun to process.
    static let maximumResets = 20
    /// In nanoseconds.
    static let resetWindow: UInt64 = 4_000_000_000
    /// Stream identifiers beyond this one are not used; the maximum is 2^31 - 1 (RFC 9113 §5.1.1).
    static let lastID: Int32 = 0x3fff_ffff

    /// - Parameters:
    ///   - streams: Maximum number of concurrent streams, at least 1.
    ///   - settleDeadline: Time until which the peer's SETTINGS frame has to be received.
    ///   - idleTimeout: Maximum time without a stream, in nanoseconds.
    init(streams: Int, settleDeadline: UInt64, idleTimeout: UInt64) {
        configuredStreams = max(streams, 1)
        self.idleTimeout = idleTimeout
        probeDeadline = settleDeadline
    }

    /// Time of the next deadline.
    var deadline: UInt64 { min(probeDeadline, drainDeadline) }

    /// Number of streams that can be added.
    var room: Int {
        guard state == .open, nextID <= Self.lastID else { return 0 }
        return max(min(configuredStreams, peerStreams) - open - unsent, 0)
    }

    /// Whether the connection is established and accepts requests, apart from its limit of streams.
    var isUsable: Bool { state == .open && nextID <= Self.lastID }
    var isClosed: Bool { state == .closed }
    /// Number of streams in use.
    var streams: Int { open + unsent }

    // MARK: - Streams

    /// A request leases a stream.
    /// - Returns: Whether there was room.
    mutating func reserve(now: UInt64) -> Bool {
        guard room > 0 else { return false }
        if (streams == 0 && !isUnanswered) || ping == .acknowledged {
            quietSince = now
            ping = .none
            probeDeadline = now &+ Self.pingInterval
        }
        unsent += 1
        return true
    }

    /// Whether the head of a leased request can be written. The peer may have lowered its limit since the lease.
    var canOpen: Bool {
        (state == .open || state == .retiring) && unsent > 0 && open < peerStreams && nextID <= Self.lastID
    }

    /// Number of leased requests whose head can be written within the peer's limit.
    var openable: Int { max(peerStreams - open, 0) }

    /// The head of a leased request is written.
    /// - Returns: The identifier of the stream; `nil` if it must not be opened.
    mutating func openStream() -> Int32? {
        guard canOpen else { return nil }
        unsent -= 1
        open += 1
        isUnanswered = true
        defer { nextID += 2 }
        return nextID
    }

    enum StreamEndAction: Equatable {
        /// There may be room for other requests.
        case checkRoom
        /// The connection is no longer needed.
        case close
        case nothing
    }

    /// A leased stream is not used.
    mutating func releaseUnsent(now: UInt64) -> StreamEndAction {
        guard unsent > 0 else { return .nothing }
        unsent -= 1
        return streamEnded(now: now)
    }

    mutating func streamClosed(now: UInt64) -> StreamEndAction {
        guard open > 0 else { return .nothing }
        open -= 1
        return streamEnded(now: now)
    }

    private mutating func streamEnded(now: UInt64) -> StreamEndAction {
        switch state {
        case .open:
            if streams == 0, !isUnanswered { probeDeadline = now &+ idleTimeout }
            return .checkRoom
        case .retiring where streams == 0, .closing where streams == 0:
            state = .closed
            return .close
        case .retiring, .closing, .settling, .closed:
            return .nothing
        }
    }

    /// A stream in progress is to be reset.
    /// - Returns: Whether that is permitted now. Otherwise the rest of the response is received and dropped, so that the
    ///   peer does not end the connection because of too many resets.
    mutating func mayReset(now: UInt64) -> Bool {
        if now &- resetWindowStart >= Self.resetWindow {
            resetWindowStart = now
            resets = 0
        }
        guard resets < Self.maximumResets else { return false }
        resets += 1
        return true
    }

    // MARK: - Frames

    enum SettingsAction: Equatable {
        /// The connection is established.
        case settled
        /// The number of streams may have changed.
        case checkRoom
    }

    /// A SETTINGS frame was received.
    /// - Parameter streams: `SETTINGS_MAX_CONCURRENT_STREAMS`, if it contains the setting.
    mutating func settingsReceived(streams: Int?, now: UInt64) -> SettingsAction {
        if let streams { peerStreams = max(streams, 0) }
        // A connection without room for a single request cannot serve one yet.
        guard state == .settling, peerStreams > 0 else { return .checkRoom }
        state = .open
        probeDeadline = now &+ idleTimeout
        return .settled
    }

    /// A frame other than the acknowledgement of a PING was received.
    mutating func frameReceived(now: UInt64) {
        quietSince = now
        let wasUnanswered = isUnanswered
        isUnanswered = false
        guard state == .open || streams > 0 else { return }
        if streams == 0 {
            if wasUnanswered { probeDeadline = now &+ idleTimeout }
        } else if ping != .none {
            probeDeadline = now &+ Self.pingInterval
        }
        ping = .none
    }

    /// The acknowledgement of a PING was received.
    mutating func pingAcknowledged(now: UInt64) {
        guard ping == .sent else { return }
        ping = .acknowledged
        isUnanswered = false
        probeDeadline = streams > 0 ? .max : now &+ idleTimeout
    }

    // MARK: - Responses that are dropped

    /// The response of a stream is received only to be dropped.
    mutating func draining(now: UInt64) {
        if drainDeadline == .max { drainDeadline = now &+ Self.drainTime }
    }

    /// ``drainDeadline`` has passed.
    mutating func drainingEnded() { drainDeadline = .max }

    enum ClosingAction: Equatable {
        /// No streams are added; the others continue.
        case drain
        /// No stream is in use.
        case close
        /// The connection is already closing.
        case nothing
    }

    /// GOAWAY was received, or the pool retires the connection.
    /// - Parameter isGoAway: Whether no further heads can be written. Leased streams whose head is not written are
    ///   released by the caller then.
    mutating func beginClosing(isGoAway: Bool) -> ClosingAction {
        switch state {
        case .settling, .open:
            if streams == 0 {
                close()
                return .close
            }
            state = isGoAway ? .closing : .retiring
            return .drain
        case .retiring where isGoAway:
            state = .closing
            return .drain
        case .retiring, .closing, .closed:
            return .nothing
        }
    }

    mutating func close() {
        state = .closed
        probeDeadline = .max
        drainDeadline = .max
    }

    // MARK: - Time

    enum DeadlineAction: Equatable {
        /// Send a PING frame.
        case ping
        /// The peer sent no SETTINGS, or does not respond: fail all streams and close.
        case fail
        /// The connection was idle for too long.
        case close
        case nothing
    }

    /// ``deadline`` has passed.
    mutating func deadlineExpired(now: UInt64) -> DeadlineAction {
        switch state {
        case .settling:
            close()
            return .fail
        case .closed:
            probeDeadline = .max
            return .nothing
        case .open where streams == 0 && !isUnanswered:
            close()
            return .close
        case .open, .retiring, .closing:
            return probe(now: now)
        }
    }

    private mutating func probe(now: UInt64) -> DeadlineAction {
        switch ping {
        case .acknowledged:
            probeDeadline = .max
            return .nothing
        case .sent:
            close()
            return .fail
        case .none:
            // The time may have been read before the last frame.
            let silence = now > quietSince ? now - quietSince : 0
            guard silence >= Self.pingInterval else {
                probeDeadline = quietSince &+ Self.pingInterval
                return .nothing
            }
            ping = .sent
            probeDeadline = now &+ Self.pingTimeout
            return .ping
        }
    }
}
