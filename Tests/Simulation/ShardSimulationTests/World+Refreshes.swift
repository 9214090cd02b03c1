import CloakroomCore
import TestSupport

@testable import CloakroomSessions

/// Executes the decisions of refreshes, as the gateway's refresher does.
extension World {
    func begin(_ session: Int, _ stale: Session, at gateway: Gateway, waiter: Int?) {
        guard now >= gateway.coolUntil[session] else {
            if let waiter { finish(waiter, .unavailable) }
            return
        }
        let machine = TokenRefreshStateMachine(stale, limits: settings.limits, now: steadyClock)
        var refresh = Refresh(
            session: session, gateway: gateway.number, process: gateway.process, startedAt: now,
            isFresh: isFresh(gateway, session), machine: machine)
        if let waiter { refresh.waiters.append(waiter) }
        refreshes.append(refresh)
        let index = refreshes.count - 1
        gateway.refreshes[session] = index
        note("f\(index) begins for s\(session) at g\(gateway.number), p\(Names.pair(stale)) v\(stale.version)")
        decided(index, .lease)
    }

    /// The clock of refreshes, which never goes back.
    private var steadyClock: MonotonicTime { MonotonicTime(milliseconds: Names.epoch + now) }

    func isAlive(_ index: Int) -> Bool {
        let gateway = gateways[refreshes[index].gateway]
        return gateway.isUp && gateway.process == refreshes[index].process && !refreshes[index].isFinished
    }

    private func decided(_ index: Int, _ action: TokenRefreshStateMachine.Action) {
        refreshes[index].action = action
        carryOut(index)
    }

    func carryOut(_ index: Int) {
        let refresh = refreshes[index]
        let (session, gateway) = (refresh.session, gateways[refresh.gateway])
        let owner = Call.Owner.refresh(index)
        switch refresh.action {
        case .lease:
            guard !hasOwnEnd(session, gateway) else {
                return decided(index, refreshes[index].machine.leased(.notFound, now: steadyClock))
            }
            send(.lease(session, settings.limits.lease), slot: session, from: gateway, owner: owner)
        case .read:
            refreshes[index].read = beginRead(session, gateway)
            send(.read(session), slot: session, from: gateway, owner: owner)
        case .wait(let pause):
            queue.push(.wakeRefresh(index), at: now + pause.wholeMilliseconds)
        case .refresh:
            // In the grace period, gateways that have spent a token write the new ones again.
            guard gateway.grace.isOver(hashSlots[session], now: instant) else {
                return decided(index, refreshes[index].machine.refreshFailed(.timedOut, now: steadyClock))
            }
            refreshes[index].hasSpent = true
            var delay = random.between(5, 40)
            if random.chance(settings.slowToken) {
                coverage.count(.slowMessage)
                delay = random.between(50, settings.limits.call.wholeMilliseconds / 2)
            }
            queue.push(.spend(refresh: index), at: now + delay)
        case .save(let update, let over, let lease):
            guard !hasOwnEnd(session, gateway) else {
                return decided(index, refreshes[index].machine.saved(.notFound, now: steadyClock))
            }
            // In the journal before the result is known: the old token is spent.
            let saved = over.refreshed(with: update)
            let (born, fence) = (refresh.read?.born ?? 0, lease.fencingToken)
            let pending =
                mutant == .unknownSaveNotJournaled
                ? nil : journal(saved, session, born: born, fence: fence, at: gateway)
            if refresh.journaled?.version != saved.version {
                refreshes[index].journaled = (saved.version, gateway.journal.replacement(of: hashSlots[session]), now)
            }
            send(
                .save(session, update, over: over.version, fence: fence, pair: pair(update)),
                slot: session, from: gateway, owner: owner, isDurable: true, pendingSave: pending)
        case .reject(let current, let lease):
            send(
                .reject(session, version: current.version, fence: lease.fencingToken), slot: session, from: gateway,
                owner: owner, isDurable: true)
        case .finish(let result, let lease):
            finish(refresh: index, result, release: lease)
        }
    }

    func woke(_ index: Int) {
        guard isAlive(index) else { return }
        decided(index, refreshes[index].machine.waited(now: steadyClock))
    }

