import CloakroomCore

/// Requests, sign-ins and sign-outs at a gateway.
extension World {
    /// Whether a missing record proves nothing: another gateway may be about to write it again.
    func isInGrace(_ gateway: Gateway, _ slot: Int) -> Bool { now < gateway.partitions[slot].graceEnd }

    func request(_ session: Int) {
        let next = now + random.between(settings.requestInterval / 2, settings.requestInterval * 3 / 2)
        if next < settings.calmAt + 3_000 { queue.push(.request(session: session), at: next) }
        let gateway = random.below(settings.gateways)
        handle(.arrive(session: session, gateway: gateway, isProbe: false))
        // Web pages send several requests at once.
        if random.chance(150) {
            handle(.arrive(session: session, gateway: random.below(settings.gateways), isProbe: false))
        }
    }

    func arrive(_ session: Int, at gateway: Gateway, isProbe: Bool) {
        guard truths[session].signedInAt != nil else { return }
        requests.append(
            Request(
                session: session, gateway: gateway.number, process: gateway.process, isProbe: isProbe, startedAt: now))
        let index = requests.count - 1
        guard gateway.isUp else { return finish(index, .lost) }
        if let cached = cachedSession(session, gateway), let cutoff = cachedCutoff(session, gateway) {
            coverage.count(.servedFromCache)
            return judge(index, cached.session, born: cached.born, cutoff)
        }
        send(.read(session), slot: session, from: gateway, owner: .request(index))
    }

    private func cachedSession(_ session: Int, _ gateway: Gateway) -> Gateway.CachedSession? {
        guard let cached = gateway.sessions[session] else { return nil }
        guard gateway.trusts(session, now, mutant), cached.word == gateway.partitions[session].word else { return nil }
        return cached
    }

    func cachedCutoff(_ session: Int, _ gateway: Gateway) -> Cutoff? {
        let account = truths[session].account
        let slot = slot(account: account)
        guard let cached = gateway.cutoffs[account], gateway.trusts(slot, now, mutant) else { return nil }
        return cached.word == gateway.partitions[slot].word ? cached.cutoff : nil
    }

    /// A reply of the store for a request.
    func responded(_ index: Int, _ call: Int, _ reply: Reply) {
        let request = requests[index]
        let gateway = gateways[request.gateway]
        switch reply {
        case .record(let session, let born):
            gateway.sessions[request.session] = Gateway.CachedSession(
                session: session, born: born, word: calls[call].word)
            requests[index].current = session
            requests[index].born = born
            if let cutoff = cachedCutoff(request.session, gateway) {
                judge(index, session, born: born, cutoff)
            } else {
                let account = truths[request.session].account
                send(.readCutoff(account), slot: slot(account: account), from: gateway, owner: .request(index))
            }
        case .cutoff(let cutoff):
            guard let session = request.current else { return finish(index, .unavailable) }
            gateway.cutoffs[truths[request.session].account] = (cutoff, calls[call].word)
            judge(index, session, born: request.born, cutoff)
        case .ended: unauthorized(index)
        case .missing:
            if isInGrace(gateway, request.session), mutant != .missingMeansEnded {
                coverage.count(.missingInGrace)
                finish(index, .unavailable)
            } else {
                unauthorized(index)
            }
        default: finish(index, .unavailable)
        }
    }

    func hasEnded(_ session: Int, born: Int64, _ cutoff: Cutoff) -> Bool {
        mutant != .cutoffIgnored && born <= cutoff.time && cutoff.keeps != session
    }

    private func judge(_ index: Int, _ session: Session, born: Int64, _ cutoff: Cutoff) {
        let request = requests[index]
        let gateway = gateways[request.gateway]
        guard !hasEnded(request.session, born: born, cutoff) else {
            coverage.count(.endedByCutoff)
            return unauthorized(index)
        }
        // Tokens live for seconds here, to have many refreshes in a short time. The minimum interval between two
        // refreshes is longer than that and is therefore disabled.
        let times = RefreshSchedule(session.tokens, spread: session.key.word3, minimumInterval: .zero)
        switch times.urgency(at: clock(gateway)) {
        case .none: serve(index)
        case .background:
            if gateway.refreshes[request.session] < 0 { begin(request.session, session, at: gateway, waiter: nil) }
            serve(index)
        case .required:
            let running = gateway.refreshes[request.session]
            if running >= 0 {
                refreshes[running].waiters.append(index)
            } else {
                begin(request.session, session, at: gateway, waiter: index)
            }
        }
    }

    func serve(_ index: Int) {
        checkServing(index)
        finish(index, .served)
    }

    func unauthorized(_ index: Int) {
        checkUnauthorized(index)
        finish(index, .unauthorized)
    }

    func finish(_ index: Int, _ state: Request.State) {
        guard case .going = requests[index].state else { return }
        requests[index].state = state
        switch state {
        case .served: coverage.count(.served)
        case .unavailable: coverage.count(.respondedUnavailable)
        case .unauthorized: coverage.count(.unauthorized)
        case .going, .lost: break
        }
        note("request \(index) for s\(requests[index].session) at g\(requests[index].gateway): \(state)")
    }
}

/// Sign-ins and sign-outs.
extension World {
    /// A gateway that a client can reach now.
    func anyGateway() -> Gateway? {
        let gateway = gateways[random.below(settings.gateways)]
        return gateway.isUp && gateway.pausedUntil <= now ? gateway : nil
    }

