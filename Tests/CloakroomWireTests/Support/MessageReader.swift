import CloakroomWire
import NIOCore

/// Parses all messages of one connection as the gateway does: heads, framing and bodies in sequence.
struct MessageReader {
    enum Direction: Sendable {
        case requests
        case responses(isToHead: Bool)
    }

    /// The result: everything that must not depend on how the input is split.
    struct Transcript: Equatable {
        /// Each message as text: start line, fields, body, trailers; see ``MessageReader/text(of:)``.
        var messages: [String] = []
        /// Why the connection ended.
        var error: WireError?
        /// The unconsumed bytes if there was no error.
        var leftover: [UInt8] = []
    }

    private let direction: Direction
    private var parser: HeadParser
    private var decoder: BodyDecoder?
    private var request = RequestHead()
    private var response = ResponseHead()
    private var buffer = ByteBuffer()
    private var transcript = Transcript()
    private var current = ""
    private var body: [UInt8] = []

    init(_ direction: Direction, limits: HeadLimits = HeadLimits()) {
        self.direction = direction
        self.parser = HeadParser(limits: limits)
    }

    /// Parses the bytes in one piece.
    static func read(_ bytes: [UInt8], _ direction: Direction, limits: HeadLimits = HeadLimits()) -> Transcript {
        read(bytes, direction, limits: limits, cuts: [])
    }

    /// Parses the bytes in pieces that end at the given ascending offsets; then the connection is closed.
    static func read(
        _ bytes: [UInt8], _ direction: Direction, limits: HeadLimits = HeadLimits(), cuts: [Int],
        discards: Bool = false
    ) -> Transcript {
        var reader = MessageReader(direction, limits: limits)
        var start = 0
        for end in cuts + [bytes.count] where end > start || bytes.isEmpty {
            reader.feed(bytes[start..<end])
            if discards { reader.buffer.discardReadBytes() }
            start = end
        }
        return reader.close()
    }

    private mutating func feed(_ bytes: ArraySlice<UInt8>) {
        guard transcript.error == nil else { return }
        buffer.writeBytes(bytes)
        do throws(WireError) {
            while try step() {}
        } catch {
            if !current.isEmpty { transcript.messages.append(current + text(of: body) + " …") }
            current = ""
            transcript.error = error
        }
    }

    private mutating func step() throws(WireError) -> Bool {
        switch try decoder?.next(&buffer) {
        case .data(let bytes):
            body += bytes.readableBytesView
            return true
        case .end:
            finish()
            return true
        case .needMoreData:
            return false
        case nil: break
        }
        guard let framing = try parseHead() else { return false }
        decoder = BodyDecoder(framing)
        return true
    }

    private mutating func parseHead() throws(WireError) -> BodyFraming? {
        switch direction {
        case .requests:
            guard try parser.parse(&buffer, into: &request) else { return nil }
            defer { request.reset() }
            current = "\(Self.text(request.method, request.bytes)) \(Self.text(request.target, request.bytes))"
            current += " 1.\(request.minorVersion)" + Self.text(request.fields, request.bytes)
            return try BodyFraming.of(request)
        case .responses(let isToHead):
            guard try parser.parse(&buffer, into: &response) else { return nil }
            defer { response.reset() }
            current = "1.\(response.minorVersion) \(response.status)"
            current += " (\(Self.text(response.reason, response.bytes)))" + Self.text(response.fields, response.bytes)
            return try BodyFraming.of(response, isToHead: isToHead)
        }
    }

    private mutating func finish() {
        var trailers = ""
        if let section = decoder?.takeTrailers() {
            trailers = " +" + Self.text(section.fields, section.bytes).dropFirst()
        }
        transcript.messages.append(current + text(of: body) + trailers)
        current = ""
        body = []
        decoder = nil
    }

    private mutating func close() -> Transcript {
        guard transcript.error == nil else { return transcript }
        transcript.leftover = Array(buffer.readableBytesView)
        if var decoder, !current.isEmpty {
            if decoder.close() {
                finish()
            } else {
                transcript.messages.append(current + text(of: body) + " …")
            }
        }
        return transcript
    }

    private func text(of body: [UInt8]) -> String {
        body.isEmpty ? "" : " " + String(decoding: body, as: UTF8.self)
    }

    private static func text(_ fields: [FieldSlice], _ bytes: ByteBuffer) -> String {
        let lines = fields.map { "\(text($0.nameRange, bytes))=\(text($0.valueRange, bytes))" }
        return " {" + lines.joined(separator: ", ") + "}"
    }

    private static func text(_ range: ByteRange, _ bytes: ByteBuffer) -> String {
        bytes.getString(at: bytes.readerIndex + range.start, length: range.count) ?? "?"
    }
}
