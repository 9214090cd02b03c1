import NIOCore
import NIOHTTP1
import NIOPosix
import ServiceLifecycle
import Synchronization

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#endif

/// The HTTP/1.1 server of a mock. It has nothing in common with the gateway's, so that neither accepts the other's errors.
///
/// Folder `HTTP/`: the server, requests, responses and routes of all mocks.
enum MockServer {
    private typealias Connection = NIOAsyncChannel<HTTPServerRequestPart, HTTPServerResponsePart>

    /// Serves until the task is cancelled or a graceful shutdown begins; `onListening` is called with the bound port.
    /// A graceful shutdown closes idle connections, and the others after their response.
    /// - Throws: `MockAPIError.portOutOfRange`, or `MockAPIError.cannotListen` if the address cannot be bound.
    static func run(
        on host: String, _ port: Int, _ onListening: @Sendable (Int) async -> Void, respond: @escaping MockHandler
    ) async throws {
        guard (0...65_535).contains(port) else { throw MockAPIError.portOutOfRange(port) }
        // As many fields as the gateway can be configured for.
        var limits = NIOHTTPDecoderLimitConfiguration()
        limits.maxHeaderFieldCount = 1_000
        let listener: NIOAsyncChannel<Connection, Never>
        do {
            listener = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
                .serverChannelOption(.backlog, value: 256)
                .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
                .childChannelOption(.allowRemoteHalfClosure, value: true)
                .bind(host: host, port: port) { [limits] channel in
                    channel.eventLoop.makeCompletedFuture {
                        // One request is read at a time, so there is nothing to assist.
                        try channel.pipeline.syncOperations.configureHTTPServerPipeline(
                            withPipeliningAssistance: false, withErrorHandling: false,
                            withEncoderConfiguration: HTTPResponseEncoder.Configuration(),
                            withDecoderLimitConfiguration: limits)
                        return try Connection(
                            wrappingChannelSynchronously: channel,
                            configuration: Connection.Configuration(isOutboundHalfClosureEnabled: true))
                    }
                }
        } catch let error as IOError {
            throw MockAPIError.cannotListen("\(host):\(port): \(String(cString: strerror(error.errnoCode)))")
        }
        try await withGracefulShutdownHandler {
            if let port = listener.channel.localAddress?.port { await onListening(port) }
            try await withThrowingDiscardingTaskGroup { connections in
                try await listener.executeThenClose { accepted in
                    for try await connection in accepted {
                        connections.addTask { await serve(connection, respond) }
                    }
                }
            }
        } onGracefulShutdown: {
            listener.channel.close(promise: nil)
        }
    }

    /// Serves a connection until its end. Errors close it.
    private static func serve(_ connection: Connection, _ respond: MockHandler) async {
        let channel = connection.channel
        let isServing = Atomic(false)
        try? await withTaskCancellationOrGracefulShutdownHandler {
            try await connection.executeThenClose { inbound, outbound in
                let parts = RequestParts(inbound)
                do {
                    while let head = try await parts.nextHead() {
                        isServing.store(true, ordering: .sequentiallyConsistent)
                        let response = try await response(to: MockRequest(head, parts), respond)
                        try await response.send(to: outbound, isHead: head.method == .HEAD)
                        isServing.store(false, ordering: .sequentiallyConsistent)
                        // The handler below did not close the connection if it was called in between.
                        if Task.isShuttingDownGracefully || Task.isCancelled { return }
                        guard head.isKeepAlive else { break }
                    }
                } catch is HTTPParserError {
                    isServing.store(false, ordering: .sequentiallyConsistent)
                    try await MockResponse(.badRequest, ["Connection": "close"]).send(to: outbound)
                }
                // Waits for the client, which might not have read the response yet.
                outbound.finish()
                try await channel.closeFuture.get()
            }
        } onCancelOrGracefulShutdown: {
            if !isServing.load(ordering: .sequentiallyConsistent) { channel.close(promise: nil) }
        }
    }

    /// The response of the handler; 500 for its errors, except those of the connection.
    private static func response(to request: MockRequest, _ respond: MockHandler) async throws -> MockResponse {
        do {
            return try await respond(request)
        } catch let error where error is HTTPParserError || error is ClosedConnection {
            throw error
        } catch {
            return MockResponse(.internalServerError)
        }
    }
}

extension MockResponse {
    /// Sends the response, to a HEAD request without its body.
    fileprivate func send(
        to outbound: NIOAsyncChannelOutboundWriter<HTTPServerResponsePart>, isHead: Bool = false
    ) async throws {
        var head = HTTPResponseHead(version: .http1_1, status: status, headers: fields)
        head.headers.add(name: "Date", value: Self.date)
        if let stream, !isHead {
            try await outbound.write(.head(head))
            do {
                try await stream { try await outbound.write(.body(.byteBuffer($0))) }
            } catch {
                throw ClosedConnection()
            }
            return try await outbound.write(.end(nil))
        }
        if !fields.contains(name: "Content-Length") {
            head.headers.add(name: "Content-Length", value: String(body.readableBytes))
        }
        let body = isHead ? ByteBuffer() : body
        try await outbound.write(contentsOf: [.head(head), .body(.byteBuffer(body)), .end(nil)])
    }

    /// The current time (RFC 9110 §5.6.7).
    private static var date: String {
        var (now, parts) = (time(nil), tm())
        gmtime_r(&now, &parts)
        var text = [CChar](repeating: 0, count: 32)
        let length = strftime(&text, text.count, "%a, %d %b %Y %H:%M:%S GMT", &parts)
        return String(decoding: text.prefix(length).map(UInt8.init(bitPattern:)), as: UTF8.self)
    }
}

/// Closes a connection without a response, or in the middle of one.
struct ClosedConnection: Error {}
