import CloakroomCore
import TestSupport

/// Carries out what flights decide: what a gateway's renewer does for a session's tokens, and nothing of how it bounds
/// waiting. Who waits here waits for the end of the flight.
extension World {
    func begin(_ session: Int, _ stale: Session, at replica: Int, waiter: Int?) {
        let machine = RenewalFlight(stale, limits: settings.limits, now: steadyClock(replica))
        var flight = Flight(session: session, replica: replica, initial: stale, machine: machine)
        if let waiter { flight.waiters.append(waiter) }
        flights.append(flight)
        let index = flights.count - 1
        replicas[replica].flights[flightName(session)] = index
        note("f\(index) begins for s\(session) at r\(replica), p\(Names.pair(stale)) v\(stale.version)")
        decided(index, .lease)
    }

    /// A flight has decided; between that and doing it, a process may be stopped for a while or for good.
    private func decided(_ index: Int, _ decision: RenewalFlight.Action) {
        let action = mutated(decision, of: index)
        flights[index].action = action
        note("f\(index) decides: \(describe(action))")
        if case .renew = action { checkLease(of: index) }
        let replica = flights[index].replica
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

    /// What a flight with a bug would decide.
    private func mutated(_ decision: RenewalFlight.Action, of index: Int) -> RenewalFlight.Action {
        switch (mutant, flights[index].action, decision) {
        case (.givesUpSaving, .save(_, _, let lease), .wait): .finish(.storeUnavailable, release: lease)
        case (.forgetsUnusedTokens, _, .finish(.ended(let reason, _), let lease)):
            .finish(.ended(reason, unused: nil), release: lease)
        default: decision
        }
    }

    func carryOut(_ index: Int) {
        let flight = flights[index]
        let (session, replica) = (flight.session, flight.replica)
        let owner = Call.Owner.flight(index)
        switch flight.action {
        case .lease:
            sendToStore(.lease(session, settings.limits.lease), from: replica, owner: owner)
        case .read:
            if mutant == .noReadUnderLease, flight.spent < 0 {
                decided(index, flights[index].machine.hasRead(.live(flight.initial), now: steadyClock(replica)))
            } else {
                sendToStore(.read(session), from: replica, owner: owner)
            }
        case .wait(let pause):
            queue.push(.wake(flight: index), at: now + pause.wholeMilliseconds)
        case .renew(let current):
            flights[index].spent = Names.pair(current)
            sendUpstream(.refresh(pair: Names.pair(current)), from: replica, owner: owner)
        case .save(let tokens, let over, let lease):
            sendToStore(
                .save(
                    session, SessionRenewal(tokens: tokens), over: over.version, fence: lease.fence,
                    pair: Names.pair(tokens.refreshToken)),
                from: replica, owner: owner)
        case .reject(let current, let lease):
            sendToStore(
                .reject(session, version: current.version, fence: lease.fence), from: replica, owner: owner)
        case .finish(let result, let release):
            finish(flight: index, result, release: release)
        }
    }

    func woke(_ index: Int) {
        guard !flights[index].isDead, !flights[index].isFinished else { return }
        decided(index, flights[index].machine.waited(now: steadyClock(flights[index].replica)))
    }

    func tell(_ index: Int, _ answer: Answer) {
        guard !flights[index].isDead, !flights[index].isFinished else { return }
        let clock = steadyClock(flights[index].replica)
        switch answer {
        case .lease(let attempt):
            switch attempt {
            case .held(let lease): flights[index].fence = lease.fence
            case .taken: coverage.count(.leaseTaken)
            case .gone: coverage.count(.leaseGone)
            }
            decided(index, flights[index].machine.leased(attempt, now: clock))
        case .read(let lookup):
            decided(index, flights[index].machine.hasRead(lookup, now: clock))
        case .save(let attempt):
            switch attempt {
            case .saved: break
            case .changed: coverage.count(.saveChanged)
            case .fenced: coverage.count(.saveFenced)
            case .gone: coverage.count(.saveGone)
            }
            decided(index, flights[index].machine.saved(attempt, now: clock))
        case .reject(let attempt):
            switch attempt {
            case .ended: break
            case .changed: coverage.count(.rejectChanged)
            case .gone: coverage.count(.rejectGone)
            }
            decided(index, flights[index].machine.rejected(attempt, now: clock))
        case .tokens(let pair):
            flights[index].pair = pair
            flights[index].pairAt = clock
            let wall = wallClock(flights[index].replica)
            let tokens = Names.tokens(pair, end: wall + .milliseconds(upstream.accessLife), obtainedAt: wall)
            decided(index, flights[index].machine.renewed(tokens, now: clock))
        case .refused:
            flights[index].wasRefused = true
            decided(index, flights[index].machine.notRenewed(.rejected, now: clock))
        case .failed:
            notRenewed(index, .invalidResponse)
        case .unavailable:
            if case .renew = flights[index].action {
                coverage.count(.callTimeout)
                notRenewed(index, .timedOut)
            } else if case .read = flights[index].action, mutant == .outageMeansGone {
                decided(index, flights[index].machine.hasRead(.none(.noSession), now: clock))
            } else {
                decided(index, flights[index].machine.storeFailed(now: clock))
            }
        case .done:
            break
        }
    }

    private func notRenewed(_ index: Int, _ kind: TokenClientError.Kind) {
        let kind = mutant == .rejectsOnFailure ? .rejected : kind
        decided(index, flights[index].machine.notRenewed(kind, now: steadyClock(flights[index].replica)))
    }

    private func finish(flight index: Int, _ result: RenewalFlight.Result, release lease: RenewalLease?) {
        flights[index].isFinished = true
        checkFinish(index, result)
        let flight = flights[index]
        replicas[flight.replica].flights[flightName(flight.session)] = -1
        var keepsLease = false
        switch result {
        case .renewed(let session):
            coverage.count(.renewed)
            succeed(flight, session)
            if let lease, random.chance(settings.userSave) {
                keepsLease = true
                flights[index].lease = lease
                flights[index].result = session
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
            sendToStore(.release(flight.session, fence: lease.fence), from: flight.replica, owner: .none)
        }
    }

    private func succeed(_ flight: Flight, _ session: Session) {
        replicas[flight.replica].failures[flight.session] = 0
        remember(session, flight.session, at: flight.replica)
        for waiter in flight.waiters { go(waiter, session) }
    }

    private func end(_ flight: Flight) {
        replicas[flight.replica].table[flight.session] = nil
        for waiter in flight.waiters { unauthorized(waiter) }
    }

    /// Cools off: a second, then twice as long each time, up to half a minute. A gateway spreads these times, begins
    /// anew after a while, and rests for no more than the first second after a failure of its store.
    private func fail(_ flight: Flight) {
        let failures = replicas[flight.replica].failures[flight.session]
        replicas[flight.replica].failures[flight.session] = failures + 1
        replicas[flight.replica].coolUntil[flight.session] = now + min(30_000, 1_000 << Int64(min(failures, 5)))
        for waiter in flight.waiters { finish(waiter, .unavailable) }
    }

    /// The user's data go into the session under the same lease, over the version that has just been saved.
    func saveUser(_ index: Int) {
        let flight = flights[index]
        guard !flight.isDead, let lease = flight.lease, let session = flight.result else { return }
        sendToStore(
            .save(
                flight.session, SessionRenewal(userJSON: [0x7b, 0x7d]), over: session.version, fence: lease.fence,
                pair: nil),
            from: flight.replica, owner: .userSave(index))
    }

    func userSaved(_ index: Int, _ answer: Answer) {
        let flight = flights[index]
        guard !flight.isDead, let lease = flight.lease else { return }
        if case .save(.saved(let session)) = answer { remember(session, flight.session, at: flight.replica) }
        sendToStore(.release(flight.session, fence: lease.fence), from: flight.replica, owner: .none)
    }
}