    /// The call reaches the upstream. Its response always arrives in time, if the process lives.
    func spend(_ index: Int) {
        guard case .refresh(let current) = refreshes[index].action else { return }
        let pair = Names.pair(current)
        let verdict = upstream.refresh(pair, by: index, now: now)
        note("upstream: f\(index) spends p\(pair) -> \(verdict.pair.map { "p\($0)" } ?? "rejected")")
        if let first = verdict.spentBefore {
            coverage.count(.tokenReused)
            checkSpending(index, pair, first)
        }
        var delay = random.between(5, 40)
        if random.chance(settings.slowToken) {
            delay = random.between(50, settings.limits.call.wholeMilliseconds / 2 - 50)
        }
        queue.push(.spent(refresh: index, pair: verdict.pair), at: now + delay)
    }

    func spent(_ index: Int, _ pair: Int?) {
        guard isAlive(index) else { return }
        guard let pair else {
            return decided(index, refreshes[index].machine.refreshFailed(.rejected, now: steadyClock))
        }
        let gateway = gateways[refreshes[index].gateway]
        let tokens = Names.tokens(pair, from: clock(gateway), life: settings.accessLife)
        decided(index, refreshes[index].machine.refreshed(SessionUpdate(tokens: tokens), now: steadyClock))
    }

    /// A reply of the store for a refresh.
    func responded(refresh index: Int, _ call: Int, _ reply: Reply) {
        guard isAlive(index) else { return }
        let (session, gateway) = (refreshes[index].session, gateways[refreshes[index].gateway])
        // What is missing in the grace period may be written again.
        let provesEnd = !mayHaveLost(session, gateway) || mutant == .missingMeansEnded
        let read = refreshes[index].read
        switch reply {
        case .lease(.notFound) where !provesEnd, .save(.notFound) where !provesEnd, .reject(.notFound) where !provesEnd,
            .missing where !provesEnd:
            coverage.count(.missingInGrace)
            decided(index, refreshes[index].machine.storeFailed(now: steadyClock))
        case .lease(let result):
            if case .acquired(let lease) = result {
                let (id, fence) = (Names.key(session).id, lease.fencingToken)
                if mutant != .leaseNotJournaled {
                    gateway.journal.leased(id, fence: fence, for: settings.limits.lease, now: instant)
                }
                // The server may have it nevertheless.
                guard isKept(call) else {
                    release(session, fence, gateway)
                    return decided(index, refreshes[index].machine.storeFailed(now: steadyClock))
                }
                refreshes[index].lease = (fence, now)
            }
            decided(index, refreshes[index].machine.leased(result, now: steadyClock))
        case .record(let record, let born):
            guard !hasOwnEnd(session, gateway, since: calls[call].repetition) else {
                return decided(index, refreshes[index].machine.sessionRead(.missing(.revoked), now: steadyClock))
            }
            refreshes[index].read = read.map { stamped($0, record, born: born, session, gateway) }
            let account = truths[session].account
            send(.readCutoff(account), slot: slot(account: account), from: gateway, owner: .refresh(index))
        case .cutoff(let stored):
            guard let read, let current = read.session,
                let isEnded = hasEnded(current, session, born: read.born, call, stored)
            else { return decided(index, refreshes[index].machine.storeFailed(now: steadyClock)) }
            finish(read, isEnded: isEnded, gateway)
            decided(
                index,
                refreshes[index].machine.sessionRead(isEnded ? .missing(.revoked) : .active(current), now: steadyClock))
        case .ended: decided(index, refreshes[index].machine.sessionRead(.missing(.revoked), now: steadyClock))
        case .missing: decided(index, refreshes[index].machine.sessionRead(.missing(.noSession), now: steadyClock))
        case .save(let result):
            gateway.cache.recordChanged(Names.key(session).id)
            if case .saved(let saved) = result {
                if case .save(_, _, _, let fence, _) = calls[call].body {
                    journal(saved, session, born: read?.born ?? 0, fence: fence, at: gateway)
                }
                guard isKept(call) else {
                    return decided(index, refreshes[index].machine.storeFailed(now: steadyClock))
                }
                truths[session].recordHolders.append(gateway.process)
                note("f\(index) saved p\(Names.pair(saved))\(calls[call].isConfirmed ? "" : ", not confirmed")")
            } else {
                if let save = calls[call].pendingSave { gateway.journal.rejected(save) }
                refreshes[index].journaled = nil
            }
            decided(index, refreshes[index].machine.saved(result, now: steadyClock))
        case .reject(let result):
            gateway.cache.recordChanged(Names.key(session).id)
            if result == .ended {
                gateway.journal.ended(Names.key(session).id, reason: .refreshRejected, now: instant)
                guard isKept(call) else {
                    return decided(index, refreshes[index].machine.storeFailed(now: steadyClock))
                }
            }
            decided(index, refreshes[index].machine.rejected(result, now: steadyClock))
        case .unavailable, .lost:
            decided(index, refreshes[index].machine.storeFailed(now: steadyClock))
        default: break
        }
    }

