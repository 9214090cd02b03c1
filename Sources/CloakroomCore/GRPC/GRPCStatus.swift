import CloakroomWire

/// The status of a gRPC call (gRPC over HTTP/2, "Responses").
///
/// Folder `GRPC/`: what the gateway itself adds to gRPC calls: the status of local responses, and deadlines.
public enum GRPCStatus: Int, Sendable, CaseIterable {
    /// The values of `grpc-status`.
    case ok = 0, cancelled, unknown, invalidArgument, deadlineExceeded, notFound, alreadyExists, permissionDenied
    case resourceExhausted, failedPrecondition, aborted, outOfRange, unimplemented, `internal`, unavailable, dataLoss
    case unauthenticated

    /// Parses the value of `grpc-status`.
    /// - Returns: `nil` if it is not a known status.
    public init?(_ value: Span<UInt8>) {
        guard value.count <= 2, let number = Byte.number(value, atMost: 99) else { return nil }
        self.init(rawValue: number)
    }

    /// The status of a call that gets a local response.
    /// - Parameter status: The HTTP status that a request without gRPC would get.
    public init(httpStatus status: Int) {
        self =
            switch status {
            case 401: .unauthenticated
            case 403: .permissionDenied
            case 404, 405, 415, 501, 505: .unimplemented
            case 408, 504: .deadlineExceeded
            case 413, 414, 429, 431: .resourceExhausted
            case 502, 503: .unavailable
            case 400...499: .internal
            default: .unknown
            }
    }

    /// The field lines of a response that consists of trailers only, without the HTTP status, which is 200.
    /// - Parameter message: The text of `grpc-message`.
    public func trailersOnlyLines(message: String) -> [UInt8] {
        Array("Content-Type: application/grpc\r\ngrpc-status: \(rawValue)\r\ngrpc-message: ".utf8)
            + Self.encoded(message) + [0x0d, 0x0a]
    }

    /// Percent-encodes a message: all bytes but visible ASCII and the space, and the percent sign itself.
    static func encoded(_ message: String) -> [UInt8] {
        Byte.percentEncoded(message) { (0x20...0x7e).contains($0) && $0 != UInt8(ascii: "%") }
    }
}
