import CloakroomCore
import TestSupport

/// Faults, and the actions of users and operators.
extension SimulationWorld {
    func disturb(_ what: FaultInjection) {
        note("\(what)")
        switch what {
        case .crash(let replica):
            coverage.count(.crash)
            crash(replica)
        case .pause(let replica):
            coverage.count(.pause)
            pause(replica)
        case .partition(let replica):
            coverage.count(.partition)
            cut(replica, noticedAfter: random.between(1, 1_500))
            queue.push(.linkUp(replica: replica), at: now + random.between(50, 5_000))
        case .storeOutage:
            coverage.count(.storeOutage)
            isStoreDown = true
            for replica in replicas.indices { cut(replica, noticedAfter: 1) }
            queue.push(.storeUp, at: now + random.between(100, 5_000))
        case .clockJump(let replica):
            coverage.count(.clockJump)
            replicas[replica].setClock(to: replicas[replica].offset - random.between(200, 60_000))
        case .signOut(let session):
            let replica = random.below(settings.replicas)
            if replicas[replica].isUp { sendToStore(.end(session), from: replica, owner: .none) }
        case .signOutEverywhere(let session):
            coverage.count(.signedOutEverywhere)
            for other in 0..<settings.sessions where other / 2 == session / 2 {
                guard store.isAlive(other, now: now), store.end(other, .signedOut, now: now) else { continue }
                notify(of: other, but: nil)
                sendUpstream(.revoke(session: other), from: 0, owner: .none)
            }
        case .upstreamRevokes(let session):
            coverage.count(.upstreamRevoked)
            upstream.revoke(session)
        }
    }

    func crash(_ replica: Int) {
        guard replicas[replica].isUp else { return }
        note("r\(replica) crashes")
        replicas[replica].isUp = false
        replicas[replica].life += 1
        replicas[replica].pausedUntil = 0
        replicas[replica].forget()
        for index in refreshes.indices where refreshes[index].replica == replica { refreshes[index].isDead = true }
        queue.push(.restart(replica: replica, life: replicas[replica].life), at: now + random.between(100, 3_000))
        let inbox = replicas[replica].inbox
        replicas[replica].inbox = []
        for event in inbox { handle(event) }
    }

    func restart(_ replica: Int, _ life: Int) {
        guard !replicas[replica].isUp, replicas[replica].life == life else { return }
        note("r\(replica) is up")
        replicas[replica].isUp = true
        replicas[replica].startClock(at: replicas[replica].offset)
        replicas[replica].link += 1
        replicas[replica].trustsLink = !replicas[replica].isPartitioned
        replicas[replica].lastDelivery = now
    }

    /// Stops a process for up to 5 s, which often is longer than its lease.
    func pause(_ replica: Int) {
        guard replicas[replica].isUp else { return }
        let until = now + random.between(50, random.chance(500) ? 5_000 : 500)
        note("r\(replica) pauses until \(until)")
        replicas[replica].pausedUntil = max(replicas[replica].pausedUntil, until)
        for index in refreshes.indices where refreshes[index].replica == replica { refreshes[index].isDisturbed = true }
        queue.push(.resume(replica: replica), at: replicas[replica].pausedUntil)
    }

    func resume(_ replica: Int) {
        guard replicas[replica].pausedUntil <= now else { return }
        let inbox = replicas[replica].inbox
        replicas[replica].inbox = []
        // One of these events may pause the replica again; the later ones then keep waiting in their order.
        for event in inbox { handle(event) }
    }

    private func cut(_ replica: Int, noticedAfter delay: Int64) {
        guard !replicas[replica].isPartitioned else { return }
        replicas[replica].isPartitioned = true
        queue.push(.linkDown(replica: replica, link: replicas[replica].link), at: now + delay)
    }

    func linkDown(_ replica: Int, _ link: Int) {
        guard replicas[replica].isPartitioned, replicas[replica].link == link else { return }
        note("r\(replica) has no connection to the store")
        replicas[replica].trustsLink = false
        replicas[replica].link += 1
        replicas[replica].emptyTable()
    }

    /// A new connection to the store. The old one ends now at the latest, and the sessions cached under it are dropped.
    func linkUp(_ replica: Int) {
        guard replicas[replica].isPartitioned, !isStoreDown else { return }
        note("r\(replica) has a new connection to the store")
        replicas[replica].isPartitioned = false
        replicas[replica].trustsLink = true
        replicas[replica].link += 1
        replicas[replica].lastDelivery = now
        replicas[replica].emptyTable()
    }

    func storeUp() {
        guard isStoreDown else { return }
        isStoreDown = false
        for replica in replicas.indices { linkUp(replica) }
    }

    /// Corrects a wall clock. If the process started while the clock was slow, its time jumps, and refreshes may time
    /// out early.
    private func correctClock(_ replica: Int, to offset: Int64) {
        let before = replicas[replica].steadyOffset
        replicas[replica].setClock(to: offset)
        guard replicas[replica].steadyOffset > before else { return }
        for index in refreshes.indices where refreshes[index].replica == replica { refreshes[index].isDisturbed = true }
    }

    func calmDown() {
        note("calm")
        isCalm = true
        settings.calm()
        storeUp()
        for replica in replicas.indices {
            restart(replica, replicas[replica].life)
            linkUp(replica)
            correctClock(replica, to: replica < settings.skews.count ? settings.skews[replica] : 0)
            replicas[replica].pausedUntil = 0
            resume(replica)
        }
    }
}
