import CloakroomCore
import TestSupport

/// Logins at a provider and the logouts that it reports, in the order of steps of the gateway's controllers.
extension SimulationWorld {
    func beginLogins() {
        for login in logins {
            upstream.reserve()
            let start = SessionTime(milliseconds: Names.epoch)
            store.reserve(
                Session(
                    key: Names.key(login.session),
                    user: UserProfile(json: [], account: Names.provenance(login).account),
                    tokens: TokenSet(authorization: Secret(bytes: []), obtainedAt: start.wallTime), createdAt: start,
                    expiresAt: start, lastUsedAt: start))
            for time in login.callbacks {
                queue.push(
                    .callback(login: login.session - settings.sessions, replica: random.below(settings.replicas)),
                    at: time)
            }
        }
        for (index, logout) in logouts.enumerated() {
            queue.push(.logout(logout: index, replica: random.below(settings.replicas)), at: logout.at)
        }
    }

    // MARK: - Callbacks

    func beginCallback(of login: Int, at replica: Int) {
        guard replicas[replica].isUp else { return coverage.count(.loginFailed) }
        var steps: [Callback.Step] = [.markLogin, .redeem, .create, .checkLogout]
        if mutant == .checksLogoutBeforeCreating { steps = [.markLogin, .redeem, .checkLogout, .create] }
        callbacks.append(Callback(login: login, replica: replica, steps: steps))
        note("callback \(callbacks.count - 1) of s\(logins[login].session) at r\(replica)")
        carryOut(callback: callbacks.count - 1)
    }

    private func carryOut(callback index: Int) {
        let callback = callbacks[index]
        let login = logins[callback.login]
        guard let step = callback.steps.first else { return signedIn(index) }
        let owner = Call.Owner.callback(index)
        switch step {
        case .markLogin:
            sendToStore(.setMark(.usedLogin(callback.login)), from: callback.replica, owner: owner)
        case .redeem:
            logins[callback.login].sentCodes += 1
            if logins[callback.login].sentCodes > 1 {
                violate(.loginOnce, "the code of s\(login.session) is sent again by callback \(index)")
            }
            sendUpstream(.redeem(session: login.session), from: callback.replica, owner: owner)
        case .create:
            guard let tokens = callback.tokens else { return }
            callbacks[index].hasCreated = true
            sendToStore(.create(session: login.session, tokens), from: callback.replica, owner: owner)
        case .checkLogout:
            sendToStore(.hasMark(.endedAtProvider(login.sid)), from: callback.replica, owner: owner)
        }
    }

    /// Handles the result of a callback's step.
    func proceed(_ index: Int, _ response: TestResponse) {
        guard !callbacks[index].isFinished, let step = callbacks[index].steps.first else { return }
        switch (step, response) {
        case (.markLogin, .mark(false)) where mutant != .repeatsLogins:
            coverage.count(.loginUsed)
            return fail(callback: index)
        case (.checkLogout, .mark(true)):
            coverage.count(.logoutOvertook)
            return fail(callback: index)
        case (.redeem, .tokens(let pair)):
            let wall = wallClock(callbacks[index].replica)
            callbacks[index].tokens = Names.tokens(
                pair, end: wall + .milliseconds(upstream.accessLife), obtainedAt: wall)
        case (.markLogin, .mark), (.checkLogout, .mark), (.create, .done): break
        default:
            coverage.count(.loginFailed)
            return fail(callback: index)
        }
        callbacks[index].steps.removeFirst()
        carryOut(callback: index)
    }

    /// The browser gets no cookie, and a session that may exist is ended.
    private func fail(callback index: Int) {
        callbacks[index].isFinished = true
        note("callback \(index) fails")
        guard callbacks[index].hasCreated else { return }
        let session = logins[callbacks[index].login].session
        sendToStore(.end(session), from: callbacks[index].replica, owner: .none)
    }

    private func signedIn(_ index: Int) {
        callbacks[index].isFinished = true
        let login = callbacks[index].login
        let session = logins[login].session
        coverage.count(.signedIn)
        note("callback \(index) signs in: s\(session)")
        if logins[login].isSignedIn { violate(.loginOnce, "s\(session) is handed out twice") }
        logins[login].isSignedIn = true
        checkLogouts()
        queue.push(.request(client: settings.clients + login), at: now + random.between(1, settings.requestInterval))
    }

