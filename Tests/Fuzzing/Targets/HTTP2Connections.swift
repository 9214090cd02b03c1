import CloakroomHTTP2
import CloakroomWire
import NIOCore

extension FuzzTarget {
    /// What a client sends on an HTTP/2 connection. Input that does not begin with a preface continues a connection.
    static let http2Connections = FuzzTarget(
        "http2-connections", words: HTTP2Fuzzing.frames.map { String(decoding: $0, as: UTF8.self) }
    ) { bytes throws(Violation) in
        let isWhole = bytes.starts(with: HTTP2Fuzzing.preface.prefix(4))
        try HTTP2Fuzzing.check(isWhole ? bytes : HTTP2Fuzzing.preface + HTTP2Fuzzing.settings + bytes)
    }

    /// Frames whose lengths are valid: four bytes for type, flags, stream and length, and the payload.
    static let http2Frames = FuzzTarget("http2-frames") { bytes throws(Violation) in
        try HTTP2Fuzzing.check(HTTP2Fuzzing.preface + HTTP2Fuzzing.settings + HTTP2Fuzzing.assemble(bytes))
    }
}

enum HTTP2Fuzzing {
    static let preface = Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8)
    static let settings: [UInt8] = [0, 0, 0, 4, 0, 0, 0, 0, 0]
    /// Header blocks: a GET, a POST with a literal that is indexed, one that is malformed, trailers, and a late index.
    private static let blocks: [[UInt8]] = [
        [0x82, 0x87, 0x84, 0x41, 1, 0x61], [0x83, 0x86, 0x84, 0x41, 1, 0x62, 0x40, 1, 0x78, 1, 0x79],
        [0x82, 0x84], [0, 1, 0x78, 1, 0x79], [0x82, 0x87, 0x84, 0xbe],
    ]
    /// Complete frames, for the dictionary of mutations: only bytes below 128 remain themselves in a string.
    static let frames: [[UInt8]] = [
        [0, 0, 8, 6, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8], [0, 0, 4, 8, 0, 0, 0, 0, 1, 0, 0, 0, 9],
        [0, 0, 4, 3, 0, 0, 0, 0, 1, 0, 0, 0, 8], [0, 0, 1, 0, 1, 0, 0, 0, 1, 97], [0, 0, 0, 9, 4, 0, 0, 0, 1],
        [0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 1], [0, 0, 5, 2, 0, 0, 0, 0, 1, 0, 0, 0, 0, 9],
    ]

    /// Builds frames from a description, which mutations can change without making lengths invalid.
    static func assemble(_ bytes: [UInt8]) -> [UInt8] {
        var output: [UInt8] = []
        var index = 0
        while bytes.count - index >= 4 {
            let (type, flags, stream, size) = (bytes[index], bytes[index + 1], bytes[index + 2], bytes[index + 3])
            index += 4
            var payload: [UInt8]
            if (type == 1 || type == 9) && size >= 0xf0 {
                payload = blocks[Int(size - 0xf0) % blocks.count]
            } else {
                let end = min(index + Int(size), bytes.count)
                payload = Array(bytes[index..<end])
                index = end
            }
            output += [0, 0, UInt8(payload.count), type, flags, 0, 0, stream >> 7, stream << 1 | (stream == 0 ? 0 : 1)]
            output += payload
        }
        return output
    }

    static func check(_ bytes: [UInt8]) throws(Violation) {
        let whole = try read(bytes, ends: [bytes.count])
        try HTTP2Output(whole.output).check(input: bytes.count)
        for ends in [Segments.single(in: bytes), Segments.random(in: bytes)] {
            let cut = try read(bytes, ends: ends)
            try require(cut == whole, "other events or output when cut at \(ends.prefix(16))")
        }
    }

    /// What a connection makes of its input.
    private struct Reading: Equatable {
        var events: [String] = []
        var output: [UInt8] = []
    }

    private static func read(_ bytes: [UInt8], ends: [Int]) throws(Violation) -> Reading {
        let limits = HeadLimits(head: 1_024, fields: 10, target: 64)
        let streams = 4
        var connection = HTTP2Connection(
            HTTP2ConnectionConfiguration(headLimits: limits, concurrentStreams: streams), now: 0)
        let cache = ResponseLineCache()
        var head = RequestHead()
        var input = ByteBuffer()
        var reading = Reading()
        var hasFailed = false
        var start = 0
        for end in ends {
            input.writeBytes(bytes[start..<end])
            start = end
            while true {
                let event = connection.next(&input, head: &head, now: 0)
                if case .needsInput = event { break }
                try require(!hasFailed, "an event after the failure")
                try note(event, of: connection, in: &reading)
                if case .failed = event { hasFailed = true }
                respond(to: event, &connection, cache)
                try require(connection.streamCount <= streams, "\(connection.streamCount) streams")
            }
        }
        reading.output = Array(connection.output.readableBytesView)
        return reading
    }

    private static func note(
        _ event: HTTP2Event, of connection: borrowing HTTP2Connection, in reading: inout Reading
    ) throws(Violation) {
        switch event {
        case .request(let slot, _, _), .oversizedRequest(let slot, _, _), .data(let slot, _, _), .trailers(let slot, _):
            try require(connection.isOpen(slot), "an event for slot \(slot), which is not open")
        case .closed(let slot, _):
            try require(!connection.isOpen(slot), "slot \(slot) is closed and open")
        default: break
        }
        if case .data(let slot, let bytes, let end) = event {
            // Where a body is cut depends on the input.
            let prefix = "data \(slot): "
            let text = bytes.readableBytesView.map { String($0) }.joined(separator: " ")
            if let last = reading.events.last, last.hasPrefix(prefix), !last.hasSuffix("end") {
                let isEmpty = text.isEmpty || last == prefix
                reading.events[reading.events.count - 1] += (isEmpty ? "" : " ") + text + (end ? " end" : "")
            } else {
                reading.events.append(prefix + text + (end ? " end" : ""))
            }
        } else if case .trailers(let slot, let section) = event {
            let lines = section.map { String(buffer: $0.bytes) } ?? ""
            reading.events.append("trailers \(slot): \(lines)")
        } else {
            reading.events.append("\(event)")
        }
    }

    /// Responds as far as it does not depend on how the input was cut.
    private static func respond(
        to event: HTTP2Event, _ connection: inout HTTP2Connection, _ cache: ResponseLineCache
    ) {
        switch event {
        case .request(let slot, _, let end):
            let start = connection.beginHeaders(status: 200)
            connection.addLines(Array("server: a\r\n".utf8).span, cache: cache)
            connection.endHeaders(start, on: slot, endsStream: false)
            connection.setPending(20, on: slot)
            if end, connection.canSend(3, on: slot) {
                connection.beginData(3, on: slot, endsStream: true)
                connection.output.writeRepeatingByte(0x61, count: 3)
                connection.finish(slot)
            }
        case .trailers(let slot, _), .oversizedRequest(let slot, _, _): connection.finish(slot)
        case .sendWindowOpened:
            while let turn = connection.nextTurn() {
                connection.beginData(turn.count, on: turn.slot, endsStream: false)
                connection.output.writeRepeatingByte(0x62, count: turn.count)
            }
        default: break
        }
    }
}

