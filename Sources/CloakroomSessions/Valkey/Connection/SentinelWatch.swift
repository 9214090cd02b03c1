import CloakroomCore
import NIOCore
import Synchronization

/// Asks each sentinel about once a second which server is the primary, and ends the connection to a server that they
/// have replaced: that server may still respond, without the changes that are made at the new one.
///
/// While too few sentinels respond to confirm the server, it stays in use, because its sessions must not depend on the
/// sentinels. It is then asked once a second whether it would accept a write: with `min-replicas-to-write` a server that
/// is separated from its replicas does not, and is not used any more.
final class SentinelWatch: Sendable {
    /// The time between two checks.
    private static let checkInterval = Duration.seconds(1)
    private static let questionInterval = Duration.nanoseconds(ClusterTopology.questionInterval.nanoseconds)
    /// The time for which an attempt to connect waits until the sentinels name a server.
    private static let hold = Duration.nanoseconds(ClusterTopology.holdPeriod.nanoseconds)
    private static let pollInterval = Duration.milliseconds(25)

    private struct State {
        var votes: SentinelVotes
        /// Why each sentinel did not name a server; `nil` if it did.
        var failures: [ValkeyDisconnectReason?]
        /// The server that was last tried.
        var tried: HostAndPort?
        /// The connection in use.
        var connection: ValkeyConnection?
        /// When the server in use was last confirmed, or its use began.
        var confirmed: (server: HostAndPort, at: ContinuousClock.Instant)?
        var isDoubtLogged = false
    }

    private let addresses: [HostAndPort]
    private let name: String
    private let connector: ValkeyConnector
    private let log: ValkeyLog
    private let onUnconfirmed: @Sendable (Duration) -> Void
    private let state: Mutex<State>
    /// A write that changes nothing, because its key does not exist.
    private let write: ValkeyCommand

    /// - Parameter onUnconfirmed: Called once a second with the time since the server in use was confirmed, 0 if it is.
    /// - Returns: `nil` if no sentinels are configured.
    init?(
        _ configuration: ValkeyConfiguration, _ connector: ValkeyConnector, log: ValkeyLog,
        onUnconfirmed: @escaping @Sendable (Duration) -> Void
    ) {
        guard let name = configuration.sentinelPrimary else { return nil }
        self.name = name
        addresses = configuration.addresses
        self.connector = connector
        self.log = log
        self.onUnconfirmed = onUnconfirmed
        write = ValkeyCommand("SET", key: "\(configuration.prefix):{primary}:probe", "", "XX")
        state = Mutex(
            State(
                votes: SentinelVotes(count: addresses.count),
                failures: Array(repeating: nil, count: addresses.count)))
    }

    /// Asks the sentinels until the task is cancelled.
    func run() async {
        await withDiscardingTaskGroup { group in
            for index in addresses.indices { group.addTask { await self.ask(index) } }
            while !Task.isCancelled {
                try? await Task.sleep(for: Self.checkInterval)
                await check()
            }
        }
    }

    /// Connects to the primary that the sentinels name.
    func connect() async throws(ValkeyDisconnectReason) -> ValkeyConnection {
        let server = try await primary()
        let verdict = state.withLock { $0.votes.verdict(on: server, now: .now) }
        return try await connector.connect(toPrimary: server, accepting: verdict == .confirmed ? nil : write)
    }

    /// Begins to watch the server of a connection, which is closed if the sentinels have replaced the server.
    func use(_ connection: ValkeyConnection) {
        state.withLock { state in
            state.connection = connection
            if state.confirmed?.server != connection.server { state.confirmed = (connection.server, .now) }
            Self.judge(&state, now: .now)
        }
    }

    /// The connection in use has ended.
    func ended() {
        state.withLock { $0.connection = nil }
    }

    /// Waits before the next attempt to connect, until the sentinels name another server than that of the last one.
    func pause(_ delay: Duration) async {
        let end = ContinuousClock.now + delay
        while !Task.isCancelled, ContinuousClock.now < end {
            let isOther = state.withLock { state in
                state.votes.choice(now: .now).map { $0 != state.tried } ?? false
            }
            if isOther { return }
            try? await Task.sleep(for: min(Self.pollInterval, max(.zero, end - .now)))
        }
    }