    func redeem(_ session: Int, _ call: Int) {
        if random.chance(settings.upstreamFails) {
            coverage.count(.upstreamFailure)
            return reply(call, .failed, fromStore: false)
        }
        let pair = upstream.redeem(session, call: call, now: now)
        note("upstream call \(call) redeems the code of s\(session): \(pair.map { "p\($0)" } ?? "rejected")")
        reply(call, pair.map { .tokens(pair: $0) } ?? .rejected, fromStore: false)
    }

    // MARK: - Logouts

    func beginLogout(_ index: Int, at replica: Int) {
        guard !logouts[index].isAcknowledged else { return }
        logouts[index].attempt += 1
        let attempt = logouts[index].attempt
        if attempt > 1 { coverage.count(.logoutResent) }
        queue.push(.logoutTimeout(logout: index, attempt: attempt), at: now + 5_000)
        guard replicas[replica].isUp else { return }
        logouts[index].replica = replica
        logouts[index].steps =
            switch mutant {
            case .noLogoutMark: [.checkToken, .endSessions, .markToken]
            case .marksLogoutAfterEnding: [.checkToken, .endSessions, .markLogout, .markToken]
            case .marksTokenBeforeEnding: [.checkToken, .markToken, .markLogout, .endSessions]
            default: [.checkToken, .markLogout, .endSessions, .markToken]
            }
        note("logout \(index) of sid \(logouts[index].sid) at r\(replica), attempt \(attempt)")
        carryOut(logout: index)
    }

    private func carryOut(logout index: Int) {
        let logout = logouts[index]
        guard let step = logout.steps.first else { return acknowledge(index) }
        let body: Call.Body =
            switch step {
            case .checkToken: .hasMark(.logoutToken(index))
            case .markLogout: .setMark(.endedAtProvider(logout.sid))
            case .endSessions: .endProviderSession(logout.sid)
            case .markToken: .setMark(.logoutToken(index))
            }
        sendToStore(body, from: logout.replica, owner: .logout(index, attempt: logout.attempt))
    }

    /// Handles the result of a logout's step.
    func proceed(_ index: Int, _ attempt: Int, _ response: TestResponse) {
        guard logouts[index].attempt == attempt, !logouts[index].isAcknowledged,
            let step = logouts[index].steps.first
        else { return }
        if case .unavailable = response, mutant != .acknowledgesWithoutStore {
            logouts[index].steps = []
            // 503: the provider sends it again.
            queue.push(
                .logout(logout: index, replica: random.below(settings.replicas)), at: now + random.between(300, 2_000))
            return
        }
        if step == .checkToken, case .mark(true) = response { return acknowledge(index) }
        logouts[index].steps.removeFirst()
        carryOut(logout: index)
    }

    func logoutTimedOut(_ index: Int, _ attempt: Int) {
        guard logouts[index].attempt == attempt, !logouts[index].isAcknowledged else { return }
        beginLogout(index, at: random.below(settings.replicas))
    }

    private func acknowledge(_ index: Int) {
        logouts[index].isAcknowledged = true
        coverage.count(.logoutAcknowledged)
        note("logout \(index) of sid \(logouts[index].sid) is acknowledged")
        checkLogouts()
    }

    /// No session that a browser has got may outlive an acknowledged logout of its provider.
    func checkLogouts() {
        for logout in logouts where logout.isAcknowledged {
            for login in logins where login.sid == logout.sid && login.isSignedIn {
                guard store.isAlive(login.session, now: now) else { continue }
                violate(.logoutWins, "s\(login.session) is active, and sid \(logout.sid) has ended")
            }
        }
    }

    // MARK: - The store

    func responseToLogin(_ body: Call.Body, from replica: Int) -> TestResponse {
        switch body {
        case .setMark(let mark):
            return .mark(store.setMark(mark, replica: replica))
        case .hasMark(let mark):
            return .mark(store.hasMark(mark, replica: replica))
        case .create(let session, let tokens):
            let login = logins[session - settings.sessions]
            let start = SessionTime(milliseconds: Names.epoch + now)
            let new = Session(
                key: Names.key(session), user: UserProfile(json: [], account: Names.provenance(login).account),
                tokens: tokens, provenance: Names.provenance(login), createdAt: start,
                expiresAt: start + .milliseconds(settings.absolute ?? 86_400_000), lastUsedAt: start)
            store.create(session, new, now: now)
            return .done
        case .endProviderSession(let sid):
            for session in store.endSessions(of: Names.providerSession(sid), now: now) {
                coverage.count(.loggedOut)
                notify(of: session, but: nil)
            }
            return .done
        default:
            return .failed
        }
    }
}
