import CloakroomCore
import CloakroomTelemetry

/// A connection with a deadline, registered with an event loop.
protocol LoopRegistered: AnyObject {
    /// Time at which ``deadlineExpired(now:)`` is called; `UInt64.max` for none.
    var deadline: UInt64 { get }
    /// Index in the event loop's registry; managed by the event loop.
    var registryIndex: Int { get set }
    /// Whether it is a client connection, which a drain waits for.
    var isDownstream: Bool { get }
    /// What a client connection does, for metrics. Not used for other connections.
    var connectionState: ClientConnectionState { get }
    /// For a client connection without a request: since when it waits for one, and the load of its address.
    var idle: (since: UInt64, load: ClientLoad?)? { get }
    /// Whether it is a client connection with TLS.
    var usesTLS: Bool { get }
    func deadlineExpired(now: UInt64)
    /// A new configuration is in effect.
    func configurationReplaced()
    /// At least one session has changed.
    func sessionsChanged(now: UInt64)
    func drain()
    func closeNow()
    /// Adds the leases of a pool that it holds and whose exchanges wait for their clients.
    func addSlowLeases(of pool: UpstreamPool, now: UInt64, to leases: inout [SlowLease])
    /// Ends gracefully, if it is an idle client connection with a large receive window.
    func returnIdleWindow() -> Bool
    /// Whether the peer has acknowledged all that was sent. One system call.
    var isAllAcknowledged: Bool { get }
    /// Closes an idle client connection at once, because others cannot connect.
    func endIdle()
}

extension LoopRegistered {
    var usesTLS: Bool { false }
    var connectionState: ClientConnectionState { .new }
    var idle: (since: UInt64, load: ClientLoad?)? { nil }
    func configurationReplaced() {}
    func sessionsChanged(now: UInt64) {}
    func addSlowLeases(of pool: UpstreamPool, now: UInt64, to leases: inout [SlowLease]) {}
    func returnIdleWindow() -> Bool { false }
    var isAllAcknowledged: Bool { true }
    func endIdle() { closeNow() }
}

/// A lease whose exchange waits for its client, with the pace of the client.
typealias SlowLease = (lease: any UpstreamLease, pace: PressureRule.Lease)
