import TestSupport

/// Calls at the upstream, and their checks.
extension SimulationWorld {
    func arriveAtUpstream(_ call: Int) {
        calls[call].arrivals += 1
        switch calls[call].body {
        case .refresh(let pair): refresh(pair, call)
        case .resource(let session, let pair): resource(session, pair, call)
        case .revoke(let session): upstream.revoke(session)
        default: break
        }
    }

    private func refresh(_ pair: Int, _ call: Int) {
        guard case .refresh(let flight) = calls[call].owner else { return }
        if random.chance(settings.upstreamFails) {
            coverage.count(.upstreamFailure)
            note("upstream fails call \(call)")
            reply(call, .failed, fromStore: false)
            return
        }
        let session = refreshes[flight].session
        if upstream.pairs[pair].session != session {
            violate(.tokensNeverCrossSessions, "p\(pair) of s\(upstream.pairs[pair].session) is spent for s\(session)")
        }
        let isOrphan = isOrphan(call)
        calls[call].wasOrphan = isOrphan
        let verdict = upstream.refresh(pair, call: call, now: now)
        note("upstream call \(call) spends p\(pair): \(verdict)\(isOrphan ? ", orphaned" : "")")
        checkSpending(call, pair, verdict)
        guard let new = verdict.pair else {
            reply(call, .rejected, fromStore: false)
            return
        }
        if random.chance(settings.spendsAndFails) {
            coverage.count(.spentButFailed)
            reply(call, .failed, fromStore: false)
        } else {
            reply(call, .tokens(pair: new), fromStore: false)
        }
    }

    private func resource(_ session: Int, _ pair: Int, _ call: Int) {
        guard case .request(let request) = calls[call].owner else { return }
        if upstream.pairs[pair].session != session {
            violate(.tokensNeverCrossSessions, "p\(pair) of s\(upstream.pairs[pair].session) is used for s\(session)")
        }
        if upstream.accepts(pair, now: now) {
            // The transport of successful responses is not simulated.
            if calls[call].isClosed { return }
            calls[call].isClosed = true
            served(request)
        } else {
            reply(call, .rejected, fromStore: false)
        }
    }
}
