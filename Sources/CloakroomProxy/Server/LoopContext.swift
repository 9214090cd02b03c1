import CloakroomCore
import CloakroomHTTP2
import CloakroomTelemetry
import CloakroomWire
import Logging
import NIOCore

/// State that one event loop keeps for all its connections. Used on that loop only.
final class LoopContext {
    let eventLoop: any EventLoop
    /// The source of ``now``.
    let time: LoopTime
    /// The snapshot that new exchanges use.
    private(set) var snapshot: LoopSnapshot
    /// Number of event loops; limits that apply to the process are divided by it.
    let loopCount: Int
    /// Number of this event loop, from 0.
    let index: Int
    /// All event loops, to send messages to them.
    let neighbours: LoopNeighbours
    /// The limit of client connections; `nil` if they are not limited.
    var connectionLimit: ConnectionLimit?
    private(set) var isDraining = false
    /// For how long a client connection that waits for a request may send one more while it drains, in nanoseconds.
    private(set) var requestGrace: UInt64 = 0
    private(set) var registered: [any LoopRegistered] = []
    private let logger: Logger
    /// At most 10 lines about rejected messages per 10 s and event loop, so that clients cannot fill the disk.
    private var rejectionLines = FixedWindowLimiter(limit: 10)
    /// At most 10 lines about sessions that may not use a route.
    private var permissionLines = FixedWindowLimiter(limit: 10)
    /// At most one line an hour about questions of other proxies without `Origin`, which any client can cause.
    private var originLines = FixedWindowLimiter(limit: 1, window: .seconds(3_600))
    /// Storage for the head of the request that is being decoded.
    var requestHead = RequestHead()
    /// Response lines of upstreams, prepared for HTTP/2.
    let responseLines = ResponseLineCache()
    private var unflushed: [HTTP2DownstreamHandler] = []
    private var flushing: [HTTP2DownstreamHandler] = []
    private lazy var flushTask: @Sendable () -> Void = {
        let bound = NIOLoopBound(self, eventLoop: eventLoop)
        return { bound.value.flushAll() }
    }()
    private var bodyWindows: Int
    /// Whether a connection needed a window when there was none.
    var isBodyWindowWanted = false
    /// When the next idle connection may end for its window.
    var nextReclaim: UInt64 = 0
    /// Index of the next connection that is examined at the connection limit.
    var nextExamined = 0
    /// The requests in flight of clients behind trusted proxies.
    var forwardedLoads = ForwardedClientLoads()
    /// Bytes of request bodies that are buffered before a connection to the upstream is leased.
    private(set) var requestBufferBytes = 0
    /// Bytes of HTTP/2 responses that wait for their clients, here or in streams of upstreams, and of the heads of requests
    /// that wait behind them.
    var responseBytes = 0
    private var generator = SplitMix64()
    private var clock: LoopClock
    private var tick: RepeatedTask?
    private var connectionMetrics = LoopConnectionMetrics()
    /// ``SessionAccess/changeCount`` when long-lived responses were last checked.
    private var sessionChanges: UInt64 = 0
    private var onDrained: [() -> Void] = []
    /// Retired snapshots that are used by exchanges in progress, the oldest first.
    private(set) var retired: [LoopSnapshot] = []
    /// The maximum number of them that long-lived responses continue with: each holds all of its configuration, and keeps
    /// its providers running.
    static let maxRetired = 16

    init(
        eventLoop: any EventLoop, config: ConfigSnapshot, loopCount: Int, index: Int = 0,
        neighbours: LoopNeighbours = LoopNeighbours(), time: LoopTime = .system
    ) {
        self.eventLoop = eventLoop
        self.time = time
        now = time.now()
        self.loopCount = loopCount
        self.index = index
        self.neighbours = neighbours
        bodyWindows = Self.bodyMemory / Self.bodyWindow / loopCount
        logger = config.logger
        clock = LoopClock(config.sessionClock)
        snapshot = LoopSnapshot(config)
        snapshot.open(on: self)
    }

    /// Activates a new configuration: new exchanges use it, exchanges in progress complete with the old one.
    /// - Parameter onRetired: Called when the last exchange with the old configuration has ended, possibly at once.
    func apply(_ config: ConfigSnapshot, onRetired: @escaping () -> Void) {
        updateTime()
        let old = snapshot
        snapshot = LoopSnapshot(config)
        snapshot.open(on: self, adopting: old)
        retired.append(old)
        let bound = NIOLoopBound(self, eventLoop: eventLoop)
        old.retire(to: snapshot) {
            bound.value.forget(old)
            onRetired()
        }
        // Afterwards, so that one that nothing uses does not count.
        for member in registered { member.configurationReplaced() }
    }

    /// The pools for an upstream: that of the configuration in effect, and those of previous ones that exchanges in
    /// progress use.
    func pools(of targets: UpstreamTargets) -> [UpstreamPool] {
        var found: [UpstreamPool] = []
        for snapshot in [snapshot] + retired {
            for pool in snapshot.pools where pool.upstream.targets === targets {
                if !found.contains(where: { $0 === pool }) { found.append(pool) }
            }
        }
        return found
    }

