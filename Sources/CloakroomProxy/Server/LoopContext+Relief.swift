import CloakroomCore
import CloakroomTelemetry

/// What a tick of the event loop takes from clients, because others need it.
extension LoopContext {
    /// A window that was announced cannot be withdrawn: if one is needed, an idle connection that has one ends. It may
    /// take a second until the window is returned.
    func reclaimBodyWindow(now: UInt64) {
        guard isBodyWindowWanted, now >= nextReclaim else { return }
        isBodyWindowWanted = false
        nextReclaim = now &+ 2_000_000_000
        for member in registered where member.returnIdleWindow() { return }
    }

    /// While the HTTP/2 responses that wait for their clients exceed the memory, the connections that most of them belong
    /// to end.
    func relieveResponses() {
        guard isResponseMemoryExceeded else { return }
        var holders: [(bytes: Int, connection: HTTP2DownstreamHandler)] = []
        for case let connection as HTTP2DownstreamHandler in registered {
            let bytes = connection.waitingBytes
            if bytes > HTTP2DownstreamHandler.responseShare { holders.append((bytes, connection)) }
        }
        holders.sort { $0.bytes > $1.bytes }
        for holder in holders where isResponseMemoryExceeded { holder.connection.endForMemory() }
    }

    /// Time in nanoseconds without a request after which a connection can be closed for another one.
    static let idleTime: UInt64 = 3_000_000_000

    /// Connections of an event loop that one tick examines for this: all of them would delay requests for too long.
    static let examinedConnections = 2_048

    /// At the connection limit, new clients wait in the listen queue: closes idle connections, one for each of them, at
    /// most 1/16 of the limit. Among those examined in this tick, the order of addresses is by the power of two of their
    /// number of connections, highest first; then the longest idle time decides.
    func relieveAccepting(now: UInt64) {
        guard let connectionLimit, connectionLimit.isFull else { return }
        let waiting = connectionLimit.waiting()
        guard waiting > 0 else { return }
        var candidates: [(share: Int, since: UInt64, member: any LoopRegistered)] = []
        for _ in 0..<min(registered.count, Self.examinedConnections) {
            nextExamined = nextExamined < registered.count ? nextExamined : 0
            let member = registered[nextExamined]
            nextExamined += 1
            guard let idle = member.idle, idle.since < now, now - idle.since >= Self.idleTime else { continue }
            let connections = idle.load?.connectionCount ?? 0
            candidates.append((Int.bitWidth - connections.leadingZeroBitCount, idle.since, member))
        }
        candidates.sort { ($1.share, $0.since) < ($0.share, $1.since) }
        let most = max(1, connectionLimit.limit / 16 / loopCount)
        var left = max(1, min(waiting / loopCount, most))
        // A client may still receive its last response from the socket's send buffer. That costs a system call, so not all
        // are asked; but more than may end, because one address can have many such clients.
        for candidate in candidates.prefix(max(64, 4 * most)) where left > 0 && candidate.member.isAllAcknowledged {
            left -= 1
            candidate.member.endIdle()
            snapshot.config.telemetry.metrics.rejections(reason: "idle_at_limit").increment()
        }
    }

    /// Ends leases of slow clients if other requests wait for a connection to the same upstream.
    func relievePools(now: UInt64) {
        relieve(snapshot.pools, snapshot.pressure, now: now)
        for old in retired { relieve(poolsOnly(of: old), old.pressure, now: now) }
    }

    private func relieve(_ pools: [UpstreamPool], _ pressure: PressureRule, now: UInt64) {
        guard pressure.rate > 0 else { return }
        // WebSockets have no leases of slow clients that could end.
        for pool in pools {
            let waiting = pool.starvedWaiters(now: now)
            guard waiting > 0 else { continue }
            var leases: [SlowLease] = []
            for member in registered { member.addSlowLeases(of: pool, now: now, to: &leases) }
            for index in pressure.select(waiting, of: leases.map(\.pace), total: pool.machine.leasedCount) {
                leases[index].lease.endForOthers()
            }
        }
    }
}