    func signIn(_ login: Int) {
        guard let gateway = anyGateway() else { return }
        let session = settings.sessions + login
        let account = truths[session].account
        truths[session].requestedAt = now
        // Whether an unfinished sign-out ends the new session is open.
        for signOut in signOuts where signOut.account == account && signOut.pending > 0 {
            truths[session].mayHaveEnded = true
        }
        note("sign-in of s\(session) at g\(gateway.number)")
        send(
            .index(account: account, session: session), slot: slot(account: account), from: gateway,
            owner: .signIn(session))
    }

    func signInProceeds(_ session: Int, _ call: Int, _ reply: Reply) {
        let gateway = gateways[calls[call].gateway]
        let account = truths[session].account
        switch (calls[call].body, reply) {
        case (.index, .born(let time)):
            let born = mutant == .cutoffByGatewayClock ? now + gateway.skew : time
            let record = Names.session(
                session, account: account, pair: upstream.issue(session), at: clock(gateway), life: settings.accessLife)
            send(
                .insert(session, record, born: born), slot: session, from: gateway, owner: .signIn(session),
                isDurable: true)
        case (.insert(_, let record, let born), .done):
            coverage.count(.signedIn)
            truths[session].signedInAt = now
            truths[session].born = born
            truths[session].isInsertConfirmed = calls[call].isConfirmed
            truths[session].recordHolders.append(gateway.process)
            if mutant != .insertNotJournaled {
                gateway.saved[session] = JournaledRecord(session: record, born: born, at: now)
            }
            note("s\(session) is signed in, born at \(born)\(calls[call].isConfirmed ? "" : ", not confirmed")")
            queue.push(.request(session: session), at: now + random.between(5, 300))
        default: coverage.count(.signInFailed)
        }
    }

    func signOut(_ session: Int) {
        guard let gateway = anyGateway(), truths[session].signedInAt != nil else { return }
        note("sign-out of s\(session) at g\(gateway.number)")
        truths[session].mayHaveEnded = true
        signOuts.append(
            SignOut(
                gateway: gateway.number, process: gateway.process, requestedAt: now, sessions: [session], account: nil,
                keeps: -1, pending: 1))
        send(
            .remove(session), slot: session, from: gateway, owner: .signOut(signOuts.count - 1), isDurable: true)
    }

    func signOutEverywhere(_ account: Int, keeping keeps: Int) {
        guard let gateway = anyGateway() else { return }
        let truth = truths[keeps]
        let kept = truth.account == account && truth.signedInAt != nil ? keeps : -1
        note("sign-out of account \(account) at g\(gateway.number), keeping s\(kept)")
        var sessions: [Int] = []
        for session in truths.indices where truths[session].account == account && session != kept {
            // The result for a sign-in in progress is open.
            if truths[session].requestedAt >= 0 { truths[session].mayHaveEnded = true }
            if truths[session].signedInAt != nil { sessions.append(session) }
        }
        signOuts.append(
            SignOut(
                gateway: gateway.number, process: gateway.process, requestedAt: now, sessions: sessions,
                account: account, keeps: kept, pending: 1))
        send(
            .setCutoff(
                account, keeping: kept, born: kept < 0 ? 0 : truths[kept].born,
                at: mutant == .cutoffByGatewayClock ? now + gateway.skew : nil),
            slot: slot(account: account), from: gateway, owner: .signOut(signOuts.count - 1), isDurable: true)
    }

    func signOutProceeds(_ index: Int, _ call: Int, _ reply: Reply) {
        let gateway = gateways[calls[call].gateway]
        switch (calls[call].body, reply) {
        case (.setCutoff(let account, _, _, _), .cutoff(let cutoff)):
            gateway.cutoffs[account] = nil
            gateway.ownCutoffs.append((account, cutoff, now))
            signOuts[index].isConfirmed = calls[call].isConfirmed
            send(.list(account), slot: slot(account: account), from: gateway, owner: .signOut(index))
            return
        case (.list, .list(let sessions)):
            signOuts[index].pending += sessions.count
            for session in sessions {
                if session == signOuts[index].keeps || !signOuts[index].sessions.contains(session) {
                    signOuts[index].pending -= 1
                } else {
                    send(.remove(session), slot: session, from: gateway, owner: .signOut(index), isDurable: true)
                }
            }
        case (.remove(let session), .done):
            gateway.sessions[session] = nil
            gateway.saved[session] = nil
            gateway.ends.append((session, .signedOut, now))
            if signOuts[index].account == nil { signOuts[index].isConfirmed = calls[call].isConfirmed }
        case (.setCutoff, _): signOuts[index].hasFailed = true
        case (.remove, _): if signOuts[index].account == nil { signOuts[index].hasFailed = true }
        default: break
        }
        signOuts[index].pending -= 1
        guard signOuts[index].pending == 0 else { return }
        guard !signOuts[index].hasFailed else {
            coverage.count(.signOutFailed)
            // The command may be executed later.
            if signOuts[index].account != nil { signOuts[index].pending = 1 }
            return
        }
        acknowledge(index)
    }

    private func acknowledge(_ index: Int) {
        let signOut = signOuts[index]
        coverage.count(signOut.account == nil ? .signedOut : .signedOutEverywhere)
        note("sign-out of \(signOut.sessions) is acknowledged\(signOut.isConfirmed ? "" : ", not confirmed")")
        for session in signOut.sessions {
            if truths[session].endedAt == nil {
                truths[session].endedAt = now
                truths[session].isEndConfirmed = signOut.isConfirmed
            }
            truths[session].endHolders.append(signOut.process)
        }
    }
}
