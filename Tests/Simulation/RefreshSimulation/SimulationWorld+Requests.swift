import CloakroomCore
import TestSupport

/// Requests of clients, and their handling by a replica.
extension SimulationWorld {
    func request(from client: Int) {
        let next = now + random.between(settings.requestInterval / 2, settings.requestInterval * 3 / 2)
        if !isCalm || next < settings.calmAt + 3_000 { queue.push(.request(client: client), at: next) }
        // Each login has a client of its own.
        let session =
            client < settings.clients ? client % settings.sessions : settings.sessions + client - settings.clients
        let replica = random.below(settings.replicas)
        handle(.arrive(session: session, replica: replica, isProbe: false))
        // Web pages send several requests at once.
        if random.chance(200) {
            handle(.arrive(session: session, replica: random.below(settings.replicas), isProbe: false))
        }
    }

    func startRequest(_ session: Int, at replica: Int, isProbe: Bool) {
        // A client without a cookie sends none.
        if session >= settings.sessions, !logins[session - settings.sessions].isSignedIn { return }
        requests.append(
            Request(
                session: session, replica: replica, life: replicas[replica].life, isProbe: isProbe, startedAt: now))
        let index = requests.count - 1
        guard replicas[replica].isUp else { return finish(index, .lost) }
        if replicas[replica].trustsLink, let known = replicas[replica].table[session] {
            evaluate(index, known)
        } else {
            sendToStore(.read(session), from: replica, owner: .request(index))
        }
    }

    /// Handles a reply for a request: of the store if the request has no session yet, of the upstream otherwise.
    func responded(_ index: Int, _ response: TestResponse) {
        let request = requests[index]
        switch response {
        case .read(.active(let session)):
            remember(session, request.session, at: request.replica)
            if random.chance(settings.reseal) {
                // Written later, as touches are.
                let delay = random.chance(500) ? random.between(0, 100) : random.between(100, 3_000)
                sendToStore(
                    .reseal(request.session, session), from: request.replica, owner: .none, delayedBy: delay)
            }
            evaluate(index, session)
        case .read(.missing):
            unauthorized(index)
        case .rejected:
            guard !request.wasReplayed, let current = request.current else {
                coverage.count(.rejectedByUpstream)
                return finish(index, .rejected)
            }
            requests[index].wasReplayed = true
            refresh(index, current)
        case .unavailable where mutant == .outageMeansGone && request.current == nil:
            unauthorized(index)
        default:
            finish(index, request.current == nil ? .unavailable : .lost)
        }
    }

    private func evaluate(_ index: Int, _ session: Session) {
        let request = requests[index]
        requests[index].current = session
        guard steadyClock(request.replica) < session.expiresAt else { return unauthorized(index) }
        if let idle = settings.idle, store.records[request.session].lastUse + idle / 10 <= now {
            sendToStore(.touch(request.session, now), from: request.replica, owner: .none)
        }
        // Tokens live for seconds here, to have many refreshes in a short time. The minimum interval between two
        // refreshes is longer than that and is therefore disabled.
        let times = RefreshSchedule(session.tokens, spread: session.key.word3, minimumInterval: .zero)
        switch times.urgency(at: wallClock(request.replica)) {
        case .none:
            go(index, session)
        case .background:
            refreshSoon(request.session, session, at: request.replica)
            // The replica may have crashed while it started the refresh.
            if requests[index].life == replicas[request.replica].life { go(index, session) }
        case .required:
            refresh(index, session)
        }
    }

    private func refreshSoon(_ session: Int, _ known: Session, at replica: Int) {
        guard replicas[replica].refreshes[refreshName(session)] < 0, now >= replicas[replica].coolUntil[session] else {
            return
        }
        begin(session, known, at: replica, waiter: nil)
    }

    private func refresh(_ index: Int, _ stale: Session) {
        let request = requests[index]
        let flight = replicas[request.replica].refreshes[refreshName(request.session)]
        if flight >= 0 {
            requests[index].waited = true
            refreshes[flight].waiters.append(index)
        } else if let known = replicas[request.replica].table[request.session], known.version > stale.version,
            known.authorization != stale.authorization
        {
            go(index, known)
        } else if now < replicas[request.replica].coolUntil[request.session] {
            coverage.count(.cooledOff)
            finish(index, .unavailable)
        } else {
            begin(request.session, stale, at: request.replica, waiter: index)
        }
    }

    /// Forwards the request with a session's tokens.
    func go(_ index: Int, _ session: Session) {
        let request = requests[index]
        checkServing(request.session, at: request.replica)
        requests[index].current = session
        sendUpstream(
            .resource(session: request.session, pair: Names.pair(session)), from: request.replica,
            owner: .request(index))
    }

    func served(_ index: Int) {
        coverage.count(requests[index].wasReplayed ? .servedAfterReplay : .served)
        if requests[index].waited { coverage.count(.waited) }
        finish(index, .served)
    }

    func unauthorized(_ index: Int) {
        coverage.count(.respondedUnauthorized)
        checkUnauthorized(index)
        finish(index, .unauthorized)
    }

    func finish(_ index: Int, _ state: Request.State) {
        if state == .unavailable { coverage.count(.respondedUnavailable) }
        if requests[index].state == .going { requests[index].state = state }
        note("request \(index) for s\(requests[index].session) at r\(requests[index].replica): \(state)")
    }

    func remember(_ session: Session, _ index: Int, at replica: Int) {
        if replicas[replica].trustsLink { replicas[replica].table[index] = session }
    }

    /// The key under which a session's refresh is registered.
    func refreshName(_ session: Int) -> Int {
        mutant == .refreshesWithoutSessionKey ? 0 : session
    }
}
