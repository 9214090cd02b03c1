import CloakroomWire
import NIOCore
import NIOEmbedded
import NIOHPACK
import NIOHTTP2
import TestSupport
import Testing

@testable import CloakroomHTTP2

/// A connection whose client is swift-nio-http2, in memory. Both sides act at random; bytes travel in random pieces.
final class InterplaySession {
    /// One request and its response, as each side has sent and received them.
    struct Exchange {
        var request: [String]
        var requestCount: Int
        var requestSent = 0
        var hasRequestTrailers: Bool
        var isRequestEnded = false
        var isResetByClient = false

        var seenRequest: String?
        var seenRequestBody: [UInt8] = []
        var seenRequestTrailers: [String] = []
        var isRequestEndSeen = false
        var held = 0

        var response: [String]?
        var responseCount = 0
        var responseSent = 0
        var hasResponseTrailers = false
        var isResponseEnded = false
        var isClosedByServer = false

        var seenResponse: [String]?
        var seenResponseBody: [UInt8] = []
        var seenResponseTrailers: [String] = []
        var isResponseEndSeen = false
        var seenReset: NIOHTTP2.HTTP2ErrorCode?
        /// Bytes whose window the client has not returned.
        var unreturned = 0
    }

    var generator: SeededGenerator
    var exchanges: [Int: Exchange] = [:]
    private let channel: EmbeddedChannel
    private var connection: HTTP2Connection
    private let cache = ResponseLineCache()
    private var now: UInt64 = 0
    private var slots: [Int: Int] = [:]
    private var toServer: [UInt8] = []
    private var toClient: [UInt8] = []
    private var input = ByteBuffer()
    private var head = RequestHead()
    private var nextID = 1
    private var unreturned = 0
    private(set) var failure: String?
    private(set) var acknowledgedPings = 0
    private(set) var sentPings = 0

    init(seed: UInt64) throws {
        generator = SeededGenerator(seed: seed)
        channel = EmbeddedChannel()
        var configuration = HTTP2ConnectionConfiguration(
            headLimits: HeadLimits(head: 8_192, fields: 50), concurrentStreams: 8)
        configuration.streamWindow = 40_000
        configuration.initialStreamWindow = 10_000
        connection = HTTP2Connection(configuration, now: 0)
        let settings = [HTTP2Setting(parameter: .maxHeaderListSize, value: 65_536)]
        try channel.pipeline.syncOperations.addHandler(NIOHTTP2Handler(mode: .client, initialSettings: settings))
        channel.connect(to: try SocketAddress(unixDomainSocketPath: "/nothing"), promise: nil)
        channel.embeddedEventLoop.run()
        // Before it knows the server's SETTINGS, a client may exceed the limit of streams.
        moveToServer(.max)
        moveToClient(.max)
        moveToServer(.max)
    }

    func below(_ limit: Int) -> Int { Int.random(in: 0..<limit, using: &generator) }

    /// A byte of a body, determined by its position.
    static func byte(_ id: Int, _ offset: Int, _ salt: Int) -> UInt8 {
        UInt8(truncatingIfNeeded: id &* 31 &+ offset &* 7 &+ offset >> 8 &+ salt)
    }

    static func body(_ id: Int, _ range: Range<Int>, salt: Int) -> [UInt8] { range.map { byte(id, $0, salt) } }

    // MARK: - The network

    /// Moves up to a number of bytes to the server.
    func moveToServer(_ limit: Int) {
        while let bytes = try? channel.readOutbound(as: ByteBuffer.self) { toServer += bytes.readableBytesView }
        let count = min(limit, toServer.count)
        guard count > 0 else { return }
        input.writeBytes(toServer.prefix(count))
        toServer.removeFirst(count)
        while true {
            let event = connection.next(&input, head: &head, now: now)
            if case .needsInput = event { break }
            handle(event)
        }
        input.discardReadBytes()
    }

    /// Moves up to a number of bytes to the client.
    func moveToClient(_ limit: Int) {
        toClient += connection.output.readableBytesView
        connection.output.clear()
        connection.outputSent()
        let count = min(limit, toClient.count)
        guard count > 0 else { return }
        do {
            try channel.writeInbound(ByteBuffer(bytes: toClient.prefix(count)))
        } catch {
            failure = failure ?? "the client reports \(error)"
        }
        toClient.removeFirst(count)
        while let frame = try? channel.readInbound(as: HTTP2Frame.self) { handle(frame) }
    }

