public import NIOCore

/// Follows the frames of a WebSocket without looking into them: knows whether one is complete (RFC 6455 §5.2).
public struct WebSocketFrameTracker: Sendable, Equatable {
    /// How much of the current frame's payload is still to come.
    private var remaining: UInt64 = 0
    /// The head of the next frame, as far as it is there, and how long it is.
    private var head: UInt64 = 0
    private var headCount = 0
    private var headLength = 2

    /// Makes a scan that stands before the first frame.
    public init() {}

    /// Whether what was seen last is the end of a frame: another one may follow here.
    public var isAtFrameBoundary: Bool { remaining == 0 && headCount == 0 }

    /// Goes on over more bytes.
    public mutating func advance(over bytes: ByteBuffer) {
        let span = bytes.readableBytesUInt8Span
        var index = 0
        while index < span.count {
            if remaining > 0 {
                let step = Int(min(remaining, UInt64(span.count - index)))
                remaining -= UInt64(step)
                index += step
            } else {
                take(span[index])
                index += 1
            }
        }
    }

    /// Takes a byte of a frame's head: two bytes, then a longer length, then a mask.
    private mutating func take(_ byte: UInt8) {
        // Of the length only the last eight bytes count; what was before them falls out at the top.
        if headCount == 1 {
            let length = byte & 0x7f
            headLength = 2 + (length == 126 ? 2 : length == 127 ? 8 : 0) + (byte & 0x80 != 0 ? 4 : 0)
            head = UInt64(length)
        } else if headCount >= 2, headCount < lengthEnd {
            head = headCount == 2 ? UInt64(byte) : head << 8 | UInt64(byte)
        }
        headCount += 1
        guard headCount >= 2, headCount == headLength else { return }
        remaining = head
        head = 0
        headCount = 0
        headLength = 2
    }

    /// Where a longer length ends in the head.
    private var lengthEnd: Int {
        switch headLength {
        case 4, 8: 4
        case 10, 14: 10
        default: 2
        }
    }
}

/// The frame that ends a WebSocket (RFC 6455 §5.5.1).
public enum WebSocketClose {
    /// Why it is closed (RFC 6455 §7.4.1).
    public enum Code: UInt16, Sendable {
        /// The server goes down.
        case goingAway = 1_001
        /// It is no longer allowed.
        case policyViolation = 1_008
    }

    /// Makes the frame.
    /// - Parameter mask: Required towards a server, and never towards a client (RFC 6455 §5.1).
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
