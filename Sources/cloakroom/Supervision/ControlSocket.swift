import CloakroomConfig
import CloakroomCore
import CloakroomTelemetry
import Foundation
import Glibc
import NIOCore
import NIOPosix
import ServiceLifecycle

/// The control socket: a Unix socket on which programs of the same user ask a running gateway to reload its configuration,
/// whether it is ready, or why it rejected a request. A signal could not return the result.
enum ControlSocket {
    /// The environment variable with the folder that systemd creates for the service (`RuntimeDirectory=`).
    static let directoryVariable = "RUNTIME_DIRECTORY"
    static let fileName = "control.sock"
    /// The socket of the service in `deploy/systemd`, for commands outside of it.
    static let servicePath = "/run/cloakroom/\(fileName)"
    /// The maximum length of the path; the address of a Unix socket has a fixed size.
    static let maximumPathBytes = 107

    /// The requests end with a line feed.
    static let reloadRequest = "reload\n"
    static let healthRequest = "health\n"
    /// The length of the longest request: `why` and an id.
    static let longestRequest = 37
    /// The maximum size of a response. Responses of a gateway are smaller.
    static let maximumResponseBytes = 1_048_576

    /// The socket's path: the given one, or a file in systemd's folder.
    /// - Returns: `nil` if there is neither.
    static func path(_ option: String?, environment: [String: String]) -> String? {
        if let option { return option }
        // The value may list several folders.
        guard let folder = environment[directoryVariable]?.split(separator: ":").first else { return nil }
        return "\(folder)/\(fileName)"
    }

    /// The result of a reload, as one line of JSON.
    struct Response: Codable, Equatable {
        /// Whether the configuration was applied.
        var reloaded: Bool
        /// The hash of the configuration file in effect.
        var hash: String
        /// The reasons why it was not applied, one sentence each.
        var problems: [String]
        var warnings: [String]

        /// - Parameter outcome: `nil` if the gateway is stopping.
        init(_ outcome: ReloadOutcome?) {
            reloaded = outcome?.isSuccess ?? false
            hash = outcome?.hash ?? ""
            problems = outcome?.problems ?? ["the gateway is stopping"]
            warnings = outcome?.warnings ?? []
            trim()
        }

        /// Keeps the first 50 problems and warnings, of at most 500 characters each, and makes them harmless for a
        /// terminal: at the client the process on the socket may be another program.
        fileprivate mutating func trim() {
            problems = problems.prefix(50).map { TerminalText.clean($0, limit: 500) }
            warnings = warnings.prefix(50).map { TerminalText.clean($0, limit: 500) }
            hash = TerminalText.clean(hash, limit: 64)
        }
    }
}

/// Serves the control socket: one request per connection.
struct ControlSocketService: Service, Unprintable {
    let path: String
    /// Whether the socket of a running gateway is replaced: a gateway that takes over from it.
    let replacesOther: Bool
    /// Reloads the configuration; `nil` if the gateway is stopping.
    let reload: @Sendable () async -> ReloadOutcome?
    var isReady: @Sendable () async -> Bool = { false }
    var why: @Sendable (ID128) -> [UInt8] = { _ in [] }
    let onListening: @Sendable () -> Void

    /// - Throws: ``ControlSocketError`` if the socket cannot be created.
    func run() async throws {
        let file: ControlSocketFile
        let listener: any Channel
        do {
            file = try ControlSocketFile(path, replacesOther: replacesOther)
            listener = try await ServerBootstrap(group: .singletonMultiThreadedEventLoopGroup)
                .childChannelInitializer { channel in
                    channel.eventLoop.makeCompletedFuture {
                        try channel.pipeline.syncOperations.addHandler(ControlConnectionHandler(service: self))
                    }
                }
                .withBoundSocket(file.descriptor).get()
        } catch {
            throw ControlSocketError(
                description: "the control socket \(path) cannot be created: \(Self.reason(error))")
        }
        onListening()
        // Throws only on cancellation, which ends the service too.
        try? await gracefulShutdown()
        file.remove()
        try? await listener.close()
    }

    private static func reason(_ error: any Error) -> String {
        switch (error as? IOError)?.errnoCode {
        case EADDRINUSE: "a file is there that is not replaced (write another path, or remove it)"
        case ENOENT, ENOTDIR: "its folder does not exist (create the folder, or write another path)"
        case let number?: "\(SystemError.text(number)) (write a path in a folder of this user)"
        case nil: "\(error)"
        }
    }
}

/// A request to the control socket, of which no more is kept than is needed to compare it.
struct ControlRequest {
    private var bytes = ByteBuffer()

    /// Storage of the received bytes, in bytes.
    var storage: Int { bytes.storageCapacity }
    var isComplete: Bool {
        bytes.readableBytes > ControlSocket.longestRequest || bytes.readableBytesView.contains(UInt8(ascii: "\n"))
    }
    var text: String { String(buffer: bytes) }

    mutating func receive(_ more: ByteBuffer) {
        let room = ControlSocket.longestRequest + 1 - bytes.readableBytes
        bytes.writeBytes(more.readableBytesView.prefix(max(0, room)))
    }
}

