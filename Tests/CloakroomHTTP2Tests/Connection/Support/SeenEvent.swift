import CloakroomWire
import NIOCore

@testable import CloakroomHTTP2

/// An event of a connection with stream ids instead of slots, so that expectations can compare it.
enum SeenEvent: Equatable {
    case request(UInt32, String, end: Bool)
    case oversized(UInt32, WireError, end: Bool)
    case malformed
    case data(UInt32, String, end: Bool)
    case trailers(UInt32, [String])
    case closed(UInt32, HTTP2ErrorCode?)
    case windowOpened
    case settingsReceived
    case shutdownAcknowledged
    case goAwayReceived
    case failed(HTTP2ErrorCode)
}

extension SeenEvent {
    /// Joins adjacent parts of the same body, whose boundaries depend on how the input was cut.
    static func joined(_ events: [SeenEvent]) -> [SeenEvent] {
        var result: [SeenEvent] = []
        for event in events {
            if case .data(let id, let bytes, let end) = event, case .data(id, let before, false) = result.last {
                result[result.count - 1] = .data(id, before + bytes, end: end)
            } else {
                result.append(event)
            }
        }
        return result
    }
}

extension TrailerSection {
    var lines: [String] {
        String(buffer: bytes).split(separator: "\r\n").map(String.init)
    }
}

extension RequestHead {
    /// Method, target and fields.
    var text: String {
        let bytes = Array(bytes.readableBytesView)
        func string(_ range: ByteRange) -> String { String(decoding: bytes[range.start..<range.end], as: UTF8.self) }
        let lines = fields.dropFirst().map { "\(string($0.nameRange)): \(string($0.valueRange))" }
        return (["\(string(method)) \(string(target))"] + lines).joined(separator: ", ")
    }
}
