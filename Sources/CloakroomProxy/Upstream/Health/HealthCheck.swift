import CloakroomCore
import CloakroomTelemetry
import CloakroomWire
import NIOCore

/// One health check of a target: connects, sends a request and reads the head of the response, or the result of a gRPC
/// call.
///
/// Each check uses a new connection, so that it also tests whether the target accepts connections and its TLS
/// certificate. The connection is closed as soon as the result is known.
///
/// Folder `Health/`: sends health checks and reports their results to the board.
struct HealthCheck: Sendable {
    enum Outcome: Equatable, Sendable, CustomStringConvertible {
        /// The target responded with a status.
        case status(Int)
        /// The target responded to a gRPC call.
        case service(GRPCHealth.Status)
        /// No connection was established.
        case unreachable(String)
        /// The gateway has no resources for a connection: no result.
        case notSent
        /// The target did not respond in time.
        case timeout
        /// The connection was closed, or the response is not valid HTTP.
        case failed(String)

        /// For operators.
        var description: String {
            switch self {
            case .status(let status): "status \(status)"
            case .service(let status): "\(status)"
            case .unreachable(let reason), .failed(let reason): reason
            case .notSent: "not sent"
            case .timeout: "no response in time"
            }
        }

        /// Whether the target is well.
        func isPassed(_ configuration: HealthCheckConfiguration) -> Bool {
            switch self {
            case .status(let status): configuration.statuses.contains { $0.contains(status) }
            case .service(let status): status == .serving
            case .unreachable, .notSent, .timeout, .failed: false
            }
        }

        /// The value of the metric label.
        func metric(isPassed: Bool) -> UpstreamCheckOutcome {
            switch self {
            case .status, .service, .failed: isPassed ? .passed : .failed
            case .unreachable, .notSent: .unreachable
            case .timeout: .timeout
            }
        }
    }

    /// The reason of a check whose connection was closed.
    static let closed = "the connection was closed before a response"

    let connector: UpstreamConnector
    /// Maximum duration of the whole check.
    let timeout: TimeAmount
    private let protocolVersion: UpstreamProtocol
    /// The request in HTTP/1.1, complete; `nil` for a gRPC call.
    private let request: [UInt8]?
    private let http2Request: HTTP2HealthCheck.Request
    /// Another port than that of the target; `nil` for none.
    private let port: Int?

    /// Maximum number of response bytes that are read.
    static let readLimit = 16_384

    /// The request of a check (RFC 9112 §3).
    /// - Parameters:
    ///   - host: Value of `Host`.
    ///   - moreFieldLines: Complete field lines, such as that of the API token.
    static func request(path: String, host: String, moreFieldLines: [UInt8] = []) -> [UInt8] {
        Array("GET \(path) HTTP/1.1\r\nHost: \(host)\r\nUser-Agent: cloakroom-health\r\n".utf8) + moreFieldLines
            + Array("Connection: close\r\n\r\n".utf8)
    }

    /// A check as configured.
    init(
        _ configuration: HealthCheckConfiguration, of upstream: UpstreamRuntime, _ target: TargetRuntime,
        on eventLoop: any EventLoop
    ) {
        connector = UpstreamConnector(eventLoop: eventLoop)
        timeout = .nanoseconds(Int64(clamping: configuration.timeout.wholeNanoseconds))
        protocolVersion = upstream.configuration.protocolVersion
        let host = String(decoding: upstream.hosts[target.index], as: UTF8.self)
        let token = configuration.apiToken ? upstream.configuration.apiToken : nil
        if case .http(let path) = configuration.probe {
            request = Self.request(
                path: path, host: host, moreFieldLines: token == nil ? [] : upstream.apiTokenLine)
        } else {
            request = nil
        }
        http2Request = HTTP2HealthCheck.Request(
            configuration.probe, scheme: target.tls == nil ? "http" : "https", host: host,
            token: token.map { ($0.header.lowercased(), String(decoding: $0.value.bytes, as: UTF8.self)) })
        port = configuration.port
    }

    /// Runs the check. May be called on any thread.
    func run(_ target: TargetRuntime) -> EventLoopFuture<Outcome> {
        connector.eventLoop.flatSubmit { self.start(target) }
    }