    private func finish(refresh index: Int, _ result: TokenRefreshStateMachine.Result, release lease: RefreshLease?) {
        refreshes[index].isFinished = true
        let refresh = refreshes[index]
        let gateway = gateways[refresh.gateway]
        gateway.refreshes[refresh.session] = -1
        note("f\(index) ends: \(describe(result))")
        switch result {
        case .refreshed, .coalesced:
            if case .refreshed = result { coverage.count(.refreshed) } else { coverage.count(.coalesced) }
            for waiter in refresh.waiters { serve(waiter) }
        case .rejected, .ended:
            coverage.count(.refreshEnded)
            for waiter in refresh.waiters { unauthorized(waiter) }
        case .unavailable, .storeUnavailable, .leaseTimeout:
            coverage.count(.refreshFailed)
            refreshes[index].hasGivenUp = refresh.hasSpent
            gateway.coolUntil[refresh.session] = now + 500
            for waiter in refresh.waiters { finish(waiter, .unavailable) }
        }
        if let lease { release(refresh.session, lease.fencingToken, gateway) }
    }

    private func release(_ session: Int, _ fence: UInt64, _ gateway: Gateway) {
        gateway.journal.released(Names.key(session).id, fence: fence)
        send(.release(session, fence: fence), slot: session, from: gateway, owner: .none)
    }

    private func pair(_ update: SessionUpdate) -> Int {
        guard let bytes = update.tokens?.refreshToken?.bytes, bytes.count == 3 else { return -1 }
        return Int(bytes[1]) << 8 | Int(bytes[2])
    }
}

/// Descriptions of steps in a trace: names and numbers only.
func describe(_ result: TokenRefreshStateMachine.Result) -> String {
    switch result {
    case .refreshed(let session): "refreshed, p\(Names.pair(session)) v\(session.version)"
    case .coalesced(let session): "coalesced, p\(Names.pair(session)) v\(session.version)"
    case .rejected: "rejected"
    case .ended(let reason, _): "ended (\(reason))"
    case .unavailable: "unavailable"
    case .storeUnavailable: "store unavailable"
    case .leaseTimeout: "lease timeout"
    }
}

func describe(_ body: Call.Body) -> String {
    switch body {
    case .read(let session): "read s\(session)"
    case .readCutoff(let account): "cutoff of account \(account)"
    case .lease(let session, _): "lease s\(session)"
    case .save(let session, _, let version, let fence, let pair):
        "save s\(session) p\(pair) over v\(version), fence \(fence)"
    case .reject(let session, let version, _): "reject s\(session) v\(version)"
    case .release(let session, let fence): "release s\(session), fence \(fence)"
    case .remove(let session): "remove s\(session)"
    case .index(let account, let session): "index s\(session) of account \(account)"
    case .insert(let session, _, let born): "insert s\(session), born at \(born)"
    case .setCutoff(let account, let kept, _):
        "set the cutoff of account \(account), keeping \(kept.map { "\($0.id)" } ?? "none")"
    case .list(let account): "list account \(account)"
    case .setMark(let mark): "set the mark of login \(mark)"
    case .repeated(let call): "repeat \(call.kind(1)) of \(call.keys[0])"
    case .time: "time"
    case .countAttempt(let key, let time): "count an attempt of key \(key) at \(time.milliseconds)"
    case .topology: "topology"
    }
}

func describe(_ reply: Reply) -> String {
    switch reply {
    case .record(let session, let born): "p\(Names.pair(session)) v\(session.version), born at \(born)"
    case .save(.saved(let session)): "saved p\(Names.pair(session)) v\(session.version)"
    case .cutoff(let cutoff): "cutoff \(cutoff ?? "none")"
    default: "\(reply)"
    }
}
