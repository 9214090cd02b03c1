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
}

/// The protocol that an extended CONNECT requests (RFC 8441 §4).
public enum TunnelProtocol: Sendable, Hashable {
    /// Not an extended CONNECT.
    case none
    /// `websocket`.
    case webSocket
    case other
}

/// The meaning of the header block after a request's body. The state of the decoder is valid in all cases.
public enum TrailerBlockResult: Sendable, Equatable {
    /// The trailer section; `nil` if the block has no field.
    case trailers(TrailerSection?)
    /// A malformed or too large section: a stream error of type PROTOCOL_ERROR (RFC 9113 §8.1).
    case malformed
}

/// The field `priority` of a request (RFC 9218 §4, §5).
enum PriorityField {
    /// Applies the members of a field value; unknown and invalid ones are ignored (RFC 9218 §4).
    static func apply(_ bytes: Span<UInt8>, from start: Int, count: Int, to request: inout RequestBlock) {
        let end = start + count
        var index = start
        while index < end {
            var memberEnd = index
            while memberEnd < end, bytes[memberEnd] != UInt8(ascii: ",") { memberEnd += 1 }
            var last = index
            // Parameters of a member have no meaning.
            while last < memberEnd, bytes[last] != UInt8(ascii: ";") { last += 1 }
            var first = index
            while first < last, Byte.isBlank(bytes[first]) { first += 1 }
            while last > first, Byte.isBlank(bytes[last - 1]) { last -= 1 }
            applyMember(bytes, first, last - first, to: &request)
            index = memberEnd + 1
        }
    }

    private static func applyMember(
        _ bytes: Span<UInt8>, _ start: Int, _ count: Int, to request: inout RequestBlock
    ) {
        if count == 3, bytes[start] == UInt8(ascii: "u"), bytes[start + 1] == UInt8(ascii: "=") {
            let digit = bytes[start + 2]
            if digit >= UInt8(ascii: "0"), digit <= UInt8(ascii: "7") { request.urgency = digit - UInt8(ascii: "0") }
        } else if bytes.matches("i", at: start, count: count) || bytes.matches("i=?1", at: start, count: count) {
            request.isIncremental = true
        } else if bytes.matches("i=?0", at: start, count: count) {
            request.isIncremental = false
        }
    }
}
