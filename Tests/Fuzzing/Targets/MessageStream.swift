import CloakroomWire
import NIOCore

/// The parts of a request or response head that the checks need.
protocol WireHead {
    var bytes: ByteBuffer { get }
    var fields: [FieldSlice] { get set }
    var minorVersion: UInt8 { get }
    init()
    static func parse(
        _ parser: inout HeadParser, _ buffer: inout ByteBuffer, into head: inout Self
    ) throws(WireError) -> Bool
    func framing(isToHead: Bool) throws(WireError) -> BodyFraming
}

extension RequestHead: WireHead {
    static func parse(
        _ parser: inout HeadParser, _ buffer: inout ByteBuffer, into head: inout RequestHead
    ) throws(WireError) -> Bool {
        try parser.parse(&buffer, into: &head)
    }

    func framing(isToHead: Bool) throws(WireError) -> BodyFraming { try BodyFraming.of(self) }
}

extension ResponseHead: WireHead {
    static func parse(
        _ parser: inout HeadParser, _ buffer: inout ByteBuffer, into head: inout ResponseHead
    ) throws(WireError) -> Bool {
        try parser.parse(&buffer, into: &head)
    }

    func framing(isToHead: Bool) throws(WireError) -> BodyFraming {
        try BodyFraming.of(self, isToHead: isToHead)
    }
}

/// Parses all messages of a connection, as the gateway's connections do.
struct MessageStream<Head: WireHead> {
    struct Message {
        var head: Head
        var framing: BodyFraming?
        var body: [UInt8] = []
        var trailers: TrailerSection?
        var isComplete = false
    }

    private(set) var messages: [Message] = []
    private(set) var error: WireError?
    /// The bytes that were not parsed, if there was no error.
    private(set) var leftover: [UInt8] = []

    private let isToHead: Bool
    private var parser: HeadParser
    private var head = Head()
    private var decoder: BodyDecoder?
    private var buffer = ByteBuffer()

    /// Parses the bytes in pieces that end at the given offsets; then the connection is closed.
    init(_ bytes: [UInt8], limits: HeadLimits, isToHead: Bool = false, pieces: [Int]) {
        self.isToHead = isToHead
        self.parser = HeadParser(limits: limits)
        var start = 0
        for end in pieces where error == nil && (end > start || bytes.isEmpty) {
            buffer.writeBytes(bytes[start..<end])
            start = end
            do throws(WireError) {
                while try step() {}
            } catch {
                self.error = error
            }
            if end & 1 == 1 { buffer.discardReadBytes() }
        }
        if error == nil { close() }
    }

    private mutating func step() throws(WireError) -> Bool {
        switch try decoder?.next(&buffer) {
        case .data(let piece):
            messages[messages.count - 1].body += piece.readableBytesView
            return true
        case .end:
            finish()
            return true
        case .needMoreData:
            return false
        case nil: break
        }
        guard try Head.parse(&parser, &buffer, into: &head) else { return false }
        messages.append(Message(head: head))
        head = Head()
        let framing = try messages[messages.count - 1].head.framing(isToHead: isToHead)
        messages[messages.count - 1].framing = framing
        decoder = BodyDecoder(framing)
        return true
    }

    private mutating func finish() {
        messages[messages.count - 1].trailers = decoder?.takeTrailers()
        messages[messages.count - 1].isComplete = true
        decoder = nil
    }

    private mutating func close() {
        leftover = Array(buffer.readableBytesView)
        if decoder?.close() == true { finish() }
    }

    /// The results that must not depend on where the bytes were cut.
    func matches(_ other: MessageStream) -> Bool {
        error == other.error && leftover == other.leftover && messages.count == other.messages.count
            && zip(messages, other.messages).allSatisfy { left, right in
                left.head.bytes == right.head.bytes && left.head.fields == right.head.fields
                    && left.framing == right.framing && left.body == right.body && left.trailers == right.trailers
                    && left.isComplete == right.isComplete
            }
    }
}
