public import CloakroomWire

/// The meaning of a request's header block. The state of the decoder is valid in all cases.
public enum RequestBlockResult: Sendable, Equatable {
    /// A request; its head has been written.
    case request(RequestBlock)
    /// A malformed request: a stream error of type PROTOCOL_ERROR (RFC 9113 §8.1.1). The head is empty.
    case malformed
    /// The request exceeds a limit: ``WireError/headTooLarge``, ``WireError/tooManyFields`` or
    /// ``WireError/targetTooLong``. It gets an error response. The head is empty.
    case tooLarge(WireError)
}

/// Properties of a request that its head does not contain.
public struct RequestBlock: Sendable, Equatable {
    /// The `:protocol` of an extended CONNECT.
    public var tunnel = TunnelProtocol.none
    /// The urgency, 0...7, from the field `priority` (RFC 9218 §4.1); 0 is the most urgent.
    public var urgency: UInt8 = 3
    /// Whether the response can be processed in pieces, from the field `priority` (RFC 9218 §4.2).
    public var isIncremental = false

    /// Creates the properties of an ordinary request.
    public init() {}
}

/// The protocol that an extended CONNECT requests (RFC 8441 §4).
public enum TunnelProtocol: Sendable, Hashable {
    /// Not an extended CONNECT.
    case none
    /// `websocket`.
    case webSocket
    /// Any other protocol.
    case other
}

/// The meaning of the header block after a request's body. The state of the decoder is valid in all cases.
public enum TrailerBlockResult: Sendable, Equatable {
    /// The trailer section; `nil` if the block has no field.
    case trailers(TrailerSection?)
    /// A malformed or too large section: a stream error of type PROTOCOL_ERROR (RFC 9113 §8.1).
    case malformed
}
