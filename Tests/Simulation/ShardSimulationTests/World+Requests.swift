import CloakroomCore
import TestSupport

@testable import CloakroomSessions

/// Requests, sign-ins and sign-outs at a gateway.
extension World {
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
        if let cached = gateway.cache.session(Names.key(session)) {
            coverage.count(.servedFromCache)
            return judge(index, cached)
        }
        requests[index].read = beginRead(session, gateway)
        send(.read(session), slot: session, from: gateway, owner: .request(index))
    }

    func beginRead(_ session: Int, _ gateway: Gateway) -> RecordRead {
        RecordRead(registration: gateway.cache.begin(Names.key(session), in: hashSlots[session]))
    }

    /// A record that was read, before its cutoff is read.
    func stamped(
        _ read: RecordRead, _ session: Session, born: Int64, _ index: Int, _ gateway: Gateway
    ) -> RecordRead {
        var read = read
        (read.session, read.born) = (session, born)
        read.stamp = gateway.cache.trust.stamp(
            record: read.registration.partition, word: read.registration.word,
            indexes: [hashSlots[slot(account: truths[index].account)]])
        return read
    }

    func finish(_ read: RecordRead, isEnded: Bool, _ gateway: Gateway) {
        var entry: SessionCache.Entry?
        if !isEnded, let session = read.session, let stamp = read.stamp {
            entry = SessionCache.Entry(session: session, stamp: stamp)
        }
        gateway.cache.finish(read.registration, with: entry)
    }

    /// A reply of the store for a request.
    func responded(_ index: Int, _ call: Int, _ reply: Reply) {
        let request = requests[index]
        let gateway = gateways[request.gateway]
        switch reply {
        case .record(let session, let born):
            guard !hasOwnEnd(request.session, gateway, since: calls[call].repetition) else {
                return unauthorized(index)
            }
            requests[index].read = request.read.map { stamped($0, session, born: born, request.session, gateway) }
            let account = truths[request.session].account
            send(.readCutoff(account), slot: slot(account: account), from: gateway, owner: .request(index))
        case .cutoff(let stored):
            guard let read = request.read, let session = read.session,
                let isEnded = hasEnded(session, request.session, born: read.born, call, stored)
            else { return finish(index, .unavailable) }
            finish(read, isEnded: isEnded, gateway)
            guard !isEnded else {
                coverage.count(.endedByCutoff)
                return unauthorized(index)
            }
            judge(index, session)
        case .ended: unauthorized(index)
        case .missing:
            if hasOwnEnd(request.session, gateway, since: calls[call].repetition) {
                unauthorized(index)
            } else if mayHaveLost(request.session, gateway), mutant != .missingMeansEnded {
                coverage.count(.missingInGrace)
                finish(index, .unavailable)
            } else {
                unauthorized(index)
            }
        default: finish(index, .unavailable)
        }
    }

    private func judge(_ index: Int, _ session: Session) {
        let request = requests[index]
        let gateway = gateways[request.gateway]
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
            let born = mutant == .cutoffByGatewayClock ? microseconds(gateway) : time
            let record = Names.session(
                session, account: account, pair: upstream.issue(session), at: clock(gateway), life: settings.accessLife)
            // Kept before it is sent: the server may be replaced before its reply is here.
            let pending =
                mutant == .insertNotJournaled ? nil : journal(record, session, born: born, at: gateway)
            send(
                .insert(session, record, born: born), slot: session, from: gateway, owner: .signIn(session),
                isDurable: true, pendingSave: pending)
        case (.insert(_, _, let born), .done):
            coverage.count(.signedIn)
            truths[session].signedInAt = now
            truths[session].born = born
            truths[session].isInsertConfirmed = calls[call].isConfirmed
            truths[session].recordHolders.append(gateway.process)
            note("s\(session) is signed in, born at \(born)\(calls[call].isConfirmed ? "" : ", not confirmed")")
            queue.push(.request(session: session), at: now + random.between(5, 300))
        default:
            // Its client gets no cookie, so it must not be repeated.
            if let save = calls[call].pendingSave { gateway.journal.rejected(save) }
            coverage.count(.signInFailed)
        }
    }

    /// Microseconds by a gateway's clock, comparable with those of servers.
    private func microseconds(_ gateway: Gateway) -> Int64 { (1_000_000 + now + gateway.skew) * 1_000 }

    func signOut(_ session: Int) {
        guard let gateway = anyGateway(), truths[session].signedInAt != nil else { return }
        note("sign-out of s\(session) at g\(gateway.number)")
        truths[session].mayHaveEnded = true
        signOuts.append(
            SignOut(
                gateway: gateway.number, process: gateway.process, sessions: [session], account: nil, keeps: -1,
                pending: 1))
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
                gateway: gateway.number, process: gateway.process, sessions: sessions, account: account, keeps: kept,
                pending: 1))
        send(
            .setCutoff(
                account, keeping: kept < 0 ? nil : KeptSession(id: Names.key(kept).id, birth: truths[kept].born),
                at: mutant == .cutoffByGatewayClock ? microseconds(gateway) : nil),
            slot: slot(account: account), from: gateway, owner: .signOut(signOuts.count - 1), isDurable: true)
    }

    func signOutProceeds(_ index: Int, _ call: Int, _ reply: Reply) {
        let gateway = gateways[calls[call].gateway]
        switch (calls[call].body, reply) {
        case (.setCutoff(let account, _, _), .cutoff(let stored?)):
            let key = Names.keys.cutoff(.account(Names.hash(account: account)))
            if let cutoff = JournaledCutoff(key: key, stored: stored, lifetime: Self.lifetime) {
                gateway.journal.cutoffSet(cutoff, now: instant)
            }
            gateway.journal.cutoffConfirmed(key, sentAt: instant(at: calls[call].sentAt))
            gateway.cache.cutoffChanged(in: hashSlots[calls[call].slot])
            signOuts[index].isConfirmed = calls[call].isConfirmed
            guard isKept(call) else {
                signOuts[index].hasFailed = true
                break
            }
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
        case (.remove(let session), .removed(let hadRecord)):
            let id = Names.key(session).id
            gateway.cache.recordChanged(id)
            if hadRecord {
                gateway.journal.ended(id, reason: .signedOut, now: instant)
            } else {
                gateway.journal.endedWithoutRecord(id, reason: .signedOut, now: instant)
            }
            guard signOuts[index].account == nil else { break }
            signOuts[index].isConfirmed = calls[call].isConfirmed
            if !isKept(call) { signOuts[index].hasFailed = true }
        case (.setCutoff(let account, let kept, _), _):
            // The server may have it, and a failover may lose it then.
            if case .lost = reply {
                gateway.journal.cutoffRequested(
                    CutoffRequest(
                        key: Names.keys.cutoff(.account(Names.hash(account: account))), kept: kept?.id,
                        lifetime: Self.lifetime), sentAt: instant(at: calls[call].sentAt))
            }
            signOuts[index].hasFailed = true
        case (.remove(let session), _):
            if case .lost = reply {
                gateway.journal.ended(Names.key(session).id, reason: .signedOut, now: instant)
            }
            if signOuts[index].account == nil { signOuts[index].hasFailed = true }
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
