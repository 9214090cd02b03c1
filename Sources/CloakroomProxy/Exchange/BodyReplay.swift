import CloakroomWire
import NIOCore

/// The request body as far as it is buffered: before a connection to the upstream is leased, for sending the request
/// again, or as the complete body of an account request.
struct BodyReplay {
    private(set) var body = ByteBuffer()
    /// The kept fields of the trailer section of a chunked body.
    var trailers: ByteBuffer?
    /// Whether the body is kept for sending the request again.
    private(set) var isKept = false
    /// Maximum size in bytes of a body of unknown length that is kept.
    private var limit = Int.max
    /// Bytes that are counted as buffered in the event loop's budget.
    private(set) var countedBytes = 0
    /// Number of times that the upstream rejected the session's token.
    private var rejections = 0

    /// Maximum number of times that a request is sent again.
    private static let maximumReplays = 3

    /// A request with a token is forwarded. Its body is kept if it is known to be small.
    /// - Parameter limit: Maximum size in bytes of a body that is kept.
    mutating func keep(_ framing: BodyFraming, upTo limit: Int) {
        if case .length(let length) = framing { isKept = length <= limit }
    }

    /// A request that is forwarded before its body is known. The body is kept until it turns out to be large.
    /// - Parameter limit: Maximum size in bytes of a body that is kept.
    mutating func keepIfSmall(upTo limit: Int) {
        isKept = true
        self.limit = limit
    }

    /// Appends part of the body. Usually it arrives in one piece, which avoids a copy.
    mutating func append(_ bytes: ByteBuffer) {
        if body.readableBytes + bytes.readableBytes > limit {
            isKept = false
            body = ByteBuffer()
            return
        }
        guard body.readableBytes > 0 else {
            body = bytes
            return compact()
        }
        body.writeImmutableBuffer(bytes)
    }

    /// The body is complete before any of it was forwarded: it is kept as a whole.
    mutating func complete(trailers: ByteBuffer?) {
        isKept = true
        self.trailers = trailers
    }

    /// A small body that is kept until the response is not a slice of a large read.
    private mutating func compact() { body.releaseStorageOfLargeRead() }

    /// Moves the body to storage of its own.
    private mutating func own() {
        body = ByteBuffer(buffer: body)
    }

    /// The body has not arrived with its head: moves it to storage of its own, because a slice would keep the whole
    /// buffer of the read.
    /// - Returns: The additional bytes to count in the event loop's budget.
    mutating func hold() -> Int {
        if countedBytes == 0, body.storageCapacity > 2 * body.readableBytes { own() }
        let more = max(0, body.storageCapacity - countedBytes)
        countedBytes += more
        return more
    }

    /// The body is not buffered any more, and the request will not be sent again.
    /// - Returns: The bytes to return to the event loop's budget.
    mutating func discard() -> Int {
        defer { countedBytes = 0 }
        isKept = false
        body = ByteBuffer()
        trailers = nil
        return countedBytes
    }

    /// The exchange has ended. Most have no body, so that there is nothing to reset.
    /// - Returns: The bytes to return to the event loop's budget.
    mutating func reset() -> Int {
        guard body.capacity > 0 || isKept || rejections > 0 || countedBytes > 0 || limit < .max else { return 0 }
        defer { self = BodyReplay() }
        return countedBytes
    }

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

extension ByteBuffer {
    /// Moves bytes that are kept for a request to storage of their own, if they are a small part of a large read: a
    /// slice keeps the whole buffer of its read. Ordinary reads are smaller and cost no copy.
    ///
    /// Afterwards the storage has at most 16,384 bytes or four times the bytes, whichever is more.
    mutating func releaseStorageOfLargeRead() {
        guard storageCapacity > 16_384, storageCapacity / 4 > readableBytes else { return }
        self = ByteBuffer(buffer: self)
    }
}
