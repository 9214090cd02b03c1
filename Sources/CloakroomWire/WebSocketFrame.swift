public import NIOCore

/// Tracks the frame boundaries of a WebSocket, and the size of its messages, without inspecting the payload
/// (RFC 6455 §5.2).
public struct WebSocketFrameTracker: Sendable, Equatable {
    /// The number of bytes of the current frame's payload that are still to be received.
    private var remaining: UInt64 = 0
    /// The received part of the next frame's head, and its length.
    private var head: UInt64 = 0
    private var headCount = 0
    private var headLength = 2
    /// The first byte of that head: FIN and the opcode.
    private var kind: UInt8 = 0
    /// The size of the current message so far, in bytes; 0 after its last frame.
    private var message: UInt64 = 0

    /// Creates a tracker at the start of the first frame.
    public init() {}

    /// Whether the position is a frame boundary, so that another frame may start.
    public var isAtFrameBoundary: Bool { remaining == 0 && headCount == 0 }

    /// Advances over more bytes.
    /// - Parameter limit: The maximum size of a message: the payload of all its frames, in bytes as they are sent.
    /// - Returns: `nil` if no message is larger. Otherwise the number of these bytes before the frame that exceeds the
    ///   limit: the position is the start of that frame, or, if earlier bytes are part of its head, within the head.
    @discardableResult
    public mutating func advance(over bytes: ByteBuffer, limit: UInt64 = .max) -> Int? {
        let span = bytes.readableBytesUInt8Span
        var index = 0
        // Where the current head begins; negative before these bytes.
        var start = -1
        while index < span.count {
            if remaining > 0 {
                let step = Int(min(remaining, UInt64(span.count - index)))
                remaining -= UInt64(step)
                index += step
            } else {
                if headCount == 0 { start = index }
                take(span[index])
                index += 1
                if headCount == 0, exceeds(limit) {
                    remaining = 0
                    headCount = start < 0 ? 1 : 0
                    return max(start, 0)
                }
            }
        }
        return nil
    }

    /// Adds a frame whose head is complete to its message. A control frame may occur within a message (RFC 6455 §5.4),
    /// but is not part of it, and has at most 125 bytes (§5.5).
    private mutating func exceeds(_ limit: UInt64) -> Bool {
        if kind & 0x08 != 0 { return remaining > max(limit, 125) }
        let (sum, isTooLarge) = message.addingReportingOverflow(remaining)
        let size = isTooLarge ? .max : sum
        message = kind & 0x80 == 0 ? size : 0
        return size > limit
    }

    /// Handles a byte of a frame's head: two bytes, then an extended length, then a mask.
    private mutating func take(_ byte: UInt8) {
        // Only the last eight bytes are the length; earlier bytes are shifted out.
        if headCount == 0 {
            kind = byte
        } else if headCount == 1 {
            let length = byte & 0x7f
            headLength = 2 + (length == 126 ? 2 : length == 127 ? 8 : 0) + (byte & 0x80 != 0 ? 4 : 0)
            head = UInt64(length)
        } else if headCount < lengthEnd {
            head = headCount == 2 ? UInt64(byte) : head << 8 | UInt64(byte)
        }
        headCount += 1
        guard headCount >= 2, headCount == headLength else { return }
        remaining = head
        head = 0
        headCount = 0
        headLength = 2
    }

    /// The end of an extended length in the head.
    private var lengthEnd: Int {
        switch headLength {
        case 4, 8: 4
        case 10, 14: 10
        default: 2
        }
    }
}

/// The close frame of a WebSocket (RFC 6455 §5.5.1).
public enum WebSocketClose {
    /// The status code (RFC 6455 §7.4.1).
    public enum Code: UInt16, Sendable {
        /// The server shuts down.
        case goingAway = 1_001
        /// The connection is no longer allowed.
        case policyViolation = 1_008
        /// A message is larger than allowed.
        case messageTooBig = 1_009
    }

    /// Creates the frame.
    /// - Parameter mask: Required for frames to a server; must be `nil` for frames to a client (RFC 6455 §5.1).
    public static func frame(_ code: Code, mask: UInt32?) -> ByteBuffer {
        var frame = ByteBuffer()
        frame.writeInteger(UInt8(0x88))
        guard let mask else {
            frame.writeInteger(UInt8(2))
            frame.writeInteger(code.rawValue)
            return frame
        }
        frame.writeInteger(UInt8(0x82))
        frame.writeInteger(mask)
        frame.writeInteger(code.rawValue ^ UInt16(truncatingIfNeeded: mask >> 16))
        return frame
    }
}
