import CloakroomCore
import CloakroomTelemetry
import CloakroomWire
import NIOCore

/// What one event loop keeps for all its connections. It belongs to that loop alone.
final class LoopContext {
    let eventLoop: any EventLoop
    /// What exchanges that begin now go by.
    private(set) var snapshot: LoopSnapshot
    /// How many event loops share the connections and the limits that are meant for all.
    let loopCount: Int
    private(set) var isDraining = false
    /// Room for the lines that every forwarded request gets.
    var traceLines = TraceHeaderTemplate()
    private var registered: [any LoopRegistered] = []
    private var rejectionLog: RejectionLog
    private var unflushed: [HTTP2DownstreamHandler] = []
    private var generator = SplitMix64()
    private var clock: LoopClock
    private var tick: RepeatedTask?
    private var onDrained: [() -> Void] = []
    /// Those that exchanges are still under way with.
    private var retired: [LoopSnapshot] = []

    init(eventLoop: any EventLoop, config: ConfigSnapshot, loopCount: Int) {
        self.eventLoop = eventLoop
        self.loopCount = loopCount
        rejectionLog = RejectionLog(config.logger)
        clock = LoopClock(config.sessionClock)
        snapshot = LoopSnapshot(config)
        snapshot.open(on: self)
    }

    /// Goes over to other tables: exchanges that begin from now on go by them, those under way finish with their own.
    /// - Parameter onRetired: Is called once the last exchange with the old ones has ended, perhaps at once.
    func apply(_ config: ConfigSnapshot, onRetired: @escaping () -> Void) {
        updateTime()
        let old = snapshot
        snapshot = LoopSnapshot(config)
        snapshot.open(on: self)
        retired.append(old)
        for member in registered { member.configurationReplaced() }
        let bound = NIOLoopBound(self, eventLoop: eventLoop)
        old.retire {
            bound.value.forget(old)
            onRetired()
        }
    }

    /// Lets connections over TLS finish what they are doing, and no more.
    func drainTLS() {
        updateTime()
        for member in registered where member.usesTLS { member.drain() }
    }

    private func forget(_ snapshot: LoopSnapshot) {
        snapshot.telemetry.flush()
        retired.removeAll { $0 === snapshot }
    }

    /// The moment of the event that is being handled, in nanoseconds of a clock that never goes backwards. Asked of the
    /// system once for each event, by whoever receives it.
    private(set) var now = NIODeadline.now().uptimeNanoseconds

    /// An event begins: takes the time.
    @discardableResult
    func updateTime() -> UInt64 {
        now = NIODeadline.now().uptimeNanoseconds
        return now
    }

    /// Wall-clock time at a moment of ``now``, in nanoseconds since the epoch.
    func wallNanoseconds(at now: UInt64) -> Int64 { clock.wallNanoseconds(at: now) }

    /// Wall-clock time at a moment of ``now``: what tokens of others are judged by.
    func timestamp(at now: UInt64) -> Timestamp {
        Timestamp(milliseconds: clock.wallNanoseconds(at: now) / 1_000_000)
    }

    /// The time by which sessions live at a moment of ``now``: it never goes back.
    func sessionTimestamp(at now: UInt64) -> Timestamp {
        Timestamp(milliseconds: clock.sessionNanoseconds(at: now) / 1_000_000)
    }

    /// The value for `Date` at the moment of ``now``, when the message is made (RFC 9110 §6.6.1); rendered at most once a
    /// second, as that moment never goes back.
    var date: [UInt8] { clock.date(at: now) }

    /// Counts a message that was refused on the wire, by kind, and says so now and then.
    func reject(_ error: WireError, from peer: String) {
        reject(error.label, from: peer)
    }

    /// The same for other reasons; the kind is a constant of the source.
    func reject(_ kind: StaticString, from peer: String) {
        snapshot.config.telemetry.metrics.wireRejections(kind: kind).increment()
        rejectionLog.note(kind, peer: peer, now: now)
    }

    /// A random number for ids: unique, and no secret.
    func random() -> UInt64 { generator.next() }

    // MARK: - Flushes

    /// Has a connection flush once all events of this turn of the loop have been handled.
    func flushLater(_ connection: HTTP2DownstreamHandler) {
        unflushed.append(connection)
        guard unflushed.count == 1 else { return }
        let bound = NIOLoopBound(self, eventLoop: eventLoop)
        eventLoop.execute { bound.value.flushAll() }
    }

    private func flushAll() {
        updateTime()
        let connections = unflushed
        unflushed = []
        for connection in connections { connection.flushNow() }
    }

    // MARK: - Members

    /// Takes in a connection that has deadlines.
    func add(_ member: any LoopRegistered) {
        member.registryIndex = registered.count
        registered.append(member)
    }

    /// Lets go of a connection. Does nothing if it is gone already.
    func remove(_ member: any LoopRegistered) {
        let index = member.registryIndex
        guard registered.indices.contains(index), registered[index] === member else { return }
        let last = registered.removeLast()
        if last !== member {
            registered[index] = last
            last.registryIndex = index
        }
        member.registryIndex = -1
        notifyIfDrained()
    }

    // MARK: - Time

    /// Begins to watch deadlines: one timer for all connections, and no timer per request.
    func start() {
        let shortest = snapshot.timeouts.shortest
        let interval = Int64(min(max(shortest / 8, 5_000_000), 200_000_000))
        let bound = NIOLoopBound(self, eventLoop: eventLoop)
        tick = eventLoop.scheduleRepeatedTask(
            initialDelay: .nanoseconds(interval), delay: .nanoseconds(interval)
        ) { _ in bound.value.onTick() }
    }

    /// Stops watching deadlines, closes what is idle and hands over the last log lines.
    func stop() {
        tick?.cancel()
        tick = nil
        for snapshot in retired + [snapshot] {
            for pool in snapshot.pools { pool.close() }
            snapshot.telemetry.flush()
        }
    }

    private func onTick() {
        let now = updateTime()
        clock.synchronize(at: now)
        // A member that is told may leave, which moves the last one into its place: so from the end to the front.
        var index = registered.count - 1
        while index >= 0 {
            if index < registered.count, registered[index].deadline <= now {
                registered[index].deadlineExpired(now: now)
            }
            index -= 1
        }
        snapshot.telemetry.flush()
        for old in retired { old.telemetry.flush() }
    }

    // MARK: - Drain

    /// Lets connections from clients finish what they are doing, and no more.
    func drain(onDrained: @escaping () -> Void) {
        updateTime()
        isDraining = true
        self.onDrained.append(onDrained)
        for member in registered { member.drain() }
        notifyIfDrained()
    }

    /// Closes whatever is left.
    func closeAll() {
        for member in registered { member.closeNow() }
    }

    private func notifyIfDrained() {
        guard isDraining, !registered.contains(where: { $0.isDownstream }) else { return }
        let waiting = onDrained
        onDrained = []
        for report in waiting { report() }
    }
}

/// A connection that an event loop keeps an eye on.
protocol LoopRegistered: AnyObject {
    /// When it is told that its time is up; `UInt64.max` for never.
    var deadline: UInt64 { get }
    /// Its place; kept by the loop.
    var registryIndex: Int { get set }
    /// Whether it is a client's connection, which a drain waits for.
    var isDownstream: Bool { get }
    /// Whether it is a client's connection over TLS.
    var usesTLS: Bool { get }
    func deadlineExpired(now: UInt64)
    /// Other tables are in effect.
    func configurationReplaced()
    func drain()
    func closeNow()
}

extension LoopRegistered {
    var usesTLS: Bool { false }
    func configurationReplaced() {}
}
