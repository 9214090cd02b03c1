import CloakroomTLS
import NIOCore
import NIOSSL

/// One connection to a server: sends commands, matches replies to them in order, and closes the connection if a reply
/// is late.
///
/// There is one deadline, that of the oldest command. When it passes, or when the server sends invalid RESP, the
/// connection is closed and every pending command fails, because replies can no longer be matched to commands. An idle
/// connection is pinged, so that a hanging server is noticed just as soon.
final class ValkeyConnectionHandler: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    /// The idle time after which the server is pinged.
    static let heartbeat = TimeAmount.milliseconds(500)

    private var context: ChannelHandlerContext?
    private var parser = RESPParser()
    private var pending = PendingCommands()
    private let timeout: TimeAmount
    private let disconnectCodes: Set<String>
    private var timer: (task: Scheduled<Void>, at: NIODeadline)?
    private var needsFlush = false
    /// When the server last sent data.
    private var lastReceivedAt = NIODeadline.uptimeNanoseconds(0)
    private var disconnectReason: ValkeyDisconnectReason?
    private let closed: EventLoopPromise<ValkeyDisconnectReason>
    /// Receives changes once the connection is ready.
    private var listener: (any ValkeyLinkDelegate)?

    /// - Parameters:
    ///   - timeout: The time limit for a reply.
    ///   - disconnectCodes: Error codes that mean that this is the wrong server; the connection is closed then.
    ///   - closed: Completed once, with the reason why the connection ended.
    init(timeout: TimeAmount, disconnectCodes: Set<String>, closed: EventLoopPromise<ValkeyDisconnectReason>) {
        self.timeout = timeout
        self.disconnectCodes = disconnectCodes
        self.closed = closed
    }

    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        close(.unreachable)
        self.context = nil
    }

    /// Sends commands, and delivers their replies to the batch.
    /// - Parameter timeout: Overrides the default time limit.
    func send(_ commands: [ValkeyCommand], timeout: TimeAmount? = nil, to batch: PipelinedReplies) {
        let size = commands.reduce(0) { $0 + $1.encoded.readableBytes }
        guard disconnectReason == nil, let context, pending.hasRoom(for: commands.count, size: size) else {
            let failure = disconnectReason == nil ? ValkeyCommandError.overloaded : .notConnected
            for index in commands.indices { batch.fill(index, with: .failure(failure)) }
            return
        }
        let deadline = context.eventLoop.now + (timeout ?? self.timeout)
        for (index, command) in commands.enumerated() {
            pending.append(
                PendingCommands.Entry(
                    batch: batch, index: index, deadline: deadline, size: command.encoded.readableBytes,
                    replyLimit: command.replyLimit))
            context.write(wrapOutboundOut(command.encoded), promise: nil)
        }
        setTimer(noLaterThan: pending.deadline ?? deadline)
        guard !needsFlush else { return }
        // Commands sent in the same event loop tick are flushed together, in one system call.
        needsFlush = true
        context.eventLoop.assumeIsolated().execute { [self] in
            needsFlush = false
            self.context?.flush()
        }
    }

    /// Marks the connection as ready, and starts delivering changes.
    /// - Returns: `false` if the connection has ended already.
    func activate(to listener: any ValkeyLinkDelegate) -> Bool {
        guard disconnectReason == nil, let context else { return false }
        self.listener = listener
        listener.linkChanged(isUp: true)
        lastReceivedAt = context.eventLoop.now
        setTimer(noLaterThan: lastReceivedAt + Self.heartbeat)
        return true
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard disconnectReason == nil else { return }
        lastReceivedAt = context.eventLoop.now
        parser.append(unwrapInboundIn(data))
        do {
            while disconnectReason == nil, let value = try parser.next() { received(value) }
        } catch {
            close(.protocolError)
        }
    }

    private func received(_ value: RESPValue) {
        if case .push(let message) = value {
            listener?.pushed(message)
            return
        }
        guard let entry = pending.popFirst() else {
            close(.protocolError)
            return
        }
        guard case .error(let error) = value else {
            guard entry.replyLimit == .max || value.size <= entry.replyLimit else {
                entry.batch?.fill(entry.index, with: .failure(.disconnected))
                close(.protocolError)
                return
            }
            entry.batch?.fill(entry.index, with: .success(value))
            return
        }
        entry.batch?.fill(entry.index, with: .failure(.rejected(error)))
        if disconnectCodes.contains(error.code) { close(.notPrimary(code: error.code)) }
    }

    func channelInactive(context: ChannelHandlerContext) {
        close(.unreachable)
        context.fireChannelInactive()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        let isTLS =
            error is NIOSSLError || error is BoringSSLError || error is NIOSSLExtraError
            || error is ServerNameVerifier.Mismatch
        close(isTLS ? .tls("\(error)") : .unreachable)
    }

    /// Closes the connection. The listener is notified before any command fails, so that cached data is invalidated
    /// first.
    func close(_ reason: ValkeyDisconnectReason) {
        guard disconnectReason == nil else { return }
        disconnectReason = reason
        timer?.task.cancel()
        timer = nil
        listener?.linkChanged(isUp: false)
        listener = nil
        while let entry = pending.popFirst() { entry.batch?.fill(entry.index, with: .failure(.disconnected)) }
        context?.close(promise: nil)
        closed.succeed(reason)
    }

    private func setTimer(noLaterThan deadline: NIODeadline) {
        guard let context, disconnectReason == nil else { return }
        if let timer {
            guard deadline < timer.at else { return }
            timer.task.cancel()
        }
        let task = context.eventLoop.assumeIsolated().scheduleTask(deadline: deadline) { [self] in timerFired() }
        timer = (task, deadline)
    }

    /// Checks the deadlines. The timer is not moved with each command; it reschedules itself instead.
    private func timerFired() {
        timer = nil
        guard disconnectReason == nil, let context else { return }
        let now = context.eventLoop.now
        if let deadline = pending.deadline, deadline <= now { return close(.timedOut) }
        if pending.isEmpty, lastReceivedAt + Self.heartbeat <= now { sendPing(context) }
        let next = pending.isEmpty ? lastReceivedAt + Self.heartbeat : now + Self.heartbeat
        setTimer(noLaterThan: min(next, pending.deadline ?? next))
    }

    /// Sends a heartbeat. Any reply is sufficient; without a reply, the deadline passes.
    private func sendPing(_ context: ChannelHandlerContext) {
        pending.append(
            PendingCommands.Entry(batch: nil, index: 0, deadline: context.eventLoop.now + timeout, size: 0))
        context.writeAndFlush(wrapOutboundOut(Self.ping.encoded), promise: nil)
    }

    private static let ping = ValkeyCommand("PING")
}

