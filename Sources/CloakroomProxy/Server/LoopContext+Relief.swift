import CloakroomCore

/// What a tick of the event loop takes from clients, because others need it.
extension LoopContext {
    /// A window that was announced cannot be withdrawn: if one is needed, an idle connection that has one ends.
    func reclaimBodyWindow() {
        guard isBodyWindowWanted else { return }
        isBodyWindowWanted = false
        for member in registered where member.returnIdleWindow() { return }
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
            var leases: [PressureRule.Lease] = []
            var holders: [any LoopRegistered] = []
            for member in registered {
                guard let lease = member.leaseOfSlowClient(from: pool, now: now) else { continue }
                leases.append(lease)
                holders.append(member)
            }
            for index in pressure.select(waiting, of: leases, total: pool.machine.leasedCount) {
                holders[index].endLeaseOfSlowClient()
            }
        }
    }
}
