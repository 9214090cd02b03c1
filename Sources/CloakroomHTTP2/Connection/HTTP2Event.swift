public import CloakroomWire
public import NIOCore

/// What the next part of a client's input means.
public enum HTTP2Event {
    /// All complete frames are handled.
    case needsInput
    /// A request has begun; its head is filled in.
    case request(slot: Int, RequestBlock, endsStream: Bool)
    /// A request has begun whose head exceeds a limit. It gets an error response on its stream.
    case oversizedRequest(slot: Int, WireError, endsStream: Bool)
    /// A malformed request was reset.
    case malformedRequest
    /// Part of a request body. The bytes count as held until ``HTTP2Connection/consumed(_:on:)``.
    case data(slot: Int, ByteBuffer, endsStream: Bool)
    /// The trailer section, which ends a request; `nil` if it has no field.
    case trailers(slot: Int, TrailerSection?)
    /// The stream in this slot is closed: it was reset by the client (`code` is `nil`), or for an error of the client.
    case closed(slot: Int, HTTP2ErrorCode?)
    /// More of a response may be sent.
    case sendWindowOpened
    /// The client's first SETTINGS were received.
    case settingsReceived
    /// The client acknowledged the PING that was sent with the GOAWAY of a graceful shutdown.
    case shutdownAcknowledged
    /// The client opens no more streams.
    case goAwayReceived
    /// The connection is broken; a GOAWAY with this code is in the output. There are no further events.
    case failed(HTTP2ErrorCode)
}

/// Settings of one side of a connection, and limits of the other.
public struct HTTP2ConnectionConfiguration: Sendable {
    /// Limits of request heads.
    public var headLimits: HeadLimits
    /// Maximum number of concurrent streams, 1...32,767.
    public var concurrentStreams: Int
    /// Receive window of a new stream, in bytes: what a stream may hold that waits for its upstream. Not less than the
    /// initial value of the protocol, because clients may send as much before they receive the SETTINGS.
    public var initialStreamWindow = 65_535
    /// Receive window of a stream once its body is being consumed, in bytes.
    public var streamWindow = 131_072

    /// Creates a configuration; numbers outside their range are clamped.
    public init(headLimits: HeadLimits, concurrentStreams: Int) {
        self.headLimits = headLimits
        self.concurrentStreams = min(max(concurrentStreams, 1), 32_767)
    }

    /// SETTINGS_MAX_HEADER_LIST_SIZE: each field counts 32 bytes more than its length (RFC 9113 §6.5.2).
    var headerListSize: Int { headLimits.head + headLimits.fields * 32 }

    /// Largest encoded header block that is decoded. Huffman coding makes a byte at most 30 bits long, so every head
    /// within the limits fits, and one above them is decoded too, so that the connection survives it.
    var headerBlockLimit: Int { max(131_072, headerListSize * 4) }
}