    /// The server that the sentinels name. All of them are awaited at the start, unless those that have replied suffice.
    private func primary() async throws(ValkeyDisconnectReason) -> HostAndPort {
        let end = ContinuousClock.now + Self.hold
        while !Task.isCancelled {
            let (server, isComplete) = state.withLock { state in
                var server = state.votes.choice(now: .now)
                if let found = server, !state.votes.isComplete, state.votes.verdict(on: found, now: .now) != .confirmed
                {
                    server = nil
                }
                if let server { state.tried = server }
                return (server, state.votes.isComplete)
            }
            if let server { return server }
            if isComplete, ContinuousClock.now >= end { throw failure }
            try? await Task.sleep(for: Self.pollInterval)
        }
        throw .closed
    }

    /// Why no server is named: the last meaningful reason.
    private var failure: ValkeyDisconnectReason {
        state.withLock { state in
            if state.votes.hasNames(now: .now) { return .sentinelsDisagree }
            return state.failures.reduce(.unreachable) { loss, next in
                loss == .unreachable || loss == .noPrimary ? next ?? loss : loss
            }
        }
    }

    /// Asks one sentinel, over one connection as long as it lasts.
    private func ask(_ index: Int) async {
        var failures = 0
        var generator = SystemRandomNumberGenerator()
        while !Task.isCancelled {
            do throws(ValkeyDisconnectReason) {
                try await connector.withSentinel(addresses[index]) {
                    (connection: ValkeyConnection) async throws(ValkeyDisconnectReason) in
                    while !Task.isCancelled {
                        let askedAt = ContinuousClock.now
                        let server = try await connector.primary(name, of: connection)
                        received(index, server, askedAt)
                        try? await Task.sleep(for: Self.questionInterval * Double.random(in: 0.75...1.25))
                        failures = 0
                    }
                }
            } catch {
                if Task.isCancelled { return }
                state.withLock { state in
                    state.votes.failed(index)
                    state.failures[index] = error
                }
            }
            failures += 1
            try? await Task.sleep(
                for: ClusterTopology.seedDelays.delay(afterFailures: failures, random: generator.next()))
        }
    }

    private func received(_ index: Int, _ server: HostAndPort?, _ askedAt: ContinuousClock.Instant) {
        state.withLock { state in
            state.votes.replied(index, server, askedAt: askedAt)
            state.failures[index] = server == nil ? .noPrimary : nil
            Self.judge(&state, now: .now)
        }
    }

    /// Closes the connection in use if its server may not be used any more.
    /// - Returns: Whether its server is confirmed; `nil` if there is no connection.
    @discardableResult
    private static func judge(_ state: inout State, now: ContinuousClock.Instant) -> Bool? {
        guard let connection = state.connection else { return nil }
        let server = connection.server
        if let time = state.votes.confirmation(of: server, now: now) {
            state.confirmed = (server, time)
            return true
        }
        guard state.votes.verdict(on: server, now: now) == .contradicted else { return false }
        state.connection = nil
        connection.close(.replaced)
        return nil
    }

    /// Reports for how long the server in use was not confirmed, and asks the server itself instead.
    private func check() async {
        let (connection, time, wasLogged) = state.withLock { state in
            let now = ContinuousClock.now
            let isDoubtful = Self.judge(&state, now: now) == false
            defer { state.isDoubtLogged = isDoubtful }
            let time = isDoubtful ? state.confirmed.map { now - $0.at } : nil
            return (state.connection, time, state.isDoubtLogged)
        }
        onUnconfirmed(time ?? .zero)
        guard let connection else { return }
        guard time != nil else {
            if wasLogged { log.confirmed(connection.address) }
            return
        }
        if !wasLogged { log.notConfirmed(connection.address) }
        // An error that means that this is the wrong server closes the connection.
        guard case .failure(.rejected(let error))? = await connection.send([write]).first,
            error.code == ValkeyConnector.noReplicas
        else { return }
        connection.close(.notPrimary(code: error.code))
    }
}
