import CloakroomTLS
import NIOCore
import NIOSSL

/// One connection to a server: sends commands, matches answers to them in order, and gives up on a server that is late.
///
/// There is one deadline, the oldest command's. When it passes, or when the server says something that is no RESP, the
/// connection is closed and every command that waits has failed: which answer would belong to which is not known any more.
/// A connection on which nothing happens is asked for a sign of life, so that a server that hangs is noticed as soon.
final class ValkeyConnectionHandler: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    /// After this long without anything to do the server is asked whether it is there.
    static let heartbeat = TimeAmount.milliseconds(500)

    private var context: ChannelHandlerContext?
    private var parser = RESPParser()
    private var pending = PendingCommands()
    private let timeout: TimeAmount
    private let disconnectCodes: Set<String>
    private var timer: (task: Scheduled<Void>, at: NIODeadline)?
    private var needsFlush = false
    /// When the server said something last.
    private var lastReceivedAt = NIODeadline.uptimeNanoseconds(0)
    private var disconnectReason: ValkeyDisconnectReason?
    private let closed: EventLoopPromise<ValkeyDisconnectReason>
    /// Who is told of changes, once the connection is good for use.
    private var listener: (any ValkeyPushDelegate)?

    /// - Parameters:
    ///   - timeout: After this a command has failed.
    ///   - unfitCodes: Errors that say that this server is the wrong one; the connection is closed then.
    ///   - closed: Is told why the connection ended, once.
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

    /// Sends commands, and has their answers go to the batch.
    /// - Parameter timeout: If it is not the usual one.
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
                    batch: batch, index: index, deadline: deadline, size: command.encoded.readableBytes))
            context.write(wrapOutboundOut(command.encoded), promise: nil)
        }
        setTimer(noLaterThan: pending.deadline ?? deadline)
        guard !needsFlush else { return }
        // What others send in the same turn of the loop goes out with it, in one system call.
        needsFlush = true
        context.eventLoop.assumeIsolated().execute { [self] in
            needsFlush = false
            self.context?.flush()
        }
    }

    /// The connection is good for use from now on: says so, and tells of changes.
    /// - Returns: `false` if it has ended already.
    func activate(to listener: any ValkeyPushDelegate) -> Bool {
        guard disconnectReason == nil, let context else { return false }
        self.listener = listener
        listener.connectionChanged(isUp: true)
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

    /// Ends the connection. Those who trust what was read over it are told before anybody hears that a command failed.
    func close(_ reason: ValkeyDisconnectReason) {
        guard disconnectReason == nil else { return }
        disconnectReason = reason
        timer?.task.cancel()
        timer = nil
        listener?.connectionChanged(isUp: false)
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

    /// Looks what is due. The timer is not moved with each command; it asks again instead.
    private func timerFired() {
        timer = nil
        guard disconnectReason == nil, let context else { return }
        let now = context.eventLoop.now
        if let deadline = pending.deadline, deadline <= now { return close(.timedOut) }
        if pending.isEmpty, lastReceivedAt + Self.heartbeat <= now { sendPing(context) }
        let next = pending.isEmpty ? lastReceivedAt + Self.heartbeat : now + Self.heartbeat
        setTimer(noLaterThan: min(next, pending.deadline ?? next))
    }

    /// Asks for a sign of life. Whatever the answer is, it is one; if there is none, the deadline passes.
    private func sendPing(_ context: ChannelHandlerContext) {
        pending.append(
            PendingCommands.Entry(batch: nil, index: 0, deadline: context.eventLoop.now + timeout, size: 0))
        context.writeAndFlush(wrapOutboundOut(Self.ping.encoded), promise: nil)
    }

    private static let ping = ValkeyCommand("PING")
}

/// Is told what a server says by itself. Called on the connection's event loop.
protocol ValkeyPushDelegate: Sendable {
    func connectionChanged(isUp: Bool)
    func pushed(_ message: [RESPValue])
}
