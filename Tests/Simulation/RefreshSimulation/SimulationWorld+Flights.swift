import CloakroomCore
import TestSupport

/// Executes the decisions of refreshes, as the gateway's refresher does. Limits of waiting time are not modelled: a
/// waiting request waits until the refresh ends.
extension SimulationWorld {
    func begin(_ session: Int, _ stale: Session, at replica: Int, waiter: Int?) {
        let machine = TokenRefreshStateMachine(stale, limits: settings.limits, now: steadyClock(replica))
        var flight = Refresh(session: session, replica: replica, initial: stale, machine: machine)
        if let waiter { flight.waiters.append(waiter) }
        refreshes.append(flight)
        let index = refreshes.count - 1
        replicas[replica].refreshes[refreshName(session)] = index
        note("f\(index) begins for s\(session) at r\(replica), p\(Names.pair(stale)) v\(stale.version)")
        decided(index, .lease)
    }

    /// Handles a decision. Before it is executed, the process may be paused or crash.
    private func decided(_ index: Int, _ decision: TokenRefreshStateMachine.Action) {
        let action = mutated(decision, of: index)
        refreshes[index].action = action
        note("f\(index) decides: \(describe(action))")
        if case .refresh = action { checkLease(of: index) }
        let replica = refreshes[index].replica
        if random.chance(settings.crashInFlight) {
            coverage.count(.crashInFlight)
            crash(replica)
        } else if random.chance(settings.pauseInFlight) {
            coverage.count(.pauseInFlight)
            pause(replica)
            replicas[replica].inbox.append(.carryOut(flight: index))
        } else {
            carryOut(index)
        }
    }

    /// Changes the decision if a mutant requires it.
    private func mutated(_ decision: TokenRefreshStateMachine.Action, of index: Int) -> TokenRefreshStateMachine.Action
    {
        switch (mutant, refreshes[index].action, decision) {
        case (.stopsSavingEarly, .save(_, _, let lease), .wait): .finish(.storeUnavailable, release: lease)
        case (.forgetsUnusedTokens, _, .finish(.ended(let reason, _), let lease)):
            .finish(.ended(reason, unused: nil), release: lease)
        default: decision
        }
    }

    func carryOut(_ index: Int) {
        let flight = refreshes[index]
        let (session, replica) = (flight.session, flight.replica)
        let owner = Call.Owner.refresh(index)
        switch flight.action {
        case .lease:
            sendToStore(.lease(session, settings.limits.lease), from: replica, owner: owner)
        case .read:
            if mutant == .noReadUnderLease, flight.spent < 0 {
                decided(index, refreshes[index].machine.sessionRead(.active(flight.initial), now: steadyClock(replica)))
            } else {
                sendToStore(.read(session), from: replica, owner: owner)
            }
        case .wait(let pause):
            queue.push(.wake(flight: index), at: now + pause.wholeMilliseconds)
        case .refresh(let current):
            refreshes[index].spent = Names.pair(current)
            sendUpstream(.refresh(pair: Names.pair(current)), from: replica, owner: owner)
        case .save(let update, let over, let lease):
            sendToStore(
                .save(
                    session, update, over: over.version, fence: lease.fencingToken,
                    pair: Names.pair(update.tokens?.refreshToken)),
                from: replica, owner: owner)
        case .reject(let current, let lease):
            sendToStore(
                .reject(session, version: current.version, fence: lease.fencingToken), from: replica, owner: owner)
        case .finish(let result, let release):
            finish(flight: index, result, release: release)
        }
    }

    func woke(_ index: Int) {
        guard !refreshes[index].isDead, !refreshes[index].isFinished else { return }
        decided(index, refreshes[index].machine.waited(now: steadyClock(refreshes[index].replica)))
    }

