import CloakroomCore
import TestSupport

/// Calls at the store, and their checks.
extension SimulationWorld {
    func arriveAtStore(_ call: Int) {
        let replica = calls[call].replica
        guard !isStoreDown, !replicas[replica].isPartitioned else {
            scheduleTimeout(of: call)
            return
        }
        calls[call].arrivals += 1
        let response = responseOfStore(call, calls[call].body, from: replica)
        note("r\(replica) call \(call) at store: \(describe(calls[call].body)) -> \(describe(response))")
        reply(call, response, fromStore: true)
    }

    private func responseOfStore(_ call: Int, _ body: Call.Body, from replica: Int) -> TestResponse {
        switch body {
        case .lease(let session, let duration):
            let record = store.records[session]
            let attempt = store.lease(session, for: duration, now: now)
            if case .acquired = attempt, record.leaseEnd > 0, record.leaseEnd <= now { coverage.count(.leaseRanOut) }
            return .lease(attempt)
        case .read(let session):
            return .read(store.read(session, now: now))
        case .save(let session, let refresh, let version, let fence, let pair):
            return .save(save(call, session, refresh, over: version, fence: fence, pair: pair, from: replica))
        case .reject(let session, let version, let fence):
            let attempt = store.reject(session, version: version, fence: fence, now: now)
            if attempt == .ended {
                checkRejection(call, session)
                notify(of: session, but: nil)
            }
            return .reject(attempt)
        case .release(let session, let fence):
            store.release(session, fence: fence)
            return .done
        case .reseal(let session, let read):
            switch store.reseal(session, read, now: now) {
            case .done:
                coverage.count(.resealed)
                checkKept(session)
                notify(of: session, but: nil)
            case .changed, .leased: coverage.count(.resealRejected)
            case .gone: break
            }
            return .done
        case .touch(let session, let time):
            if store.isAlive(session, now: now) { store.touch(session, at: time) }
            return .done
        case .end(let session):
            if store.isAlive(session, now: now), store.end(session, .signedOut, now: now) {
                coverage.count(.signedOut)
                notify(of: session, but: nil)
                sendUpstream(.revoke(session: session), from: replica, owner: .none)
            }
            return .done
        case .setMark, .hasMark, .create, .endProviderSession:
            return responseToLogin(body, from: replica)
        case .refresh, .resource, .revoke, .redeem:
            return .failed
        }
    }

    private func save(
        _ call: Int, _ session: Int, _ refresh: SessionUpdate, over version: UInt64, fence: UInt64, pair: Int?,
        from replica: Int
    ) -> SaveResult {
        if let pair, upstream.pairs[pair].session != session {
            violate(.tokensNeverCrossSessions, "tokens of s\(upstream.pairs[pair].session) are saved in s\(session)")
        }
        let isLatest = fence == store.records[session].fence
        let attempt = store.save(session, refresh, over: version, fence: fence, now: now)
        if case .staleLease = attempt, isLatest { coverage.count(.leaseForgotten) }
        let isSaved = if case .saved = attempt { true } else { false }
        guard let pair, case .refresh(let flight) = calls[call].owner else {
            if isSaved {
                coverage.count(.userSaved)
                notify(of: session, but: replica)
            }
            return attempt
        }
        if isSaved { notify(of: session, but: replica) }
        if isLatest {
            if isSaved { refreshes[flight].isSaved = true }
            let current = Names.pair(store.records[session].session)
            if isSaved {
                keepers[session] = pair
            } else if store.records[session].endReason == nil, current != pair, current != refreshes[flight].spent {
                violate(
                    .resultPersisted,
                    "p\(pair) arrived under the latest lease of s\(session), and p\(current) is stored")
            }
        }
        checkKept(session)
        return attempt
    }

    func storeReplied(_ call: Int, _ response: TestResponse) {
        guard close(call) else { return }
        let replica = calls[call].replica
        // Replies on a lost connection are lost.
        let isLost = replicas[replica].isPartitioned || calls[call].link != replicas[replica].link
        if isLost { disturb(calls[call].owner) } else { calls[call].isDelivered = true }
        deliver(isLost ? .unavailable : response, to: call)
    }

    func timedOut(_ call: Int) {
        guard !calls[call].isClosed, close(call) else { return }
        disturb(calls[call].owner)
        note("call \(call) timed out")
        deliver(.unavailable, to: call)
    }

    private func deliver(_ response: TestResponse, to call: Int) {
        switch calls[call].owner {
        case .refresh(let flight): notify(flight, response)
        case .userSave(let flight): userSaved(flight, response)
        case .request(let request): responded(request, response)
        case .callback(let callback): proceed(callback, response)
        case .logout(let logout, let attempt): proceed(logout, attempt, response)
        case .none: break
        }
    }

    func upstreamReplied(_ call: Int, _ response: TestResponse) {
        guard close(call) else { return }
        calls[call].isDelivered = true
        deliver(response, to: call)
    }
}

/// Calls at the upstream, and their checks.
extension SimulationWorld {
    func arriveAtUpstream(_ call: Int) {
        calls[call].arrivals += 1
        switch calls[call].body {
        case .refresh(let pair): refresh(pair, call)
        case .resource(let session, let pair): resource(session, pair, call)
        case .revoke(let session): upstream.revoke(session)
        case .redeem(let session): redeem(session, call)
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
