import CloakroomCore

@testable import CloakroomSessions

/// Callbacks of logins, each accepted once: the mark decides. It is written durably, and gateways repeat it after a
/// failover like the end of a session.
extension World {
    func receiveCallback(_ index: Int) {
        guard let gateway = anyGateway() else { return }
        let mark = settings.callbacks[index].mark
        note("callback of login \(mark) at g\(gateway.number)")
        guard gateway.journal.mark(Names.mark(mark), now: instant) == nil else {
            coverage.count(.markRejected)
            return
        }
        send(.setMark(mark), slot: slot(mark: mark), from: gateway, owner: .callback(mark), isDurable: true)
    }

    func callbackProceeds(_ mark: Int, _ call: Int, _ reply: Reply) {
        let gateway = gateways[calls[call].gateway]
        switch reply {
        case .changed(true):
            coverage.count(.markSet)
            if mutant != .markNotJournaled {
                gateway.journal.marked(
                    Names.mark(mark), at: Timestamp(milliseconds: 0), lifetime: Self.lifetime, now: instant)
            }
            guard isKept(call) else {
                coverage.count(.markUnknown)
                return
            }
            accept(mark, call)
        case .changed(false): coverage.count(.markRejected)
        default:
            // The browser begins another login.
            coverage.count(.markUnknown)
            if mutant == .unknownMarkCounts { accept(mark, call) }
        }
    }

    private func accept(_ mark: Int, _ call: Int) {
        let gateway = gateways[calls[call].gateway]
        note("g\(gateway.number) accepts login \(mark)\(calls[call].isConfirmed ? "" : ", not confirmed")")
        for earlier in acceptances[mark] {
            guard let bound = acceptanceBound(mark, earlier), calls[call].sentAt > bound else { continue }
            violate(.acceptedOnce, "g\(gateway.number) accepts login \(mark), which was accepted at \(earlier.at)")
        }
        acceptances[mark].append(
            Acceptance(
                process: gateway.process, at: now, executedAt: calls[call].executedAt ?? now,
                isConfirmed: calls[call].isConfirmed))
    }

    /// Until when a login may be accepted again; `nil` if its mark is not covered, and a time before the run if it
    /// cannot be lost.
    ///
    /// After a failover another gateway may use the old server until `topologyTrust` is over. A mark that a replica has
    /// not confirmed, or that a restart with an older file has lost, is missing until the gateway that has set it has
    /// written it again: within the time that ``assertionTime`` allows after it can reach the new server.
    private func acceptanceBound(_ mark: Int, _ earlier: Acceptance) -> Int64? {
        let slot = slot(mark: mark)
        let oldServer = promotedAt[slot] + Settings.topologyTrust + 200
        let isLostByRestart = lostAt[slot] > earlier.executedAt
        let isLostByFailover = oldServer > earlier.executedAt && (!earlier.isConfirmed || isLostByRestart)
        guard isLostByRestart || isLostByFailover else { return oldServer }
        guard let reachable = reachableSince([earlier.process]) else { return nil }
        // A gateway that was cut off at that moment does not notice a restart.
        if isLostByRestart, reachable > failedAt[slot] { return nil }
        let from = max(earlier.at, promotedAt[slot], lostAt[slot], reachable)
        guard from + assertionTime <= earlier.at + Settings.journalLife else { return nil }
        return max(oldServer, from + assertionTime + Settings.topologyTrust)
    }
}

/// Attempts to sign in, which ``ThrottleRule`` delays. A state is neither confirmed nor repeated: a failover may lose the
/// last attempts.
extension World {
    func makeAttempts(_ index: Int) {
        let burst = settings.attempts[index]
        for _ in 0..<burst.count {
            guard let gateway = anyGateway() else { continue }
            attempts.append(Attempt(key: burst.key, gateway: gateway.number, startedAt: clock(gateway)))
            let attempt = attempts[attempts.count - 1]
            send(
                .countAttempt(attempt.key, at: attempt.startedAt), slot: slot(throttleKey: attempt.key),
                from: gateways[attempt.gateway], owner: .attempt(attempts.count - 1))
        }
    }

    func attemptProceeds(_ index: Int, _ reply: Reply) {
        switch reply {
        case .changed(true): admit(index)
        case .changed(false): coverage.count(.attemptDelayed)
        default:
            coverage.count(.attemptFailed)
            if mutant == .throttleFailsOpen { admit(index) }
        }
    }

    /// All attempts are in one window of the rule. A server that has replaced another one, and one that restarts with an
    /// older file, may have lost all attempts so far, and the replaced one may be used for some time: each of these may
    /// admit the limit once more.
    private func admit(_ index: Int) {
        coverage.count(.attemptAdmitted)
        let key = attempts[index].key
        admitted[key] += 1
        let losses = losses[slot(throttleKey: key)]
        note("g\(attempts[index].gateway) admits attempt \(index), the \(admitted[key]). of key \(key)")
        guard admitted[key] > Int(Settings.throttle.limit) * (1 + losses) else { return }
        violate(.throttled, "\(admitted[key]) attempts of key \(key) are admitted, with \(losses) failovers")
    }
}
