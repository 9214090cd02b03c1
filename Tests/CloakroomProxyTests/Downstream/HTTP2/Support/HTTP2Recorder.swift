import NIOCore
import NIOHPACK
import NIOHTTP2
import Synchronization

/// Records the frames that a server sent.
final class HTTP2Recorder: Sendable {
    struct State {
        var streams: [UInt32: HTTP2TestResponse] = [:]
        var goAways: [HTTP2GoAway] = []
        var settings: [UInt16: UInt32] = [:]
        var pongs = 0
        var isClosed = false
        /// The headers of all frames, in order; only the first ones of a long connection.
        var frames: [HTTP2ReceivedFrame] = []
        fileprivate var unread = ByteBuffer()
        fileprivate var block = ByteBuffer()
        fileprivate var decoder = HPACKDecoder(
            allocator: ByteBufferAllocator(), maxDynamicTableSize: 4_096, maxHeaderListSize: 1 << 20)
        /// The bytes sent and the window granted, by stream; 0 is the connection.
        private var sent: [UInt32: Int] = [:]
        private var given: [UInt32: Int] = [:]

        mutating func noteSent(_ frame: HTTP2WireFrame) {
            guard frame.type == 0 else { return }
            sent[frame.stream, default: 0] += frame.payload.count
            sent[0, default: 0] += frame.payload.count
        }

        /// The number of bytes that may be sent on a stream now.
        func room(on stream: UInt32) -> Int {
            let initial = Int(settings[4] ?? 65_535)
            return min(
                65_535 + (given[0] ?? 0) - (sent[0] ?? 0), initial + (given[stream] ?? 0) - (sent[stream] ?? 0))
        }

        fileprivate mutating func give(_ stream: UInt32, _ count: Int) { given[stream, default: 0] += count }
    }

    let state = Mutex(State())
    private let manners: HTTP2Client.HTTP2ClientOptions

    init(_ manners: HTTP2Client.HTTP2ClientOptions) {
        self.manners = manners
    }

    /// Processes received bytes.
    /// - Returns: The frames to send at once.
    func receive(_ bytes: inout ByteBuffer) -> [HTTP2WireFrame] {
        state.withLock { state in
            state.unread.writeBuffer(&bytes)
            var responses: [HTTP2WireFrame] = []
            var room: [UInt32: Int] = [:]
            while let frame = HTTP2WireFrame.next(in: &state.unread) {
                take(frame, &state, &responses, &room)
            }
            state.unread.discardReadBytes()
            for (stream, count) in room { responses.append(.windowUpdate(stream, count)) }
            return responses
        }
    }

    private func take(
        _ frame: (type: UInt8, flags: UInt8, stream: UInt32, payload: ByteBuffer), _ state: inout State,
        _ responses: inout [HTTP2WireFrame], _ room: inout [UInt32: Int]
    ) {
        let (type, flags, id, payload) = frame
        let endsStream = flags & HTTP2WireFrame.endStream != 0
        if state.frames.count < HTTP2ReceivedFrame.limit {
            state.frames.append(
                HTTP2ReceivedFrame(type: type, flags: flags, stream: id, length: payload.readableBytes))
        }
        switch type {
        case 0:
            var response = state.streams[id] ?? HTTP2TestResponse()
            state.streams[id] = nil
            response.bodyCount += payload.readableBytes
            if manners.keepsBodies { response.body.writeImmutableBuffer(payload) }
            response.isEnded = endsStream
            state.streams[id] = response
            if manners.sendsWindowUpdates, payload.readableBytes > 0 {
                room[0, default: 0] += payload.readableBytes
                if !endsStream { room[id, default: 0] += payload.readableBytes }
            }
        case 1, 9:
            state.block.writeImmutableBuffer(payload)
            if type == 1 {
                state.streams[id, default: HTTP2TestResponse()].isEnded = endsStream
                state.streams[id]?.endedWithFields = endsStream
            }
            guard flags & HTTP2WireFrame.endHeaders != 0 else { return }
            let section = (try? state.decoder.decodeHeaders(from: &state.block)) ?? HPACKHeaders([(":broken", "")])
            state.block.clear()
            state.streams[id, default: HTTP2TestResponse()].sections.append(section)
        case 3:
            let code = HTTP2ErrorCode(networkCode: Int(HTTP2Bytes.number(payload.readableBytesView)))
            state.streams[id, default: HTTP2TestResponse()].reset = code
        case 4 where flags & 1 == 0:
            var payload = payload
            while let id = payload.readInteger(as: UInt16.self), let value = payload.readInteger(as: UInt32.self) {
                state.settings[id] = value
            }
            if manners.acknowledgesSettings { responses.append(.settingsAck) }
        case 6 where flags & 1 == 0:
            if manners.respondsToPings {
                responses.append(
                    HTTP2WireFrame(type: 6, flags: 1, payload: Array(payload.readableBytesView)))
            }
        case 6: state.pongs += 1
        case 7:
            let numbers = Array(payload.readableBytesView)
            state.goAways.append(
                HTTP2GoAway(
                    last: HTTP2Bytes.number(numbers.prefix(4)),
                    code: HTTP2ErrorCode(networkCode: Int(HTTP2Bytes.number(numbers.dropFirst(4).prefix(4))))))
        case 8: state.give(id, Int(HTTP2Bytes.number(payload.readableBytesView)))
        default: break
        }
    }
}

/// The header of a received frame (RFC 9113 §4.1).
struct HTTP2ReceivedFrame: Sendable, Equatable {
    var type: UInt8
    var flags: UInt8
    var stream: UInt32
    var length: Int

    /// The number of frames that a client keeps.
    static let limit = 20_000

    var isData: Bool { type == 0 }
    var isHeaders: Bool { type == 1 }
    var isContinuation: Bool { type == 9 }
    var endsHeaders: Bool { flags & HTTP2WireFrame.endHeaders != 0 }
    var endsStream: Bool { type <= 1 && flags & HTTP2WireFrame.endStream != 0 }
}

/// Reads the server's frames, and sends the required acknowledgements at once.
final class HTTP2ReadingHandler: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private let recorder: HTTP2Recorder

    init(_ recorder: HTTP2Recorder) {
        self.recorder = recorder
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        var bytes = unwrapInboundIn(data)
        let responses = recorder.receive(&bytes)
        guard !responses.isEmpty else { return }
        context.writeAndFlush(wrapOutboundOut(ByteBuffer(bytes: responses.flatMap(\.bytes))), promise: nil)
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        context.close(promise: nil)
    }

    func channelInactive(context: ChannelHandlerContext) {
        recorder.state.withLock { $0.isClosed = true }
    }
}
