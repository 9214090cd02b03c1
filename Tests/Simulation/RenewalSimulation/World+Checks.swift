import CloakroomCore

/// What must hold, and what excuses that it does not.
///
/// A refresh token that rotates cannot be spent safely by who crashes, is paused, or is not answered: then the upstream
/// may end the session rightly, and no gateway can prevent it. So a loss counts only where nothing of that kind happened
/// to the flight that suffered it.
extension SimulationWorld {
    /// Whether a call to spend a token comes when its flight has no right to it any more: it was delayed so long that the
    /// flight gave up or lost its lease, its process is dead, or the network brought it twice.
    func isOrphan(_ call: Int) -> Bool {
        guard case .refresh(let index) = calls[call].owner else { return false }
        let flight = refreshes[index]
        if calls[call].arrivals > 1 || calls[call].isClosed || flight.isDead || flight.isFinished { return true }
        let record = store.records[flight.session]
        let hasLease = record.fence == flight.fence && now < record.leaseEnd
        return !hasLease && flight.isDisturbed
    }

    /// Whether what a call brought could be lost without the gateway's being at fault.
    private func isExcused(_ call: Int) -> Bool {
        guard case .refresh(let index) = calls[call].owner else { return true }
        let flight = refreshes[index]
        if calls[call].wasOrphan || calls[call].arrivals > 1 || !calls[call].isDelivered { return true }
        // An upstream that spends the token and answers with a failure gives nothing that could be kept.
        if flight.pair < 0 { return true }
        return !flight.isSaved && (flight.isDead || flight.isDisturbed)
    }

    func checkSpending(_ call: Int, _ pair: Int, _ verdict: ModelUpstream.Verdict) {
        if let first = verdict.spentBefore {
            coverage.count(verdict.pair == nil ? .tokenReused : .pairReissued)
            if first != call, !isOrphan(call), !isExcused(first) {
                violate(.spentOnce, "p\(pair) is spent by call \(call) after call \(first), which did well")
            }
        }
        if let voiding = verdict.voidedBefore, !isOrphan(call), !isExcused(voiding) {
            violate(.resultPersisted, "p\(pair) is in use, which call \(voiding) made void, and its result was lost")
        }
    }

    /// A flight is about to spend a token: it must hold the lease for as long as the call may take.
    func checkLease(of index: Int) {
        let flight = refreshes[index]
        let record = store.records[flight.session]
        let end = now + settings.limits.call.wholeMilliseconds
        guard record.fence != flight.fence || record.leaseEnd < end, record.endReason == nil else { return }
        violate(.spentOnce, "f\(index) is about to spend a token without holding the lease long enough")
    }

    /// The store must hold what it was given under the latest lease, or what came of that.
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
        note("s\(session) ends: refused")
        if !refreshes[flight].wasRejected {
            violate(.endsWithCause, "s\(session) is ended by f\(flight), which the upstream has not refused")
        } else if !upstream.families[session].isRevoked {
            violate(.endsWithCause, "s\(session) is ended, and its tokens are good")
        }
        let current = Names.pair(store.records[session].session)
        if keepers[session] >= 0, !upstream.descends(current, from: keepers[session]) {
            violate(.resultPersisted, "s\(session) ends with p\(current) although p\(keepers[session]) was kept")
        }
    }

    /// Somebody is told that their session has ended.
    func checkUnauthorized(_ index: Int) {
        let request = requests[index]
        guard store.isAlive(request.session, now: now) else { return }
        // A clock that is a little ahead ends a session a little early.
        if let absolute = settings.absolute, now + 200 >= absolute { return }
        violate(.endsWithCause, "request \(index) is told that s\(request.session) has ended")
    }

    /// A request is about to go on with a session.
    func checkServing(_ session: Int, at replica: Int) {
        guard let reason = store.records[session].endReason else { return }
        switch reason {
        case .expiredIdle, .expiredAbsolute: return
        default: break
        }
        if replicas[replica].isPartitioned || replicas[replica].noticesUnderWay[session] > 0 { return }
        violate(.endedIsEnded, "r\(replica) serves s\(session), which has ended (\(reason.rawValue))")
    }

    /// A flight has finished: whatever it had in hand must be somewhere.
    func checkFinish(_ index: Int, _ result: TokenRefreshStateMachine.Result) {
        let flight = refreshes[index]
        guard flight.pair >= 0 else { return }
        switch result {
        case .refreshed, .coalesced: break
        case .ended(_, let unused):
            if Names.pair(unused?.refreshToken) != flight.pair {
                violate(
                    .tokensNeverCrossSessions,
                    "f\(index) does not hand p\(flight.pair) back, which nobody needs any more")
            }
        case .rejected, .unavailable, .storeUnavailable, .leaseTimeout:
            guard let pairAt = flight.pairAt else { return }
            if !flight.isSaved, steadyClock(flight.replica) < pairAt + settings.limits.saveRetryPeriod {
                violate(.resultPersisted, "f\(index) gives p\(flight.pair) up too early")
            }
        }
    }

    /// Everything has come to rest.
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
                violate(.progress, "s\(request.session) at r\(request.replica) is \(request.state) when all is well")
            }
        }
        for session in 0..<settings.sessions { checkKept(session) }
    }
}
