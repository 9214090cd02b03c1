import CloakroomWire
import NIOCore
import NIOHPACK
import Testing

@testable import CloakroomHTTP2

/// A connection with a client whose frames and header compression are independent of the module.
final class TestConnection {
    var connection: HTTP2Connection
    /// Nanoseconds of the clock.
    var now: UInt64 = 1_000_000_000
    /// The client's bytes that are not handled yet.
    var input = ByteBuffer()
    /// The stream in each slot, from events.
    private(set) var ids: [Int: UInt32] = [:]
    private(set) var head = RequestHead()
    private(set) var lastRequest = RequestBlock()
    let cache = ResponseLineCache()
    /// Reacts to an event before the next frame is handled, as the owner does.
    var react: ((TestConnection, HTTP2Event) -> Void)?

    private var encoder = NIOHPACK.HPACKEncoder(allocator: ByteBufferAllocator())
    private var decoder = NIOHPACK.HPACKDecoder(
        allocator: ByteBufferAllocator(), maxDynamicTableSize: 4_096, maxHeaderListSize: 1 << 20)

    static let limits = HeadLimits(head: 2_048, fields: 20, target: 256)

    /// Creates a connection whose preface and SETTINGS have been exchanged.
    init(
        limits: HeadLimits = limits, streams: Int = 10, streamWindow: Int = 131_072, initialStreamWindow: Int? = nil,
        isEstablished: Bool = true
    ) {
        var configuration = HTTP2ConnectionConfiguration(headLimits: limits, concurrentStreams: streams)
        configuration.streamWindow = streamWindow
        configuration.initialStreamWindow = initialStreamWindow ?? streamWindow
        connection = HTTP2Connection(configuration, now: now)
        guard isEstablished else { return }
        send(TestFrame.preface + TestFrame.settings().bytes + TestFrame.settingsAcknowledgement.bytes)
        _ = output()
    }

    /// Creates a connection with streams whose requests have not ended.
    convenience init(
        open first: UInt32, _ others: UInt32..., streams: Int = 10, streamWindow: Int = 131_072,
        initialStreamWindow: Int? = nil
    ) {
        self.init(streams: streams, streamWindow: streamWindow, initialStreamWindow: initialStreamWindow)
        open([first] + others)
    }

    // MARK: - Input

    /// Handles frames of the client.
    @discardableResult
    func send(_ frames: TestFrame...) -> [SeenEvent] { send(frames.flatMap(\.bytes)) }

    @discardableResult
    func send(_ frames: [TestFrame]) -> [SeenEvent] { send(frames.flatMap(\.bytes)) }

    /// Handles bytes of the client.
    @discardableResult
    func send(_ bytes: [UInt8]) -> [SeenEvent] {
        input.writeBytes(bytes)
        var seen: [SeenEvent] = []
        while true {
            let event = connection.next(&input, head: &head, now: now)
            guard let next = see(event) else { return seen }
            seen.append(next)
            react?(self, event)
        }
    }

    private func see(_ event: HTTP2Event) -> SeenEvent? {
        switch event {
        case .needsInput: return nil
        case .request(let slot, let request, let end):
            ids[slot] = connection.streams.id(at: slot)
            lastRequest = request
            return .request(id(slot), head.text, end: end)
        case .oversizedRequest(let slot, let error, let end):
            ids[slot] = connection.streams.id(at: slot)
            return .oversized(id(slot), error, end: end)
        case .malformedRequest: return .malformed
        case .data(let slot, let bytes, let end): return .data(id(slot), Self.text(bytes), end: end)
        case .trailers(let slot, let section): return .trailers(id(slot), section?.lines ?? [])
        case .closed(let slot, let code): return .closed(id(slot), code)
        case .sendWindowOpened: return .windowOpened
        case .settingsReceived: return .settingsReceived
        case .shutdownAcknowledged: return .shutdownAcknowledged
        case .goAwayReceived: return .goAwayReceived
        case .failed(let code): return .failed(code)
        }
    }

    private func id(_ slot: Int) -> UInt32 { ids[slot] ?? 0 }

