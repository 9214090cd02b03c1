import NIOCore
import NIOHTTP2

/// A frame, valid or invalid (RFC 9113 §4.1).
struct HTTP2WireFrame: Sendable {
    var type: UInt8
    var flags: UInt8 = 0
    var stream: UInt32 = 0
    var payload: [UInt8] = []
    /// The payload length in the frame header, if it differs from the true length.
    var claimedLength: Int?

    var bytes: [UInt8] {
        let length = UInt32(claimedLength ?? payload.count)
        return Array(HTTP2Bytes.of(length).dropFirst()) + [type, flags] + HTTP2Bytes.of(stream) + payload
    }

    /// Consumes the next frame of received bytes, once it is complete.
    static func next(
        in unread: inout ByteBuffer
    ) -> (type: UInt8, flags: UInt8, stream: UInt32, payload: ByteBuffer)? {
        guard let head = unread.getBytes(at: unread.readerIndex, length: 9) else { return nil }
        let length = Int(HTTP2Bytes.number(head[0..<3]))
        guard unread.readableBytes >= 9 + length else { return nil }
        unread.moveReaderIndex(forwardBy: 9)
        guard let payload = unread.readSlice(length: length) else { return nil }
        return (head[3], head[4], HTTP2Bytes.number(head[5..<9]), payload)
    }
}

/// Numbers in network byte order.
enum HTTP2Bytes {
    static func of(_ number: UInt32) -> [UInt8] {
        [24, 16, 8, 0].map { UInt8(truncatingIfNeeded: number >> $0) }
    }

    static func number(_ bytes: some Sequence<UInt8>) -> UInt32 {
        bytes.reduce(0) { $0 << 8 | UInt32($1) }
    }
}

extension HTTP2WireFrame {
    /// The connection preface of a client (RFC 9113 §3.4).
    static let preface = Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8)

    static let endStream: UInt8 = 0x1
    static let endHeaders: UInt8 = 0x4
    static let padded: UInt8 = 0x8
    static let hasPriority: UInt8 = 0x20

    static func data(_ stream: UInt32, _ bytes: [UInt8] = [], ends: Bool = false, padding: UInt8? = nil) -> Self {
        var payload = bytes
        if let padding { payload = [padding] + bytes + Array(repeating: 0, count: Int(padding)) }
        return Self(
            type: 0, flags: (ends ? endStream : 0) | (padding == nil ? 0 : padded), stream: stream, payload: payload)
    }

    static func data(_ stream: UInt32, _ text: String, ends: Bool = false) -> Self {
        data(stream, Array(text.utf8), ends: ends)
    }

    static func headers(_ stream: UInt32, _ fields: HTTP2Fields, ends: Bool = true) -> Self {
        headers(stream, block: fields.block, ends: ends)
    }

    static func headers(_ stream: UInt32, block: [UInt8], ends: Bool = true, isWhole: Bool = true) -> Self {
        Self(type: 1, flags: (ends ? endStream : 0) | (isWhole ? endHeaders : 0), stream: stream, payload: block)
    }

    static func priority(_ stream: UInt32, dependsOn other: UInt32 = 0) -> Self {
        Self(type: 2, stream: stream, payload: HTTP2Bytes.of(other) + [15])
    }

    static func reset(_ stream: UInt32, _ code: HTTP2ErrorCode = .cancel) -> Self {
        Self(type: 3, stream: stream, payload: HTTP2Bytes.of(UInt32(code.networkCode)))
    }

    static func settings(_ settings: [HTTP2WireSetting] = []) -> Self {
        Self(type: 4, payload: settings.flatMap(\.bytes))
    }

    static let settingsAck = Self(type: 4, flags: 1)

    static func pushPromise(_ stream: UInt32, promised: UInt32, _ fields: HTTP2Fields) -> Self {
        Self(type: 5, flags: endHeaders, stream: stream, payload: HTTP2Bytes.of(promised) + fields.block)
    }

    static func ping(_ number: UInt8 = 1, isAck: Bool = false) -> Self {
        Self(type: 6, flags: isAck ? 1 : 0, payload: Array(repeating: number, count: 8))
    }

    static func goAway(last: UInt32 = 0, _ code: HTTP2ErrorCode = .noError) -> Self {
        Self(type: 7, payload: HTTP2Bytes.of(last) + HTTP2Bytes.of(UInt32(code.networkCode)))
    }

    static func windowUpdate(_ stream: UInt32, _ increment: Int) -> Self {
        Self(type: 8, stream: stream, payload: HTTP2Bytes.of(UInt32(increment)))
    }

    static func continuation(_ stream: UInt32, block: [UInt8], isWhole: Bool) -> Self {
        Self(type: 9, flags: isWhole ? endHeaders : 0, stream: stream, payload: block)
    }
}

/// One setting (RFC 9113 §6.5.1).
struct HTTP2WireSetting: Sendable {
    var id: UInt16
    var value: UInt32

    var bytes: [UInt8] { [UInt8(id >> 8), UInt8(id & 0xff)] + HTTP2Bytes.of(value) }

    static func initialWindow(_ size: Int) -> Self { Self(id: 4, value: UInt32(size)) }
}

/// Fields of a header block, all encoded as literals without indexing, so that any bytes can be sent
/// (RFC 7541 §6.2.2).
struct HTTP2Fields: Sendable {
    var lines: [(name: [UInt8], value: [UInt8])] = []

    init(_ lines: [(String, String)]) {
        self.lines = lines.map { (Array($0.0.utf8), Array($0.1.utf8)) }
    }

    var block: [UInt8] {
        lines.flatMap { [0] + Self.text($0.name) + Self.text($0.value) }
    }

    private static func text(_ bytes: [UInt8]) -> [UInt8] {
        integer(bytes.count, prefix: 7) + bytes
    }

    /// An integer in the encoding of RFC 7541 §5.1, with the preceding bits zero.
    static func integer(_ value: Int, prefix: Int) -> [UInt8] {
        let most = 1 << prefix - 1
        guard value >= most else { return [UInt8(value)] }
        var bytes = [UInt8(most)]
        var rest = value - most
        while rest >= 128 {
            bytes.append(UInt8(rest & 127 | 128))
            rest >>= 7
        }
        bytes.append(UInt8(rest))
        return bytes
    }

    /// An ordinary request.
    static func request(
        _ method: String, _ path: String = "/public/a", _ fields: (String, String)...
    ) -> HTTP2Fields {
        HTTP2Fields(
            [(":method", method), (":scheme", "http"), (":authority", "gateway.test"), (":path", path)] + fields)
    }

    static func get(_ path: String = "/public/a", _ fields: (String, String)...) -> HTTP2Fields {
        var request = request("GET", path)
        request.lines += HTTP2Fields(fields).lines
        return request
    }

    static func post(_ path: String = "/public/a", _ fields: (String, String)...) -> HTTP2Fields {
        var request = request("POST", path)
        request.lines += HTTP2Fields(fields).lines
        return request
    }

    /// A WebSocket request (RFC 8441 §5).
    static func webSocket(_ path: String = "/socket/a", protocol name: String = "websocket") -> HTTP2Fields {
        HTTP2Fields([
            (":method", "CONNECT"), (":protocol", name), (":scheme", "http"), (":path", path),
            (":authority", "gateway.test"), ("sec-websocket-version", "13"),
        ])
    }
}
