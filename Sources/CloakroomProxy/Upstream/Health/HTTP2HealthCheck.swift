import CloakroomCore
import NIOCore
import NIOHPACK
import NIOHTTP2

/// One health check over HTTP/2: a request of its own, or a gRPC call of `grpc.health.v1.Health`.
///
/// The only stream of its connection, which is closed as soon as the result is known.
final class HTTP2HealthCheck: HealthCheckHandler {
    typealias InboundIn = HTTP2Frame
    typealias OutboundOut = HTTP2Frame

    /// What is sent.
    struct Request: Sendable {
        let headers: HPACKHeaders
        /// The body of a gRPC call; `nil` for other requests.
        let call: [UInt8]?

        /// - Parameters:
        ///   - host: Value of `:authority`.
        ///   - token: Name and value of the field with the API token; `nil` for none.
        init(_ probe: HealthCheckConfiguration.Probe, scheme: String, host: String, token: (String, String)?) {
            var headers = HPACKHeaders()
            switch probe {
            case .http(let path):
                headers.add(name: ":method", value: "GET")
                headers.add(name: ":path", value: path)
                call = nil
            case .grpc(let service):
                headers.add(name: ":method", value: "POST")
                headers.add(name: ":path", value: GRPCHealth.path)
                call = GRPCHealth.request(service: service)
            }
            headers.add(name: ":scheme", value: scheme)
            headers.add(name: ":authority", value: host)
            if call != nil {
                headers.add(name: "content-type", value: "application/grpc")
                headers.add(name: "te", value: "trailers")
            }
            headers.add(name: "user-agent", value: "cloakroom-health")
            if let (name, value) = token { headers.add(name: name, value: value, indexing: .neverIndexed) }
            self.headers = headers
        }
    }

    private let request: Request
    var done: EventLoopPromise<HealthCheck.Outcome>?
    var handlerContext: ChannelHandlerContext?
    private var hasHead = false
    private var body: [UInt8] = []
    private var receivedBytes = 0

    init(_ request: Request, done: EventLoopPromise<HealthCheck.Outcome>) {
        self.request = request
        self.done = done
    }

    static func handlers(_ check: HTTP2HealthCheck) -> [any ChannelHandler] {
        let settings = [
            HTTP2Setting(parameter: .enablePush, value: 0),
            HTTP2Setting(parameter: .maxHeaderListSize, value: HealthCheck.readLimit),
        ]
        // A check is short: all of it is within one window of the budget for frames.
        let intake = FrameIntakeHandler { 0 }
        return [intake, NIOHTTP2Handler(mode: .client, initialSettings: settings), check]
    }

    func handlerAdded(context: ChannelHandlerContext) {
        handlerContext = context
        let head = HTTP2Frame.FramePayload.Headers(headers: request.headers, endStream: request.call == nil)
        write(.headers(head), context)
        if let call = request.call {
            write(.data(.init(data: .byteBuffer(ByteBuffer(bytes: call)), endStream: true)), context)
        }
        context.flush()
    }

    private func write(_ payload: HTTP2Frame.FramePayload, _ context: ChannelHandlerContext) {
        context.write(wrapOutboundOut(HTTP2Frame(streamID: 1, payload: payload)), promise: nil)
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let frame = unwrapInboundIn(data)
        guard done != nil, frame.streamID == 1 else { return }
        switch frame.payload {
        case .headers(let headers): receive(headers)
        case .data(let data): receive(data)
        case .rstStream(let code): end(.failed("the stream was reset: \(code)"))
        default: break
        }
    }

    private func receive(_ headers: HTTP2Frame.FramePayload.Headers) {
        let list = headers.headers
        guard !hasHead else { return callEnded(list) }
        guard let status = list.first(name: ":status").flatMap({ Int($0) }) else {
            return end(.failed("the response has no valid status"))
        }
        guard status >= 200 else { return }
        guard request.call != nil else { return end(.status(status)) }
        guard status == 200 else { return end(.failed("the response is none of gRPC: status \(status)")) }
        hasHead = true
        if headers.endStream { callEnded(list) }
    }

    private func receive(_ data: HTTP2Frame.FramePayload.Data) {
        guard case .byteBuffer(let bytes) = data.data else { return }
        receivedBytes += bytes.readableBytes
        guard receivedBytes <= HealthCheck.readLimit else {
            return end(.failed("the response is larger than \(HealthCheck.readLimit) bytes"))
        }
        body += bytes.readableBytesView
        if data.endStream { end(.failed("the response has no grpc-status")) }
    }

    private func callEnded(_ trailers: HPACKHeaders) {
        guard let code = trailers.first(name: "grpc-status") else {
            return end(.failed("the response has no grpc-status"))
        }
        guard code.utf8.elementsEqual("0".utf8) else {
            return end(.failed("grpc-status \(String(decoding: code.utf8.prefix(4), as: UTF8.self))"))
        }
        let body = body
        let status = GRPCHealth.status(ofBody: body.span)
        end(status.map { .service($0) } ?? .failed("the response is not valid"))
    }

    func ended() { body = [] }
}