    var isQuiet: Bool {
        while let bytes = try? channel.readOutbound(as: ByteBuffer.self) { toServer += bytes.readableBytesView }
        return toServer.isEmpty && toClient.isEmpty && connection.output.readableBytes == 0
    }

    // MARK: - The server

    private func id(_ slot: Int) -> Int { slots[slot] ?? 0 }

    private func handle(_ event: HTTP2Event) {
        switch event {
        case .request(let slot, _, let end):
            let id = Int(connection.streams.id(at: slot))
            slots[slot] = id
            exchanges[id]?.seenRequest = head.text
            exchanges[id]?.isRequestEndSeen = end
        case .data(let slot, let bytes, let end):
            exchanges[id(slot)]?.seenRequestBody += bytes.readableBytesView
            exchanges[id(slot)]?.held += bytes.readableBytes
            exchanges[id(slot)]?.isRequestEndSeen = end
        case .trailers(let slot, let section):
            exchanges[id(slot)]?.seenRequestTrailers = section?.lines ?? []
            exchanges[id(slot)]?.isRequestEndSeen = true
        case .closed(let slot, let code):
            exchanges[id(slot)]?.isClosedByServer = true
            if let code { failure = failure ?? "stream \(id(slot)) was reset with \(code)" }
        case .oversizedRequest, .malformedRequest, .failed:
            failure = failure ?? "\(event)"
        case .needsInput, .sendWindowOpened, .settingsReceived, .shutdownAcknowledged, .goAwayReceived: break
        }
    }

    /// The slot of a stream that is open.
    private func slot(_ id: Int) -> Int? { connection.streams.slot(of: UInt32(id)) }

    func respond(_ id: Int) {
        guard let slot = slot(id), exchanges[id]?.response == nil else { return }
        let size = below(12) == 0 ? 20_000 : below(200)
        let fields = [
            "x-user: \(below(4))", "cache-control: no-store", "x-id: \(String(repeating: "\\", count: size))",
        ]
        let count = [0, 5, 3_000, 60_000][below(4)]
        let hasTrailers = below(4) == 0
        let endsNow = count == 0 && !hasTrailers
        write([":status: 200"] + fields, fields, status: 200, on: slot, end: endsNow)
        exchanges[id]?.response = [":status: 200"] + fields
        exchanges[id]?.responseCount = count
        exchanges[id]?.hasResponseTrailers = hasTrailers
        if endsNow { end(id, slot) } else { queue(id, slot) }
    }

    private func write(_ all: [String], _ fields: [String], status: Int?, on slot: Int, end: Bool) {
        let start = connection.beginHeaders(status: status)
        connection.addLines(Array(fields.map { $0 + "\r\n" }.joined().utf8).span, cache: cache)
        connection.endHeaders(start, on: slot, endsStream: end)
    }

    private func queue(_ id: Int, _ slot: Int) {
        guard let exchange = exchanges[id] else { return }
        let left = exchange.responseCount - exchange.responseSent
        if left > 0 { return connection.setPending(left, on: slot) }
        if exchange.hasResponseTrailers {
            write([], ["x-sum: \(id)"], status: nil, on: slot, end: true)
        } else {
            connection.beginData(0, on: slot, endsStream: true)
        }
        end(id, slot)
    }

    private func end(_ id: Int, _ slot: Int) {
        exchanges[id]?.isResponseEnded = true
        exchanges[id]?.isClosedByServer = true
        connection.finish(slot)
    }

    func sendTurns(_ limit: Int) {
        var turns = 0
        while turns < limit, let turn = connection.nextTurn() {
            turns += 1
            let id = id(turn.slot)
            let sent = exchanges[id]?.responseSent ?? 0
            connection.beginData(turn.count, on: turn.slot, endsStream: false)
            connection.output.writeBytes(Self.body(id, sent..<(sent + turn.count), salt: 1))
            exchanges[id]?.responseSent += turn.count
            if exchanges[id]?.responseSent == exchanges[id]?.responseCount { queue(id, turn.slot) }
        }
    }

    func consume(_ id: Int, all: Bool) {
        guard let slot = slot(id), let held = exchanges[id]?.held, held > 0 else { return }
        let count = all ? held : 1 + below(held)
        connection.consumed(count, on: slot)
        exchanges[id]?.held -= count
    }

    func resetByServer(_ id: Int) {
        guard let slot = slot(id) else { return }
        connection.reset(slot, .internalError)
        exchanges[id]?.isClosedByServer = true
    }

    // MARK: - The client

    private func write(_ id: Int, _ payload: HTTP2Frame.FramePayload) {
        channel.writeAndFlush(HTTP2Frame(streamID: HTTP2StreamID(id), payload: payload), promise: nil)
    }