    func drainTLS() {
        updateTime()
        for member in registered where member.usesTLS { member.drain() }
    }

    /// Whether long-lived responses may continue with a retired snapshot.
    func isKept(_ snapshot: LoopSnapshot) -> Bool { retired.suffix(Self.maxRetired).contains { $0 === snapshot } }

    private func forget(_ snapshot: LoopSnapshot) {
        snapshot.telemetry.flush()
        for pool in poolsOnly(of: snapshot) {
            pool.report()
            pool.tunnels?.report()
        }
        retired.removeAll { $0 === snapshot }
    }

    /// The pools of a retired configuration that the one in effect does not use.
    func poolsOnly(of old: LoopSnapshot) -> [UpstreamPool] {
        old.pools.filter { pool in !snapshot.pools.contains { $0 === pool } }
    }

    /// Time of the current event, in nanoseconds of a monotonic clock. Read once per event by the handler that receives
    /// the event.
    private(set) var now: UInt64

    /// Updates ``now`` at the beginning of an event.
    @discardableResult
    func updateTime() -> UInt64 {
        now = time.now()
        return now
    }

    /// Wall-clock time for a value of ``now``, in nanoseconds since the epoch.
    func wallNanoseconds(at now: UInt64) -> Int64 { clock.wallNanoseconds(at: now) }

    /// Wall-clock time for a value of ``now``, for comparison with times from other systems, such as token expiry.
    func wallTime(at now: UInt64) -> WallTime { clock.wallTime(at: now) }

    /// Session time for a value of ``now``; monotonic.
    func sessionTime(at now: UInt64) -> SessionTime {
        SessionTime(milliseconds: clock.sessionNanoseconds(at: now) / 1_000_000)
    }

    /// `Date` value for ``now``, the time at which the message is generated (RFC 9110 §6.6.1). Rendered at most once
    /// per second.
    var date: [UInt8] { clock.date(at: now) }

    /// Counts a rejected message by reason, and logs at most 10 of them per 10 s.
    func reject(_ error: WireError, from peer: String) {
        reject(error.label, from: peer)
    }

    /// Counts and logs a rejection for another reason, a compile-time constant.
    func reject(_ reason: StaticString, from peer: String) {
        snapshot.config.telemetry.metrics.rejections(reason: reason).increment()
        guard rejectionLines.tryAcquire(at: now) != nil else { return }
        logger.info("malformed request rejected", metadata: ["error_type": "\(reason)", "peer": "\(peer)"])
    }

    /// Logs that a session may not use a route, at most 10 times per 10 s. Only here it is visible which claim is missing.
    func notPermitted(_ event: Denial.Event, route: String) {
        guard permissionLines.tryAcquire(at: now) != nil else { return }
        var metadata: Logger.Metadata = [
            "event": "\(event.code.rawValue)", "route": "\(route)", "session": "\(event.session.id)",
        ]
        if let app = event.session.app { metadata["app"] = "\(app)" }
        if event.session.isBoundToDevice { metadata["bound"] = .stringConvertible(true) }
        if let claim = event.claim { metadata["claim"] = "\(claim)" }
        logger.info("the session is not permitted", metadata: metadata)
    }

    /// Logs how to configure a proxy that omits the fields by which browsers report the origin.
    func lacksOrigin(_ proxy: ForwardAuthConfiguration.Proxy) {
        guard originLines.tryAcquire(at: now) != nil else { return }
        let setting = proxy == .envoy ? ": list them in allowed_headers of ext_authz" : ""
        logger.warning(
            "an unsafe request was denied, because the question about it has no Origin and no Sec-Fetch-Site",
            metadata: [
                "event": "forward_auth_origin", "proxy": "\(proxy.rawValue)",
                "hint": "if forms of browsers are denied, let the proxy send both fields\(setting)",
            ])
    }

    /// Counts a client that was too slow, and logs it at most once a minute for each direction and cause.
    func slowClient(
        _ direction: SlowClientDirection, _ cause: SlowClientCause, of snapshot: LoopSnapshot, route: String?,
        peer: String
    ) {
        guard snapshot.config.telemetry.metrics.clientLimits.slowClient(direction, cause, now: now) else { return }
        logger.warning(
            "slow client disconnected",
            metadata: [
                "event": "slow_client", "direction": "\(direction.rawValue)", "cause": "\(cause.rawValue)",
                "route": "\(route ?? "")", "peer": "\(peer)",
            ])
    }

    /// Counts a key of rate limits that was replaced too early, and logs it at most once a minute.
    func rateTableFull(_ table: RateLimitTable) {
        guard let suppressed = snapshot.config.telemetry.metrics.clientLimits.rateKeyEvicted(now: now) else { return }
        logger.warning(
            "table of rate limits full: the clients that used least are forgotten",
            metadata: [
                "event": "rate_table_full", "limit": .stringConvertible(table.capacity),
                "suppressed": .stringConvertible(suppressed),
            ])
    }

    /// A random number for ids: unique, not secret.
    func random() -> UInt64 { generator.next() }

    // MARK: - Flushes

