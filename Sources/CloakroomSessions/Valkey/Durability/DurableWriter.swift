import CloakroomCore
import NIOCore
import Synchronization

/// Writes to one primary that wait until its replicas have them too, so that a failover does not lose them.
///
/// `WAIT` blocks its connection until the replicas have confirmed all writes of that connection. So these writes have a
/// second connection, and the reads and the notifications of changes on the tracked one never wait for a replica.
/// Everything that is to be written while a `WAIT` is pending becomes the next batch: many writers share one wait. All
/// commands of a batch and its `WAIT` are sent together, so a write without others takes one round trip, and the one
/// between the primary and its replicas.
///
/// A write does not fail because it is unconfirmed. If the second connection is missing or its queue is full, or if there
/// is no replica to wait for, the commands go over the tracked connection instead: a session that cannot be ended would
/// be worse than one whose end a failover might lose, which ``WriteReassertion`` repairs. Only commands that were not
/// sent take this way; a command whose result is unknown fails.
///
/// Folder `Durability/`: writes that survive a failover of the server: confirmations of replicas, and a journal of
/// recent writes that is written again to a new primary.
final class DurableWriter: Sendable {
    typealias Reply = Result<RESPValue, ValkeyCommandError>

    struct Options: Sendable {
        /// The number of replicas that have to confirm, from 1.
        var replicas: Int
        /// The maximum time to wait for them.
        var replicationTimeout: Duration
        /// The time limit for a reply, without that time.
        var timeout: Duration
        /// The time between two questions for the connected replicas.
        var reportInterval = Duration.seconds(5)
    }

    /// The maximum number of commands in a batch.
    static let commandsAtOnce = 500
    /// The maximum number of commands that wait for the next batch.
    static let maximumCount = 10_000
    /// The maximum size of these commands in bytes.
    static let maximumSize = 16 << 20

    private struct PendingWrite {
        let commands: [ValkeyCommand]
        /// Whether every other command is `ASKING`, which is no write.
        let isAsking: Bool
        let size: Int
        /// Resumed with `nil` if the commands were not sent.
        let continuation: CheckedContinuation<[Reply]?, Never>
    }

    /// The replies to the commands themselves, without those to `ASKING`.
    private static func results(_ replies: [Reply], isAsking: Bool) -> [Reply] {
        guard isAsking else { return replies }
        return stride(from: 1, to: replies.count, by: 2).map { replies[$0] }
    }

    private struct State {
        /// The second connection while it is ready.
        var connection: ValkeyConnection?
        var confirmation: ReplicaConfirmation
        var waiting = CircularBuffer<PendingWrite>()
        var count = 0
        var size = 0
        var isSending = false
    }

    private enum Admission {
        case begin, queued, rejected
    }

    private struct Batch {
        let writes: [PendingWrite]
        let connection: ValkeyConnection
        let replicas: Int
    }

    private let options: Options
    private let link: ValkeyConnection
    private let connect: @Sendable () async throws(ValkeyDisconnectReason) -> ValkeyConnection
    private let log: DurabilityLog
    private let state: Mutex<State>

    /// - Parameters:
    ///   - link: The tracked connection to the same server.
    ///   - connect: Establishes another connection to it, without tracking.
    init(
        _ options: Options, link: ValkeyConnection, log: DurabilityLog,
        connect: @escaping @Sendable () async throws(ValkeyDisconnectReason) -> ValkeyConnection
    ) {
        self.options = options
        self.link = link
        self.log = log
        self.connect = connect
        state = Mutex(State(confirmation: ReplicaConfirmation(required: options.replicas)))
    }

    /// The number of replicas that a write would wait for now.
    var awaitedReplicas: Int {
        state.withLock { $0.connection == nil ? 0 : $0.confirmation.awaited }
    }

    /// Sends commands, and waits for their replies and for the replicas.
    /// - Parameter isAsking: Whether the server is receiving the commands' slots. Each is then sent after `ASKING`, over
    ///   the same connection and with nothing in between.
    func send(_ commands: [ValkeyCommand], isAsking: Bool = false) async -> [Reply] {
        guard !commands.isEmpty else { return [] }
        let commands = isAsking ? commands.flatMap { [ValkeyLink.asking, $0] } : commands
        let size = commands.reduce(0) { $0 + $1.encoded.readableBytes }
        let replies: [Reply]? = await withCheckedContinuation { continuation in
            let write = PendingWrite(commands: commands, isAsking: isAsking, size: size, continuation: continuation)
            switch admit(write) {
            case .rejected: continuation.resume(returning: nil)
            case .queued: break
            case .begin: Task { await sendBatches() }
            }
        }
        if let replies { return replies }
        let unconfirmed = Self.results(await link.send(commands), isAsking: isAsking)
        log.unconfirmed(unconfirmed)
        return unconfirmed
    }

    private func admit(_ write: PendingWrite) -> Admission {
        state.withLock { state in
            guard state.connection != nil, state.confirmation.awaited > 0,
                state.count + write.commands.count <= Self.maximumCount, state.size + write.size <= Self.maximumSize
            else { return .rejected }
            state.waiting.append(write)
            state.count += write.commands.count
            state.size += write.size
            guard !state.isSending else { return .queued }
            state.isSending = true
            return .begin
        }
    }

    /// Sends batches until nothing waits.
    private func sendBatches() async {
        while let batch = nextBatch() { await send(batch) }
    }