/// What a connection has sent, parsed by other code.
private struct HTTP2Output {
    private let bytes: [UInt8]

    init(_ bytes: [UInt8]) { self.bytes = bytes }

    func check(input count: Int) throws(Violation) {
        try require(bytes.count <= 30 * count + 1_000, "\(bytes.count) bytes were sent for \(count)")
        var index = 0
        var isClosed = false
        while index < bytes.count {
            try require(bytes.count - index >= 9, "an incomplete frame")
            let length = Int(bytes[index]) << 16 | Int(bytes[index + 1]) << 8 | Int(bytes[index + 2])
            let type = bytes[index + 3]
            let isOnConnection = bytes[(index + 5)..<(index + 9)].allSatisfy { $0 == 0 }
            try require(length <= 16_384 && bytes.count - index - 9 >= length, "a frame of \(length) bytes")
            try require(!isClosed, "a frame after GOAWAY")
            let fits =
                switch type {
                case 0, 1: !isOnConnection
                case 3: length == 4 && !isOnConnection
                case 4: length % 6 == 0 && isOnConnection
                case 6: length == 8 && isOnConnection
                case 7: length == 8 && isOnConnection
                case 8: length == 4
                default: false
                }
            try require(fits, "a frame of type \(type) with \(length) bytes")
            isClosed = type == 7
            index += 9 + length
        }
    }
}