/// Receives the state of one connection, and the server's push messages. Called on the connection's event loop.
protocol ValkeyLinkDelegate: Sendable {
    /// The connection is ready for commands, or has ended. It ends before any pending command fails.
    func linkChanged(isUp: Bool)
    func pushed(_ message: [RESPValue])
}

/// Commands that were sent and have no reply yet, the oldest first: a server replies in the order of the commands.
struct PendingCommands {
    struct Entry {
        /// The receiver of the reply; `nil` for a heartbeat.
        let batch: PipelinedReplies?
        let index: Int
        let deadline: NIODeadline
        /// The size of the command in bytes.
        let size: Int
        /// The maximum size of the reply.
        var replyLimit = Int.max
    }

    /// The maximum number of pending commands. More are rejected: a server that slow will not catch up.
    static let maximumCount = 100_000
    /// The maximum size of all pending commands in bytes.
    static let maximumSize = 64 << 20

    private var entries = CircularBuffer<Entry>()
    private var size = 0

    var isEmpty: Bool { entries.isEmpty }

    /// The time limit for the reply to the oldest command.
    var deadline: NIODeadline? { entries.first?.deadline }

    /// Whether more commands may be sent.
    func hasRoom(for count: Int, size: Int) -> Bool {
        entries.count + count <= Self.maximumCount && self.size + size <= Self.maximumSize
    }

    mutating func append(_ entry: Entry) {
        entries.append(entry)
        size += entry.size
    }

    mutating func popFirst() -> Entry? {
        guard let entry = entries.popFirst() else { return nil }
        size -= entry.size
        return entry
    }
}