/// Reads the request of one connection, responds, and closes it. A connection without a request is closed after a timeout.
final class ControlConnectionHandler: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer

    private static let requestTimeout = TimeAmount.seconds(2)

    private let service: ControlSocketService
    private var request = ControlRequest()
    private var timeout: Scheduled<Void>?

    init(service: ControlSocketService) { self.service = service }

    func channelActive(context: ChannelHandlerContext) {
        let channel = context.channel
        timeout = context.eventLoop.scheduleTask(in: Self.requestTimeout) { channel.close(promise: nil) }
    }

    func channelInactive(context: ChannelHandlerContext) {
        timeout?.cancel()
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard !request.isComplete else { return }
        request.receive(unwrapInboundIn(data))
        guard request.isComplete else { return }
        timeout?.cancel()
        let channel = context.channel
        let text = request.text
        let rejected = text.hasPrefix("why ") ? ID128(String(text.dropFirst(4).dropLast())) : nil
        let isHealth = text == ControlSocket.healthRequest
        guard isHealth || rejected != nil || text == ControlSocket.reloadRequest else {
            return channel.close(promise: nil)
        }
        Task { [service] in
            let encoder = JSONEncoder()
            // Fails only if the client has closed the connection.
            if let rejected {
                try? await channel.writeAndFlush(ByteBuffer(bytes: service.why(rejected)))
            } else if isHealth {
                let body = await ["ready": service.isReady()]
                try? await channel.writeAndFlush(ByteBuffer(bytes: try encoder.encode(body)))
            } else {
                let response = ControlSocket.Response(await service.reload())
                try? await channel.writeAndFlush(ByteBuffer(bytes: try encoder.encode(response)))
            }
            try? await channel.close()
        }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        context.close(promise: nil)
    }
}

/// Requests to the control socket of a running gateway.
enum ControlSocketClient {
    /// Asks for a reload and waits for its result.
    /// - Parameters:
    ///   - path: The path of the socket.
    ///   - timeout: The maximum wait.
    /// - Throws: ``ControlSocketError`` if no gateway listens, it does not respond in time, or the response is invalid.
    static func reload(_ path: String, timeout: Duration) async throws -> ControlSocket.Response {
        let bytes = try await exchange(ControlSocket.reloadRequest, with: path, timeout: timeout)
        guard var response = try? JSONDecoder().decode(ControlSocket.Response.self, from: bytes) else {
            throw otherProgram(path)
        }
        response.trim()
        return response
    }

    /// Sends a request and returns the response; a program other than a gateway may have sent it.
    static func exchange(_ request: String, with path: String, timeout: Duration) async throws -> Data {
        let connection: NIOAsyncChannel<ByteBuffer, ByteBuffer>
        do {
            connection = try await ClientBootstrap(group: .singletonMultiThreadedEventLoopGroup)
                .connect(unixDomainSocketPath: path) { channel in
                    channel.eventLoop.makeCompletedFuture {
                        try NIOAsyncChannel(wrappingChannelSynchronously: channel)
                    }
                }
        } catch {
            throw ControlSocketError(
                description: "no gateway of this user listens on \(path): \(reason(error))"
                    + " (start it with --control-socket \(path))")
        }
        try await checkServer(of: connection.channel, path)
        let expiry = connection.channel.eventLoop.scheduleTask(
            in: .nanoseconds(Int64(clamping: timeout.wholeNanoseconds))
        ) { connection.channel.close(promise: nil) }
        defer { expiry.cancel() }
        var bytes = ByteBuffer()
        do {
            try await connection.executeThenClose { inbound, outbound in
                try await outbound.write(ByteBuffer(string: request))
                for try await var part in inbound {
                    bytes.writeBuffer(&part)
                    guard bytes.readableBytes <= ControlSocket.maximumResponseBytes else { break }
                }
            }
        } catch {
            // The connection was lost: what has arrived may be complete.
        }
        guard bytes.readableBytes > 0 else {
            let remedy = request == ControlSocket.reloadRequest ? ", or write a longer --timeout" : ""
            throw ControlSocketError(
                description: "the gateway on \(path) closed the connection or did not respond within"
                    + " \(Int(timeout / .seconds(1))) s (see its log\(remedy))")
        }
        guard bytes.readableBytes <= ControlSocket.maximumResponseBytes else { throw otherProgram(path) }
        return Data(bytes.readableBytesView)
    }

    static func otherProgram(_ path: String) -> ControlSocketError {
        ControlSocketError(
            description: "\(path) is not the control socket of a gateway"
                + " (write the path that its --control-socket has)")
    }

    /// Any user can listen on a path in a folder such as `/tmp`, and respond that the configuration was applied.
    private static func checkServer(of channel: any Channel, _ path: String) async throws {
        // `struct ucred` of unix(7), which is not imported from the C library.
        typealias Credentials = (process: pid_t, user: uid_t, group: gid_t)
        let server: Credentials? = try await (channel as? any SocketOptionProvider)?.unsafeGetSocketOption(
            level: .socket, name: .init(rawValue: SO_PEERCRED)
        ).get()
        guard let server, isTrusted(user: server.user, group: server.group, at: path, by: geteuid()) else {
            throw ControlSocketError(
                description: "the program on \(path) runs as another user (run the command as the user of the gateway)")
        }
    }

    /// Whether the user of the program on a socket may be the gateway's: root or the own user; for root also another one, if
    /// that user and root alone can write the socket's folder.
    static func isTrusted(user: uid_t, group: gid_t, at path: String, by own: uid_t) -> Bool {
        if user == 0 || user == own { return true }
        let folder = path.lastIndex(of: "/").map { path[...$0] + "." } ?? "."
        return own == 0 && !FileAccess.isWritable(String(folder), byOthersThan: user, group)
    }

    private static func reason(_ error: any Error) -> String {
        switch (error as? IOError)?.errnoCode {
        case ENOENT: "there is no such file"
        case ECONNREFUSED: "no process accepts connections on it"
        case EACCES: "it belongs to another user"
        case let number?: SystemError.text(number)
        case nil: "the connection failed"
        }
    }
}

/// The reason why the control socket cannot be used.
struct ControlSocketError: Error, CustomStringConvertible {
    let description: String
}