    /// Takes the next batch. Without a connection or a replica, the writes that wait go over the tracked connection.
    private func nextBatch() -> Batch? {
        let (batch, unsent): (Batch?, [PendingWrite]) = state.withLock { state in
            let isReady = state.connection != nil && state.confirmation.awaited > 0
            var writes: [PendingWrite] = []
            var commands = 0
            while let next = state.waiting.first,
                !isReady || writes.isEmpty || commands + next.commands.count <= Self.commandsAtOnce
            {
                state.waiting.removeFirst()
                commands += next.commands.count
                state.count -= next.commands.count
                state.size -= next.size
                writes.append(next)
            }
            guard isReady, let connection = state.connection, !writes.isEmpty else {
                state.isSending = false
                return (nil, writes)
            }
            return (Batch(writes: writes, connection: connection, replicas: state.confirmation.awaited), [])
        }
        for write in unsent { write.continuation.resume(returning: nil) }
        return batch
    }

    private func send(_ batch: Batch) async {
        let wait = ValkeyCommand(
            "WAIT", .integer(Int64(batch.replicas)), .integer(max(1, options.replicationTimeout.wholeMilliseconds)))
        let replies = await batch.connection.send(
            batch.writes.flatMap(\.commands) + [wait],
            timeout: TimeAmount(options.timeout) + TimeAmount(options.replicationTimeout))
        // A connection rejects all commands of a call or sends them all.
        if case .failure(let error) = replies.first, error == .notConnected || error == .overloaded {
            for write in batch.writes { write.continuation.resume(returning: nil) }
            return
        }
        let isConfirmed = judge(replies.last, batch.replicas)
        var rest = replies[...]
        for write in batch.writes {
            let own = Self.results(Array(rest.prefix(write.commands.count)), isAsking: write.isAsking)
            rest = rest.dropFirst(write.commands.count)
            if !isConfirmed { log.unconfirmed(own) }
            write.continuation.resume(returning: own)
        }
    }

    /// Evaluates the reply to `WAIT`.
    /// - Returns: Whether as many replicas as configured have confirmed.
    private func judge(_ reply: Reply?, _ awaited: Int) -> Bool {
        switch reply {
        case .success(.integer(let count)):
            let confirmed = Int(clamping: count)
            state.withLock { $0.confirmation.waited(for: awaited, confirmed: confirmed) }
            if confirmed < awaited { log.timedOut(link.address, required: options.replicas, confirmed: confirmed) }
            return confirmed >= options.replicas
        case .failure(.rejected(let error)):
            // A primary that became a replica ends a pending wait with this error.
            if error.code == "UNBLOCKED" { return false }
            state.withLock { $0.confirmation.rejected() }
            log.rejected(link.address, code: error.code)
            return false
        case .success, .failure, nil:
            return false
        }
    }
}

extension DurableWriter {
    /// Keeps the second connection until the task is cancelled.
    func run() async {
        var delay = ReconnectDelay()
        var generator = SystemRandomNumberGenerator()
        while !Task.isCancelled {
            do throws(ValkeyDisconnectReason) {
                let connection = try await connect()
                let start = ContinuousClock.now
                let loss = await withTaskCancellationHandler {
                    await use(connection)
                } onCancel: {
                    connection.close(.closed)
                }
                delay.connectionEnded(after: ContinuousClock.now - start)
                closeLink(loss)
            } catch {
                closeLink(error)
                if !Task.isCancelled { log.notConnected(link.address, error) }
            }
            try? await Task.sleep(for: delay.next(using: &generator))
        }
    }

    /// Uses a connection for writes until it ends.
    private func use(_ connection: ValkeyConnection) async -> ValkeyDisconnectReason {
        let reports = Task {
            while !Task.isCancelled {
                await reportReplicas(connection)
                state.withLock { $0.connection = connection }
                try? await Task.sleep(for: options.reportInterval)
            }
        }
        _ = await connection.activate(to: UntrackedConnection())
        let loss = (try? await connection.closed.get()) ?? .unreachable
        reports.cancel()
        await reports.value
        state.withLock { $0.connection = nil }
        return loss
    }

    private func reportReplicas(_ connection: ValkeyConnection) async {
        switch await connection.send([ValkeyCommand("ROLE")]).first {
        case .success(let role):
            guard let count = ReplicaConfirmation.replicaCount(role) else {
                return connection.close(.notPrimary(code: "READONLY"))
            }
            state.withLock { $0.confirmation.replicasReported(count) }
            log.replicas(link.address, required: options.replicas, connected: count)
        case .failure(.rejected):
            // Services that hide the role have replicas, or none.
            state.withLock { $0.confirmation.replicasReported(nil) }
        case .failure, nil:
            break
        }
    }

    /// Closes the tracked connection if the server became a replica: reads alone would not notice it.
    private func closeLink(_ reason: ValkeyDisconnectReason) {
        if case .notPrimary = reason { link.close(reason) }
    }
}

/// Receives nothing: no change is tracked on this connection.
private struct UntrackedConnection: ValkeyLinkDelegate {
    func linkChanged(isUp: Bool) {}
    func pushed(_ message: [RESPValue]) {}
}

extension DurableWriter.Options {
    /// Fails if no replica has to confirm.
    init?(_ configuration: ValkeyConfiguration) {
        guard configuration.replicas > 0 else { return nil }
        self.init(
            replicas: configuration.replicas, replicationTimeout: configuration.replicationTimeout,
            timeout: configuration.timeout)
    }
}
