/// Budget of one connection for everything that costs the gateway and not the client.
///
/// Each such event is charged with points; 10,000 points per window of 10 s are available. What regular clients do in
/// the course of useful work is returned with the work. A browser that cancels 100 images uses 1,200 points, a client
/// that sends a PING each second 20.
struct AbuseBudget {
    /// What an event is charged with, in points.
    enum Charge: Int {
        /// A frame that costs as little as it is useful: PING, PRIORITY, late DATA and RST_STREAM. Window updates of
        /// closed streams are free.
        case smallFrame = 2
        /// An unknown frame, or one almost without content: empty DATA, a short CONTINUATION, a window update of a few
        /// bytes.
        case emptyFrame = 10
        /// The client cancels a request, or opens more streams than allowed. 833 in a window.
        case cancelledRequest = 12
        /// A malformed request head: the gateway rejects it before it begins. 250 in a window.
        case malformedRequest = 40
        /// SETTINGS after the first. 200 in a window.
        case settings = 50
        /// What regular clients never send: an error on an open stream, which is reset for it (CVE-2025-8671), an empty
        /// CONTINUATION. 25 in a window.
        case provokedReset = 400
    }

    /// Points per window.
    static let limit = 10_000
    /// Length of a window in nanoseconds.
    static let window: UInt64 = 10_000_000_000
    /// Points for small frames that are returned with a response head or a DATA frame: two small frames.
    static let transferCredit = 4
    /// Points for cancelled requests that are returned with a complete response: one cancelled request.
    static let responseCredit = Charge.cancelledRequest.rawValue
    /// Points for cancelled requests that are returned in a window. Without a limit, cheap responses such as 304 would
    /// pay for any number. Browsers need none of it: all requests of a full connection can be cancelled eight times in a
    /// window. A proxy that serves many clients on one connection can cancel 1,250 requests.
    static let creditLimit = limit / 2

    private var start: UInt64
    private var spent = 0
    private var spentOnSmallFrames = 0
    private var spentOnCancelledRequests = 0
    private var credited = 0

    /// - Parameter now: Nanoseconds of a monotonic clock.
    init(now: UInt64) { start = now }

    /// Whether more than the budget was spent.
    var isExceeded: Bool { spent + spentOnSmallFrames + spentOnCancelledRequests > Self.limit }

    /// Part of a message was transferred: regular clients send small frames with it, such as a PING with each response.
    mutating func transferred() {
        spentOnSmallFrames = max(0, spentOnSmallFrames - Self.transferCredit)
    }

    /// A response of an upstream was sent completely: some clients of a proxy cancel while others are served.
    mutating func responded() {
        let credit = min(Self.responseCredit, spentOnCancelledRequests, Self.creditLimit - credited)
        spentOnCancelledRequests -= credit
        credited += credit
    }

    /// Charges an event.
    mutating func charge(_ charge: Charge, at now: UInt64) {
        if now &- start >= Self.window { self = AbuseBudget(now: now) }
        switch charge {
        case .smallFrame, .emptyFrame: spentOnSmallFrames += charge.rawValue
        case .cancelledRequest: spentOnCancelledRequests += charge.rawValue
        case .malformedRequest, .settings, .provokedReset: spent += charge.rawValue
        }
    }
}
