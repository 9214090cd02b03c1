import CloakroomWire
import Logging

/// Logs rejected messages and their peers, at most 10 lines per 10 s and event loop, so that clients cannot fill the
/// disk. The metric counts all of them.
struct RejectionLog {
    private let logger: Logger
    /// Line budget of one event loop.
    private var lines = FixedWindowLimiter(limit: 10)

    init(_ logger: Logger) {
        self.logger = logger
    }

    /// Logs a rejected message, if the limit allows.
    /// - Parameter now: Nanoseconds of a monotonic clock.
    mutating func note(_ error: StaticString, peer: String, now: UInt64) {
        guard lines.tryAcquire(at: now) else { return }
        logger.info("malformed request rejected", metadata: ["error_type": "\(error)", "peer": "\(peer)"])
    }
}

/// Limits events to a number per fixed window of 10 s.
struct FixedWindowLimiter {
    private let limit: Int
    private var count = 0
    private var windowEnd: UInt64 = 0

    /// Window length in nanoseconds.
    private static let window: UInt64 = 10_000_000_000

    /// - Parameter limit: Number of events allowed per window.
    init(limit: Int) {
        self.limit = limit
    }

    /// Counts an event.
    /// - Parameter now: Nanoseconds of a monotonic clock.
    /// - Returns: Whether the event is within the limit.
    mutating func tryAcquire(at now: UInt64) -> Bool {
        if now >= windowEnd {
            windowEnd = now &+ Self.window
            count = 0
        }
        count += 1
        return count <= limit
    }
}

extension WireError {
    /// The value of the metric label.
    var label: StaticString {
        switch self {
        case .requestLine: "request_line"
        case .statusLine: "status_line"
        case .version: "version"
        case .lineEnd: "line_end"
        case .fieldName: "field_name"
        case .fieldValue: "field_value"
        case .foldedLine: "folded_line"
        case .headTooLarge: "head_too_large"
        case .tooManyFields: "too_many_fields"
        case .targetTooLong: "target_too_long"
        case .host: "host"
        case .connectionOptions: "connection_options"
        case .contentLength: "content_length"
        case .lengthAndCoding: "length_and_coding"
        case .transferCoding: "transfer_coding"
        case .unknownCoding: "unknown_coding"
        case .chunkSize: "chunk_size"
        case .chunkExtension: "chunk_extension"
        case .chunkEnd: "chunk_end"
        case .trailer: "trailer"
        }
    }
}
