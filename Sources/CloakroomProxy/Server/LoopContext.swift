import CloakroomCore
import CloakroomTelemetry
import CloakroomWire
import NIOCore

/// What one event loop keeps for all its connections. It belongs to that loop alone.
final class LoopContext {
    let eventLoop: any EventLoop
    /// What exchanges that begin now go by.
    private(set) var generation: TableGeneration
    /// How many event loops share the connections and the limits that are meant for all.
    let loopCount: Int
    private(set) var isDraining = false
    /// Room for the lines that every forwarded request gets.
    var traceLines = TraceLines()
    private var members: [any LoopMember] = []
    private var rejectionLog: RejectionLog
    private var unflushed: [HTTP2DownstreamHandler] = []
    private var generator = FastGenerator()
    private var clock: LoopClock
    private var tick: RepeatedTask?
    private var whenEmpty: [() -> Void] = []
    /// Those that exchanges are still under way with.
    private var retired: [TableGeneration] = []

    init(eventLoop: any EventLoop, tables: GatewayTables, loopCount: Int) {
        self.eventLoop = eventLoop
        self.loopCount = loopCount
        rejectionLog = RejectionLog(tables.logger)
        clock = LoopClock(tables.sessionClock)
        generation = TableGeneration(tables)
        generation.open(on: self)
    }

    /// Goes over to other tables: exchanges that begin from now on go by them, those under way finish with their own.
    /// - Parameter onRetired: Is called once the last exchange with the old ones has ended, perhaps at once.
    func replace(_ tables: GatewayTables, onRetired: @escaping () -> Void) {
        beginEvent()
        let old = generation
        generation = TableGeneration(tables)
        generation.open(on: self)
        retired.append(old)
        for member in members { member.tablesReplaced() }
        let bound = NIOLoopBound(self, eventLoop: eventLoop)
        old.retire {
            bound.value.forget(old)
            onRetired()
        }
    }

    /// Lets connections over TLS finish what they are doing, and no more.
    func drainTLS() {
        beginEvent()
        for member in members where member.isOverTLS { member.drain() }
    }

    private func forget(_ generation: TableGeneration) {
        generation.telemetry.flush()
        retired.removeAll { $0 === generation }
    }

    /// The moment of the event that is being handled, in nanoseconds of a clock that never goes backwards. Asked of the
    /// system once for each event, by whoever receives it.
    private(set) var now = NIODeadline.now().uptimeNanoseconds

    /// An event begins: takes the time.
    @discardableResult
    func beginEvent() -> UInt64 {
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
    func sessionTime(at now: UInt64) -> Timestamp {
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
        generation.tables.telemetry.metrics.wireRejections(kind: kind).increment()
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
        beginEvent()
        let connections = unflushed
        unflushed = []
        for connection in connections { connection.flushNow() }
    }

    // MARK: - Members

    /// Takes in a connection that has deadlines.
    func add(_ member: any LoopMember) {
        member.memberIndex = members.count
        members.append(member)
    }

    /// Lets go of a connection. Does nothing if it is gone already.
    func remove(_ member: any LoopMember) {
        let index = member.memberIndex
        guard members.indices.contains(index), members[index] === member else { return }
        let last = members.removeLast()
        if last !== member {
            members[index] = last
            last.memberIndex = index
        }
        member.memberIndex = -1
        reportIfEmpty()
    }

    // MARK: - Time

    /// Begins to watch deadlines: one timer for all connections, and no timer per request.
    func start() {
        let shortest = generation.timeouts.shortest
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
        for generation in retired + [generation] {
            for pool in generation.pools { pool.close() }
            generation.telemetry.flush()
        }
    }

    private func onTick() {
        let now = beginEvent()
        clock.synchronize(at: now)
        // A member that is told may leave, which moves the last one into its place: so from the end to the front.
        var index = members.count - 1
        while index >= 0 {
            if index < members.count, members[index].deadline <= now { members[index].deadlineExpired(now: now) }
            index -= 1
        }
        generation.telemetry.flush()
        for old in retired { old.telemetry.flush() }
    }

    // MARK: - Drain

    /// Lets connections from clients finish what they are doing, and no more.
    func drain(whenEmpty: @escaping () -> Void) {
        beginEvent()
        isDraining = true
        self.whenEmpty.append(whenEmpty)
        for member in members { member.drain() }
        reportIfEmpty()
    }

    /// Closes whatever is left.
    func closeAll() {
        for member in members { member.closeNow() }
    }

    private func reportIfEmpty() {
        guard isDraining, !members.contains(where: { $0.isDownstream }) else { return }
        let waiting = whenEmpty
        whenEmpty = []
        for report in waiting { report() }
    }
}

/// A connection that an event loop keeps an eye on.
protocol LoopMember: AnyObject {
    /// When it is told that its time is up; `UInt64.max` for never.
    var deadline: UInt64 { get }
    /// Its place; kept by the loop.
    var memberIndex: Int { get set }
    /// Whether it is a client's connection, which a drain waits for.
    var isDownstream: Bool { get }
    /// Whether it is a client's connection over TLS.
    var isOverTLS: Bool { get }
    func deadlineExpired(now: UInt64)
    /// Other tables are in effect.
    func tablesReplaced()
    func drain()
    func closeNow()
}

extension LoopMember {
    var isOverTLS: Bool { false }
    func tablesReplaced() {}
}
