import CloakroomWire
import NIOCore

/// The request body as far as it is buffered: for sending the request again with another token, or as the complete body
/// of an account request.
struct BodyReplay {
    private(set) var body = ByteBuffer()
    /// Whether the body is kept for sending the request again.
    private(set) var isKept = false
    /// Number of times that the upstream rejected the session's token.
    private var rejections = 0
    /// Whether the request has been sent again. A connection failure is retried only before.
    private(set) var isSentAgain = false

    /// Maximum size in bytes of a body that is kept.
    private static let limit: Int = 16_384
    /// Maximum number of times that a request is sent again.
    private static let maximumReplays = 3

    /// A request with a token is forwarded. Its body is kept if it is known to be small.
    mutating func keep(_ framing: BodyFraming) {
        if case .length(let length) = framing { isKept = length <= Self.limit }
    }

    /// Appends part of the body. Usually it arrives in one piece, which avoids a copy.
    mutating func append(_ bytes: ByteBuffer) {
        if body.readableBytes == 0 { body = bytes } else { body.writeImmutableBuffer(bytes) }
    }

    /// The request will not be sent again.
    mutating func discard() {
        isKept = false
        body = ByteBuffer()
    }

    /// The exchange has ended. Most have no body, so that there is nothing to reset.
    mutating func reset() {
        if body.capacity > 0 || isKept || isSentAgain || rejections > 0 { self = BodyReplay() }
    }

    /// The request is sent again.
    mutating func sentAgain() { isSentAgain = true }

    /// The upstream rejected the session's token.
    /// - Parameter hasAged: Whether the token may have expired in transit, which explains the rejection. With token
    ///   lifetimes of seconds and a slow upstream this may happen more than once.
    /// - Returns: Whether another token may help.
    mutating func tokenRejected(hasAged: Bool) -> Bool {
        rejections += 1
        return rejections == 1 || (rejections <= Self.maximumReplays && hasAged)
    }

    /// Whether the complete body is available.
    func canReplay(_ framing: BodyFraming) -> Bool { framing == .none || isKept }
}