    func request() {
        let id = nextID
        nextID += 2
        let count = [0, 3, 2_000, 30_000][below(4)]
        let hasTrailers = below(4) == 0
        let fields = [
            (":method", count == 0 ? "GET" : "POST"), (":scheme", "https"), (":authority", "a.test"),
            (":path", "/\(below(5))"), ("x-user", "\(below(4))"), ("x-id", String(repeating: "é", count: below(100))),
        ]
        let text = ["\(fields[0].1) \(fields[3].1)"] + fields.dropFirst(4).map { "\($0): \($1)" }
        exchanges[id] = Exchange(request: text, requestCount: count, hasRequestTrailers: hasTrailers)
        let ends = count == 0 && !hasTrailers
        exchanges[id]?.isRequestEnded = ends
        write(id, .headers(.init(headers: HPACKHeaders(fields), endStream: ends)))
    }

    func sendBody(_ id: Int, all: Bool = false) {
        guard let exchange = exchanges[id], !exchange.isRequestEnded, !exchange.isResetByClient,
            exchange.seenReset == nil
        else { return }
        let left = exchange.requestCount - exchange.requestSent
        let count = all ? left : below(left + 1)
        let end = exchange.requestSent + count
        let isLast = end == exchange.requestCount
        let bytes = Self.body(id, exchange.requestSent..<end, salt: 0)
        let ends = isLast && !exchange.hasRequestTrailers
        write(id, .data(.init(data: .byteBuffer(ByteBuffer(bytes: bytes)), endStream: ends)))
        if isLast, exchange.hasRequestTrailers {
            write(id, .headers(.init(headers: HPACKHeaders([("x-sum", "\(id)")]), endStream: true)))
        }
        exchanges[id]?.requestSent = end
        exchanges[id]?.isRequestEnded = isLast
    }

    func resetByClient(_ id: Int) {
        guard let exchange = exchanges[id], exchange.seenReset == nil, !exchange.isResetByClient,
            !(exchange.isRequestEnded && exchange.isResponseEndSeen)
        else { return }
        exchanges[id]?.isResetByClient = true
        write(id, .rstStream(.cancel))
    }

    func returnWindows(_ id: Int, all: Bool) {
        if unreturned > 0 {
            let count = all ? unreturned : 1 + below(unreturned)
            unreturned -= count
            write(0, .windowUpdate(windowSizeIncrement: count))
        }
        guard let exchange = exchanges[id], exchange.unreturned > 0, !exchange.isResponseEndSeen,
            exchange.seenReset == nil, !exchange.isResetByClient
        else { return }
        let count = all ? exchange.unreturned : 1 + below(exchange.unreturned)
        exchanges[id]?.unreturned -= count
        write(id, .windowUpdate(windowSizeIncrement: count))
    }

    func settings(_ window: Int, table: Int) {
        let settings = [
            HTTP2Setting(parameter: .initialWindowSize, value: window),
            HTTP2Setting(parameter: .headerTableSize, value: table),
        ]
        write(0, .settings(.settings(settings)))
    }

    func ping() {
        sentPings += 1
        write(0, .ping(HTTP2PingData(withInteger: UInt64(sentPings)), ack: false))
    }

    private func handle(_ frame: HTTP2Frame) {
        let id = Int(frame.streamID)
        switch frame.payload {
        case .headers(let headers):
            let lines = headers.headers.map { "\($0.name): \($0.value)" }
            if exchanges[id]?.seenResponse == nil {
                exchanges[id]?.seenResponse = lines
            } else {
                exchanges[id]?.seenResponseTrailers = lines
            }
            if headers.endStream { exchanges[id]?.isResponseEndSeen = true }
        case .data(let data):
            guard case .byteBuffer(let bytes) = data.data else { return }
            exchanges[id]?.seenResponseBody += bytes.readableBytesView
            exchanges[id]?.unreturned += bytes.readableBytes
            unreturned += bytes.readableBytes
            if data.endStream { exchanges[id]?.isResponseEndSeen = true }
        case .rstStream(let code): exchanges[id]?.seenReset = code
        case .ping(_, let ack): if ack { acknowledgedPings += 1 }
        case .goAway(_, let code, _): failure = failure ?? "GOAWAY with \(code)"
        default: break
        }
    }

    /// Lets time pass, so that the budget is never exceeded.
    func tick() { now += 1_000_000_000 }

    func close() { _ = try? channel.finish(acceptAlreadyClosed: true) }
}