    /// One character for each byte, so that parts of a body can be joined.
    private static func text(_ bytes: ByteBuffer) -> String {
        var scalars = String.UnicodeScalarView()
        for byte in bytes.readableBytesView { scalars.append(Unicode.Scalar(byte)) }
        return String(scalars)
    }

    /// The slot of an open stream.
    func slot(_ id: UInt32) -> Int { connection.streams.slot(of: id) ?? -1 }

    // MARK: - Properties, for expectations, which do not support types that cannot be copied

    var isReceivingHeaderBlock: Bool { connection.isReceivingHeaderBlock }
    var needsReceiveWindow: Bool { connection.needsReceiveWindow }
    func isOpen(_ slot: Int) -> Bool { connection.isOpen(slot) }
    func canSend(_ count: Int, on slot: Int) -> Bool { connection.canSend(count, on: slot) }

    // MARK: - The client's header blocks

    static let get = [(":method", "GET"), (":scheme", "https"), (":authority", "a.test"), (":path", "/")]
    static let post = [(":method", "POST"), (":scheme", "https"), (":authority", "a.test"), (":path", "/")]

    /// Encodes a header block with the client's dynamic table.
    func block(_ fields: [(String, String)]) -> [UInt8] {
        var buffer = ByteBuffer()
        do { try encoder.encode(headers: HPACKHeaders(fields), to: &buffer) } catch { Issue.record(error) }
        return Array(buffer.readableBytesView)
    }

    /// A complete HEADERS frame.
    func headers(_ id: UInt32, _ fields: [(String, String)] = get, end: Bool = false) -> TestFrame {
        TestFrame(1, flags: 4 | (end ? 1 : 0), stream: id, block(fields))
    }

    /// A header block in frames of at most a size.
    func frames(_ id: UInt32, _ fields: [(String, String)], end: Bool = false, size: Int) -> [TestFrame] {
        Self.frames(id, block(fields), end: end, size: size)
    }

    static func frames(_ id: UInt32, _ block: [UInt8], end: Bool = false, size: Int) -> [TestFrame] {
        let starts = Array(stride(from: 0, to: max(block.count, 1), by: size))
        return starts.map { start in
            var frame = TestFrame(start == 0 ? 1 : 9, stream: id, Array(block[start..<min(start + size, block.count)]))
            if start == 0, end { frame.flags |= 1 }
            if start == starts.last { frame.flags |= 4 }
            return frame
        }
    }

    /// Opens streams whose requests have not ended.
    func open(_ ids: UInt32...) { open(ids) }

    private func open(_ ids: [UInt32]) {
        for id in ids { send(headers(id, Self.post)) }
        _ = output()
    }

    // MARK: - Output

    /// Takes the frames that the connection sends.
    func output() -> [TestFrame] {
        let (frames, rest) = TestFrame.parse(Array(connection.output.readableBytesView))
        if rest != 0 { Issue.record("\(rest) bytes after the last frame of the output") }
        connection.output.clear()
        connection.outputSent()
        return frames
    }

    /// Decodes a header block of the connection, as `name=value`.
    func fields(_ block: [UInt8]) -> [String] {
        var buffer = ByteBuffer(bytes: block)
        do {
            return try decoder.decodeHeaders(from: &buffer).map { "\($0.name)=\($0.value)" }
        } catch {
            Issue.record(error)
            return []
        }
    }

    /// Writes a response head.
    func respond(_ id: UInt32, status: Int? = 200, lines: String = "", end: Bool = false) {
        let start = connection.beginHeaders(status: status)
        connection.addLines(Array(lines.utf8).span, cache: cache)
        connection.endHeaders(start, on: slot(id), endsStream: end)
    }

    /// Writes DATA of any content as far as the windows and a number of turns allow.
    /// - Returns: Each turn as stream and count.
    @discardableResult
    func sendBodies(turns: Int = .max) -> [String] {
        var seen: [String] = []
        while seen.count < turns, let turn = connection.nextTurn() {
            let id = connection.streams.id(at: turn.slot)
            connection.beginData(turn.count, on: turn.slot, endsStream: false)
            connection.output.writeRepeatingByte(0x62, count: turn.count)
            seen.append("\(id):\(turn.count)")
        }
        return seen
    }
}