    func notify(_ index: Int, _ response: TestResponse) {
        guard !refreshes[index].isDead, !refreshes[index].isFinished else { return }
        let clock: MonotonicTime = steadyClock(refreshes[index].replica)
        switch response {
        case .lease(let attempt):
            switch attempt {
            case .acquired(let lease): refreshes[index].fence = lease.fencingToken
            case .heldByOther: coverage.count(.leaseTaken)
            case .notFound: coverage.count(.leaseGone)
            }
            decided(index, refreshes[index].machine.leased(attempt, now: clock))
        case .read(let lookup):
            decided(index, refreshes[index].machine.sessionRead(lookup, now: clock))
        case .save(let attempt):
            switch attempt {
            case .saved: break
            case .versionConflict: coverage.count(.saveChanged)
            case .staleLease: coverage.count(.saveFenced)
            case .notFound: coverage.count(.saveGone)
            }
            decided(index, refreshes[index].machine.saved(attempt, now: clock))
        case .reject(let attempt):
            switch attempt {
            case .ended: break
            case .versionConflict: coverage.count(.rejectChanged)
            case .notFound: coverage.count(.rejectGone)
            }
            decided(index, refreshes[index].machine.rejected(attempt, now: clock))
        case .tokens(let pair):
            refreshes[index].pair = pair
            refreshes[index].pairAt = clock
            let wall = wallClock(refreshes[index].replica)
            let tokens = Names.tokens(pair, end: wall + .milliseconds(upstream.accessLife), obtainedAt: wall)
            decided(index, refreshes[index].machine.refreshed(SessionUpdate(tokens: tokens), now: clock))
        case .rejected:
            refreshes[index].wasRejected = true
            decided(index, refreshes[index].machine.refreshFailed(.rejected, now: clock))
        case .failed:
            notRefreshed(index, .invalidResponse)
        case .unavailable:
            if case .refresh = refreshes[index].action {
                coverage.count(.callTimeout)
                notRefreshed(index, .timedOut)
            } else if case .read = refreshes[index].action, mutant == .outageMeansGone {
                decided(index, refreshes[index].machine.sessionRead(.missing(.noSession), now: clock))
            } else {
                decided(index, refreshes[index].machine.storeFailed(now: clock))
            }
        case .done, .mark:
            break
        }
    }

    private func notRefreshed(_ index: Int, _ kind: TokenClientError.Kind) {
        let kind = mutant == .rejectsOnFailure ? .rejected : kind
        decided(index, refreshes[index].machine.refreshFailed(kind, now: steadyClock(refreshes[index].replica)))
    }

    private func finish(flight index: Int, _ result: TokenRefreshStateMachine.Result, release lease: RefreshLease?) {
        refreshes[index].isFinished = true
        checkFinish(index, result)
        let flight = refreshes[index]
        replicas[flight.replica].refreshes[refreshName(flight.session)] = -1
        var keepsLease = false
        switch result {
        case .refreshed(let session):
            coverage.count(.refreshed)
            succeed(flight, session)
            if let lease, random.chance(settings.userSave) {
                keepsLease = true
                refreshes[index].lease = lease
                refreshes[index].result = session
                queue.push(.userFetched(flight: index), at: now + random.between(10, random.chance(100) ? 2_000 : 80))
            }
        case .coalesced(let session):
            coverage.count(.coalesced)
            succeed(flight, session)
        case .rejected:
            coverage.count(.rejected)
            end(flight)
        case .ended(_, let unused):
            coverage.count(unused == nil ? .ended : .endedWithUnusedTokens)
            if unused != nil { sendUpstream(.revoke(session: flight.session), from: flight.replica, owner: .none) }
            end(flight)
        case .unavailable:
            coverage.count(.unavailable)
            fail(flight)
        case .storeUnavailable:
            coverage.count(.storeUnavailable)
            fail(flight)
        case .leaseTimeout:
            coverage.count(.leaseTimeout)
            fail(flight)
        }
        if let lease, !keepsLease {
            sendToStore(.release(flight.session, fence: lease.fencingToken), from: flight.replica, owner: .none)
        }
    }

    private func succeed(_ flight: Refresh, _ session: Session) {
        replicas[flight.replica].failures[flight.session] = 0
        remember(session, flight.session, at: flight.replica)
        for waiter in flight.waiters { go(waiter, session) }
    }

    private func end(_ flight: Refresh) {
        replicas[flight.replica].table[flight.session] = nil
        for waiter in flight.waiters { unauthorized(waiter) }
    }

    /// Starts the back-off: 1 s, doubled for each further failure, at most 30 s. The gateway also adds jitter, resets
    /// the back-off after some time, and after a failure of its store waits at most 1 s.
    private func fail(_ flight: Refresh) {
        let failures = replicas[flight.replica].failures[flight.session]
        replicas[flight.replica].failures[flight.session] = failures + 1
        replicas[flight.replica].coolUntil[flight.session] = now + min(30_000, 1_000 << Int64(min(failures, 5)))
        for waiter in flight.waiters { finish(waiter, .unavailable) }
    }

    /// Saves the user profile in the session under the same lease, over the version that was just saved.
    func saveUser(_ index: Int) {
        let flight = refreshes[index]
        guard !flight.isDead, let lease = flight.lease, let session = flight.result else { return }
        sendToStore(
            .save(
                flight.session, SessionUpdate(userJSON: [0x7b, 0x7d]), over: session.version, fence: lease.fencingToken,
                pair: nil),
            from: flight.replica, owner: .userSave(index))
    }

    func userSaved(_ index: Int, _ response: TestResponse) {
        let flight = refreshes[index]
        guard !flight.isDead, let lease = flight.lease else { return }
        if case .save(.saved(let session)) = response { remember(session, flight.session, at: flight.replica) }
        sendToStore(.release(flight.session, fence: lease.fencingToken), from: flight.replica, owner: .none)
    }
}