    /// Flushes a connection after all events of this event loop tick have been handled.
    func flushLater(_ connection: HTTP2DownstreamHandler) {
        unflushed.append(connection)
        if unflushed.count == 1 { eventLoop.execute(flushTask) }
    }

    private func flushAll() {
        updateTime()
        swap(&unflushed, &flushing)
        for connection in flushing { connection.flushNow() }
        flushing.removeAll(keepingCapacity: true)
    }

    // MARK: - Memory of request bodies

    /// Receive window of an HTTP/2 connection that sends request bodies, in bytes: what its streams may hold together.
    static let bodyWindow = 1_048_576
    /// Memory for such windows in the whole process, in bytes. Further connections keep the initial window of 65,535
    /// bytes.
    static let bodyMemory = 134_217_728

    /// Takes one of the loop's body windows.
    /// - Returns: `false` if all are in use.
    func takeBodyWindow() -> Bool {
        guard bodyWindows > 0 else {
            isBodyWindowWanted = true
            return false
        }
        bodyWindows -= 1
        return true
    }

    func returnBodyWindow() { bodyWindows += 1 }

    /// Counts buffered bytes of request bodies.
    /// - Returns: `false` if the loop's part of `limits.requestBuffers` is exceeded. The bytes are counted nevertheless.
    func takeRequestBuffer(_ count: Int) -> Bool {
        requestBufferBytes += count
        return requestBufferBytes <= snapshot.config.configuration.limits.requestBuffers / loopCount
    }

    /// The bytes are not buffered any more.
    func returnRequestBuffer(_ count: Int) { requestBufferBytes -= count }

    /// Memory for HTTP/2 responses that wait for their clients in the whole process, in bytes. Beyond it, each connection
    /// has as much as two streams may hold.
    static let responseMemory = 134_217_728

    /// Whether the responses that wait exceed the loop's part of the memory.
    var isResponseMemoryExceeded: Bool { responseBytes > Self.responseMemory / loopCount }

    // MARK: - Registered connections

    /// Registers a connection for deadlines.
    func add(_ member: any LoopRegistered) {
        member.registryIndex = registered.count
        registered.append(member)
    }

    /// Unregisters a connection. Does nothing if it is not registered.
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

    /// Starts monitoring deadlines: one timer for all connections instead of one per request.
    func start() {
        let shortest = snapshot.timeouts.shortest
        // Long-lived responses end within this interval after their session.
        let interval = Int64(min(max(shortest / 8, 5_000_000), 100_000_000))
        let bound = NIOLoopBound(self, eventLoop: eventLoop)
        connectionMetrics.interval = UInt64(interval)
        tick = eventLoop.scheduleRepeatedTask(
            initialDelay: .nanoseconds(interval), delay: .nanoseconds(interval)
        ) { _ in bound.value.onTick() }
    }

    /// Stops monitoring deadlines, closes idle connections and flushes telemetry.
    func stop() {
        tick?.cancel()
        tick = nil
        connectionMetrics.count([], snapshot.config.telemetry.metrics.listeners)
        for snapshot in retired + [snapshot] {
            for pool in snapshot.pools { pool.close() }
            snapshot.telemetry.flush()
        }
    }

    /// Checks all deadlines. Called by the timer.
    func onTick() {
        let now = updateTime()
        // Steps of ``time`` are no delays.
        let start = NIODeadline.now().uptimeNanoseconds
        let metrics = snapshot.config.telemetry.metrics.listeners
        connectionMetrics.tickStarted(metrics, now: start)
        clock.synchronize(at: start)
        // A connection may unregister in this call, which moves the last one to its index; therefore iterate backwards.
        var index = registered.count - 1
        while index >= 0 {
            if index < registered.count, registered[index].deadline <= now {
                registered[index].deadlineExpired(now: now)
            }
            index -= 1
        }
        checkSessions(now: now)
        for pool in snapshot.pools { pool.tick() }
        for old in retired {
            for pool in poolsOnly(of: old) { pool.tick() }
        }
        relievePools(now: now)
        relieveResponses()
        reclaimBodyWindow(now: now)
        relieveAccepting(now: now)
        snapshot.telemetry.flush()
        for old in retired { old.telemetry.flush() }
        if connectionMetrics.isCountDue(at: now) { connectionMetrics.count(registered, metrics) }
        connectionMetrics.tickEnded(at: NIODeadline.now().uptimeNanoseconds)
    }

    /// Checks the sessions of long-lived responses once if any number of sessions has changed.
    private func checkSessions(now: UInt64) {
        let changes = snapshot.config.sessions.changeCount
        guard changes != sessionChanges else { return }
        sessionChanges = changes
        for member in registered { member.sessionsChanged(now: now) }
    }

    // MARK: - Drain

    /// Drains client connections.
    /// - Parameter grace: For how long a connection that waits for a request may send one more, in nanoseconds.
    func drain(grace: UInt64 = 0, onDrained: @escaping () -> Void) {
        updateTime()
        isDraining = true
        requestGrace = grace
        self.onDrained.append(onDrained)
        for member in registered { member.drain() }
        notifyIfDrained()
    }

    /// Closes all remaining connections.
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
