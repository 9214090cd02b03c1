/// Deadlines of an HTTP/2 connection and its streams, as times of the event loop's clock; `UInt64.max` for none.
///
/// A plain value: the event loop compares ``next`` with the time at each tick, so no request needs a timer.
struct HTTP2Deadlines {
    enum Expiry: Equatable {
        /// A frame or a header block is incomplete.
        case incompleteFrame
        /// At least one stream may be due.
        case streams
        /// There was no request for ``quietTime``.
        case quiet
        /// The client knows for long enough that the connection ends.
        case announcement
        /// There was no request for too long.
        case idle
        case none
    }

    /// End of the connection without an open stream.
    var idle = UInt64.max
    /// Not later than the deadline of any stream: when it expires, all streams are examined.
    var streams = UInt64.max
    /// The connection frees memory.
    private var quiet = UInt64.max
    /// The final GOAWAY is due; further requests do not defer it.
    private var announcement = UInt64.max
    /// Of an incomplete frame, counted from its first byte.
    private var frame = UInt64.max
    /// Of an incomplete header block, counted from its first frame.
    private var block = UInt64.max

    /// Whether a frame or a header block has arrived in part.
    var hasIncompleteFrame: Bool { frame != .max || block != .max }

    /// Time without a request after which memory is freed, in nanoseconds.
    static let quietTime: UInt64 = 2_000_000_000

    /// The earliest deadline.
    var next: UInt64 { min(min(idle, streams), min(quiet, announcement), min(frame, block)) }

    mutating func set(_ deadline: UInt64) { streams = min(streams, deadline) }

    /// Input was handled.
    /// - Parameters:
    ///   - isFramePartial: Whether the input ended within a frame other than DATA.
    ///   - isFrameComplete: Whether at least one frame was completed.
    ///   - isInHeaderBlock: Whether further frames of a header block must follow.
    ///   - expiry: The deadline for what is incomplete.
    mutating func received(isFramePartial: Bool, isFrameComplete: Bool, isInHeaderBlock: Bool, expiry: UInt64) {
        if !isFramePartial {
            frame = .max
        } else if isFrameComplete || frame == .max {
            frame = expiry
        }
        if !isInHeaderBlock {
            block = .max
        } else if block == .max {
            block = expiry
        }
    }

    /// Reading is paused: nothing can complete a frame.
    mutating func suspendFrames() {
        frame = .max
        block = .max
    }

    /// A GOAWAY was sent or received.
    /// - Parameter deadline: When the final one is due, if it has not been sent before.
    mutating func announced(_ deadline: UInt64) { announcement = min(announcement, deadline) }

    mutating func requestBegan() {
        idle = .max
        quiet = .max
    }

    /// The last open stream has ended.
    /// - Parameter idle: Time until the connection ends, in nanoseconds.
    mutating func streamsEnded(now: UInt64, idle: UInt64) {
        self.idle = now &+ idle
        quiet = now &+ Self.quietTime
        streams = .max
    }

    /// - Returns: What has expired first; its deadline is cleared.
    mutating func expire(now: UInt64) -> Expiry {
        if frame <= now || block <= now {
            self = HTTP2Deadlines()
            return .incompleteFrame
        }
        if streams <= now {
            streams = .max
            return .streams
        }
        if quiet <= now {
            quiet = .max
            return .quiet
        }
        if announcement <= now {
            announcement = .max
            return .announcement
        }
        if idle <= now {
            idle = .max
            return .idle
        }
        return .none
    }
}
