import CloakroomCore

/// The checks of the invariants, and the conditions that excuse a violation.
///
/// A rotating refresh token cannot be spent safely if the client crashes, is paused, or gets no response: the upstream
/// may then end the session, and no gateway can prevent it. A loss therefore counts only if no such fault disturbed the
/// refresh that suffered it.
extension SimulationWorld {
    /// Whether a call to spend a token arrives after its refresh has lost the right to send it: the call was delayed
    /// until the refresh gave up or lost its lease, its process is dead, or the network duplicated it.
    func isOrphan(_ call: Int) -> Bool {
        guard case .refresh(let index) = calls[call].owner else { return false }
        let flight = refreshes[index]
        if calls[call].arrivals > 1 || calls[call].isClosed || flight.isDead || flight.isFinished { return true }
        let record = store.records[flight.session]
        let hasLease = record.fence == flight.fence && now < record.leaseEnd
        return !hasLease && flight.isDisturbed
    }

    /// Whether the result of a call could be lost without a fault of the gateway.
    private func isExcused(_ call: Int) -> Bool {
        guard case .refresh(let index) = calls[call].owner else { return true }
        let flight = refreshes[index]
        if calls[call].wasOrphan || calls[call].arrivals > 1 || !calls[call].isDelivered { return true }
        // If the upstream spends the token and responds with a failure, there is no result to keep.
        if flight.pair < 0 { return true }
        return !flight.isSaved && (flight.isDead || flight.isDisturbed)
    }

    func checkSpending(_ call: Int, _ pair: Int, _ verdict: ModelUpstream.Verdict) {
        if let first = verdict.spentBefore {
            coverage.count(verdict.pair == nil ? .tokenReused : .pairReissued)
            if first != call, !isOrphan(call), !isExcused(first) {
                violate(.spentOnce, "p\(pair) is spent by call \(call) after call \(first), which succeeded")
            }
        }
        if let voiding = verdict.voidedBefore, !isOrphan(call), !isExcused(voiding) {
            violate(.resultPersisted, "p\(pair) is in use, which call \(voiding) revoked, and its result was lost")
        }
    }

    /// Before a token is spent: the refresh must hold the lease for as long as the call may take.
    func checkLease(of index: Int) {
        let flight = refreshes[index]
        let record = store.records[flight.session]
        let end = now + settings.limits.call.wholeMilliseconds
        guard record.fence != flight.fence || record.leaseEnd < end, record.endReason == nil else { return }
        violate(.spentOnce, "f\(index) is about to spend a token without holding the lease long enough")
    }

    /// The store must hold the tokens saved under the latest lease, or tokens issued from them.
    func checkKept(_ session: Int) {
        let keeper = keepers[session]
        guard keeper >= 0, store.records[session].endReason == nil else { return }
        let current = Names.pair(store.records[session].session)
        if !upstream.descends(current, from: keeper) {
            violate(.resultPersisted, "s\(session) had p\(keeper) and has p\(current) now")
        }
    }

    /// The store has ended a session because of a rejection.
    func checkRejection(_ call: Int, _ session: Int) {
        guard case .refresh(let flight) = calls[call].owner else { return }
        note("s\(session) ends: rejected")
        if !refreshes[flight].wasRejected {
            violate(.endsWithCause, "s\(session) is ended by f\(flight), which the upstream has not rejected")
        } else if !upstream.families[session].isRevoked {
            violate(.endsWithCause, "s\(session) is ended, and its tokens are valid")
        }
        let current = Names.pair(store.records[session].session)
        if keepers[session] >= 0, !upstream.descends(current, from: keepers[session]) {
            violate(.resultPersisted, "s\(session) ends with p\(current) although p\(keepers[session]) was kept")
        }
    }

    /// A client gets a 401 for its session.
    func checkUnauthorized(_ index: Int) {
        let request = requests[index]
        guard store.isAlive(request.session, now: now) else { return }
        let createdAt = store.records[request.session].createdAt ?? 0
        // A clock that is slightly fast ends a session slightly early.
        if let absolute = settings.absolute, now + 200 >= createdAt + absolute { return }
        violate(.endsWithCause, "request \(index) gets a 401, and s\(request.session) is active")
    }

    /// A request is about to be forwarded with a session.
    func checkServing(_ session: Int, at replica: Int) {
        guard let reason = store.records[session].endReason else { return }
        switch reason {
        case .expiredIdle, .expiredAbsolute: return
        default: break
        }
        if replicas[replica].isPartitioned || replicas[replica].noticesUnderWay[session] > 0 { return }
        violate(.endedIsEnded, "r\(replica) serves s\(session), which has ended (\(reason.rawValue))")
    }

    /// A refresh has finished: the tokens it received must be saved or returned.
    func checkFinish(_ index: Int, _ result: TokenRefreshStateMachine.Result) {
        let flight = refreshes[index]
        guard flight.pair >= 0 else { return }
        switch result {
        case .refreshed, .coalesced: break
        case .ended(_, let unused):
            if Names.pair(unused?.refreshToken) != flight.pair {
                violate(.tokensNeverCrossSessions, "f\(index) does not return p\(flight.pair), which is unused")
            }
        case .rejected, .unavailable, .storeUnavailable, .leaseTimeout:
            guard let pairAt = flight.pairAt else { return }
            if !flight.isSaved, steadyClock(flight.replica) < pairAt + settings.limits.saveRetryPeriod {
                violate(.resultPersisted, "f\(index) gives p\(flight.pair) up too early")
            }
        }
    }

    /// The end of a run: no events are left.
    func checkEnd() {
        for index in refreshes.indices where !refreshes[index].isFinished && !refreshes[index].isDead {
            violate(.progress, "f\(index) never ended")
        }
        for index in requests.indices where requests[index].isProbe {
            let request = requests[index]
            switch request.state {
            case .served: break
            case .unauthorized: checkUnauthorized(index)
            case .going, .unavailable, .rejected, .lost:
                violate(.progress, "s\(request.session) at r\(request.replica) is \(request.state) without faults")
            }
        }
        for session in 0..<settings.allSessions { checkKept(session) }
        checkLogouts()
    }
}
