import NIOCore

@testable import CloakroomHTTP2

/// A frame as an independent implementation writes and reads it (RFC 9113 §4.1), byte by byte.
struct TestFrame: Equatable, CustomStringConvertible {
    var type: UInt8
    var flags: UInt8 = 0
    var stream: UInt32 = 0
    var payload: [UInt8] = []
    /// The length field, if it differs from that of the payload.
    var declaredLength: Int?

    init(_ type: UInt8, flags: UInt8 = 0, stream: UInt32 = 0, _ payload: [UInt8] = []) {
        self.type = type
        self.flags = flags
        self.stream = stream
        self.payload = payload
    }

    var bytes: [UInt8] {
        let length = declaredLength ?? payload.count
        return [UInt8(length >> 16 & 0xff), UInt8(length >> 8 & 0xff), UInt8(length & 0xff), type, flags]
            + Self.number(stream) + payload
    }

    /// Splits bytes into frames.
    /// - Returns: Complete frames, and the number of bytes after them.
    static func parse(_ bytes: [UInt8]) -> (frames: [TestFrame], rest: Int) {
        var frames: [TestFrame] = []
        var index = 0
        while bytes.count - index >= 9 {
            let length = Int(bytes[index]) << 16 | Int(bytes[index + 1]) << 8 | Int(bytes[index + 2])
            guard bytes.count - index - 9 >= length else { break }
            let stream = Self.number(bytes[(index + 5)..<(index + 9)])
            frames.append(
                TestFrame(
                    bytes[index + 3], flags: bytes[index + 4], stream: stream,
                    Array(bytes[(index + 9)..<(index + 9 + length)])))
            index += 9 + length
        }
        return (frames, bytes.count - index)
    }

    static func number(_ value: UInt32) -> [UInt8] {
        [UInt8(value >> 24), UInt8(value >> 16 & 0xff), UInt8(value >> 8 & 0xff), UInt8(value & 0xff)]
    }

    static func number(_ bytes: some Sequence<UInt8>) -> UInt32 {
        bytes.reduce(0) { $0 << 8 | UInt32($1) }
    }

    // MARK: - Frames

    static let preface = Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8)
    static let settingsAcknowledgement = TestFrame(4, flags: 1)

    static func data(_ stream: UInt32, _ payload: [UInt8], end: Bool = false, padding: Int? = nil) -> TestFrame {
        guard let padding else { return TestFrame(0, flags: end ? 1 : 0, stream: stream, payload) }
        return TestFrame(
            0, flags: 8 | (end ? 1 : 0), stream: stream,
            [UInt8(padding)] + payload + [UInt8](repeating: 0, count: padding))
    }

    static func data(_ stream: UInt32, _ text: String, end: Bool = false) -> TestFrame {
        data(stream, Array(text.utf8), end: end)
    }

    static func data(_ stream: UInt32, count: Int, end: Bool = false) -> TestFrame {
        data(stream, [UInt8](repeating: 0x61, count: count), end: end)
    }

    static func priority(_ stream: UInt32, on other: UInt32 = 0) -> TestFrame {
        TestFrame(2, stream: stream, number(other) + [15])
    }

    static func reset(_ stream: UInt32, _ code: HTTP2ErrorCode = .cancel) -> TestFrame {
        TestFrame(3, stream: stream, number(code.rawValue))
    }

    static func settings(_ parameters: KeyValuePairs<UInt16, UInt32> = [:]) -> TestFrame {
        TestFrame(4, parameters.flatMap { [UInt8($0.key >> 8), UInt8($0.key & 0xff)] + number($0.value) })
    }

    static func ping(_ value: UInt64 = 7, acknowledgement: Bool = false) -> TestFrame {
        TestFrame(
            6, flags: acknowledgement ? 1 : 0,
            number(UInt32(value >> 32)) + number(UInt32(truncatingIfNeeded: value)))
    }

    static func goAway(last: UInt32, _ code: HTTP2ErrorCode) -> TestFrame {
        TestFrame(7, number(last) + number(code.rawValue))
    }

    static func windowUpdate(_ stream: UInt32, _ increment: UInt32) -> TestFrame {
        TestFrame(8, stream: stream, number(increment))
    }

    // MARK: - Description

    var description: String {
        let names = [
            "DATA", "HEADERS", "PRIORITY", "RST_STREAM", "SETTINGS", "PUSH_PROMISE", "PING", "GOAWAY", "WINDOW_UPDATE",
            "CONTINUATION",
        ]
        let name = Int(type) < names.count ? names[Int(type)] : "type \(type)"
        let hex = payload.prefix(12).map { String($0, radix: 16) }.joined(separator: " ")
        return "\(name) stream \(stream) flags \(flags) \(payload.count) bytes: \(hex)"
    }

}