    private func start(_ target: TargetRuntime) -> EventLoopFuture<Outcome> {
        let done = connector.eventLoop.makePromise(of: Outcome.self)
        let deadline = NIODeadline.now() + timeout
        connector.connect(target, protocolVersion, port: port, within: timeout).assumeIsolated().whenComplete {
            switch $0 {
            case .success(let established):
                target.connected()
                send(on: established, until: deadline, done)
            case .failure(let error):
                let kind = UpstreamFailure(connecting: error, to: target).kind
                let time = LoopClock().wallTime(at: NIODeadline.now().uptimeNanoseconds)
                let reason = ConnectFailureReason.text(kind, error, at: time)
                done.succeed(kind == .noResources ? .notSent : .unreachable(reason))
            }
        }
        return done.futureResult
    }

    private func send(
        on established: UpstreamConnector.Established, until deadline: NIODeadline, _ done: EventLoopPromise<Outcome>
    ) {
        let channel = established.channel
        do {
            let pipeline = channel.pipeline.syncOperations
            let end: (Outcome) -> Void
            if established.isHTTP2 {
                let check = HTTP2HealthCheck(http2Request, done: done)
                try pipeline.addHandlers(HTTP2HealthCheck.handlers(check))
                end = check.end
            } else if let request {
                let handler = Handler(request: request, done: done)
                try pipeline.addHandler(handler)
                end = handler.end
            } else {
                channel.close(promise: nil)
                return done.succeed(.failed("\(HTTP2NotNegotiated())"))
            }
            let timer = channel.eventLoop.assumeIsolated().scheduleTask(deadline: deadline) { end(.timeout) }
            done.futureResult.whenComplete { _ in timer.cancel() }
        } catch {
            channel.close(promise: nil)
            done.succeed(.failed("the connection was closed"))
        }
    }

    /// Sends the request and reads until a final response head.
    final class Handler: HealthCheckHandler {
        typealias InboundIn = ByteBuffer
        typealias OutboundOut = ByteBuffer

        private let request: [UInt8]
        var done: EventLoopPromise<Outcome>?
        var handlerContext: ChannelHandlerContext?
        private var parser = HeadParser(
            limits: HeadLimits(head: HealthCheck.readLimit, fields: 100, target: HealthCheck.readLimit))
        private var head = ResponseHead()
        private var received = ByteBuffer()
        /// Storage of the received bytes, in bytes.
        var storage: Int { received.storageCapacity }
        private var receivedBytes = 0

        init(request: [UInt8], done: EventLoopPromise<Outcome>) {
            self.request = request
            self.done = done
        }

        func handlerAdded(context: ChannelHandlerContext) {
            handlerContext = context
            context.writeAndFlush(wrapOutboundOut(ByteBuffer(bytes: request)), promise: nil)
        }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            // TLS still delivers input while the connection is closed after the result.
            guard done != nil else { return }
            var bytes = unwrapInboundIn(data)
            receivedBytes += bytes.readableBytes
            received.writeBuffer(&bytes)
            do throws(WireError) {
                while done != nil, try parser.parse(&received, into: &head) {
                    if head.status >= 200 { return end(.status(head.status)) }
                    head.reset()
                }
            } catch {
                end(.failed("the response is invalid: \(error.label)"))
            }
            // Not before: part of the body may have been read with the head.
            if receivedBytes > HealthCheck.readLimit {
                end(.failed("the response head is larger than \(HealthCheck.readLimit) bytes"))
            }
        }

        func ended() { received = ByteBuffer() }
    }
}

/// The handler of a check's connection, which ends with the result.
protocol HealthCheckHandler: ChannelInboundHandler {
    /// `nil` once there is a result.
    var done: EventLoopPromise<HealthCheck.Outcome>? { get set }
    var handlerContext: ChannelHandlerContext? { get set }
    /// There is a result: received bytes are not needed.
    func ended()
}

extension HealthCheckHandler {
    func handlerRemoved(context: ChannelHandlerContext) {
        handlerContext = nil
        end(.failed(HealthCheck.closed))
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { end(.failed(HealthCheck.closed)) }

    func channelInactive(context: ChannelHandlerContext) {
        end(.failed(HealthCheck.closed))
        context.fireChannelInactive()
    }

    func end(_ outcome: HealthCheck.Outcome) {
        guard let done else { return }
        self.done = nil
        ended()
        done.succeed(outcome)
        handlerContext?.close(promise: nil)
    }
}
