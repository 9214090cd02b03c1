import CloakroomCore
import Testing

@Suite("A renewal with new tokens in hand")
struct TokenRefreshSaveTests {
    /// A flight that has spent `a` under the first lease, got `b`, and asked for it to be saved.
    private func saving() -> RefreshScenario {
        var script = RefreshScenario()
        script.held(1)
        script.read("a")
        script.refreshed("b")
        return script
    }

    @Test("saves them over a version that has come meanwhile, if that has the old ones")
    func changed() {
        var script = saving()
        #expect(script.saved(.versionConflict) == "read")
        #expect(script.read("a", version: 2) == "save b over 2 under 1")
        #expect(script.saved(.saved(RefreshScenario.session("b", version: 3))) == "renewed b, release 1")
    }

    @Test("finds that they were kept if only the store's answer was lost")
    func lostReply() {
        var script = saving()
        #expect(script.storeFailed() == "wait 100")
        #expect(script.waited() == "read")
        #expect(script.read("b", version: 2) == "renewed b, release 1")
    }

    @Test("finds that they were kept if its save came twice")
    func savedTwice() {
        var script = saving()
        #expect(script.saved(.versionConflict) == "read")
        #expect(script.read("b", version: 2) == "renewed b, release 1")
    }

    @Test("saves them again if the store did not get them")
    func lostRequest() {
        var script = saving()
        script.storeFailed()
        script.waited()
        #expect(script.read("a") == "save b over 1 under 1")
    }

    @Test("that was fenced off takes what the later holder of the lease has got")
    func fencedAndRefreshed() {
        var script = saving()
        #expect(script.saved(.staleLease) == "read")
        #expect(script.read("c", version: 2) == "coalesced c")
    }

    @Test("that was fenced off keeps them under a lease of its own if the later holder has got nothing")
    func fencedAndKept() {
        var script = saving()
        script.saved(.staleLease)
        #expect(script.read("a") == "lease")
        #expect(script.leased(.heldByOther) == "wait 50")
        #expect(script.waited() == "read")
        #expect(script.read("a") == "lease")
        #expect(script.held(3) == "read")
        #expect(script.read("a", version: 4) == "save b over 4 under 3")
        #expect(script.saved(.saved(RefreshScenario.session("b", version: 5))) == "renewed b, release 3")
    }

    @Test("never spends a token a second time, however long the lease that it gets then")
    func spendsOnce() {
        var script = saving()
        script.saved(.staleLease)
        script.read("a")
        script.held(2)
        for round in 0..<20 {
            #expect(script.read("a") == "save b over 1 under 2")
            // A session that changes all the time is not asked for without a pause.
            guard round >= 6 else {
                #expect(script.saved(.versionConflict) == "read")
                continue
            }
            #expect(script.saved(.versionConflict) == "wait 1600")
            #expect(script.waited() == "read")
        }
    }

    @Test("hands them back if the session ended meanwhile")
    func endedMeanwhile() {
        var script = saving()
        #expect(script.saved(.notFound) == "read")
        #expect(script.readNone(.revoked) == "ended revoked, unused b")
    }

    @Test("hands them back if the session ended while the store did not answer")
    func endedUnseen() {
        var script = saving()
        script.storeFailed()
        script.waited()
        #expect(script.readNone(.revoked) == "ended revoked, unused b, release 1")
    }

    @Test("hands them back if the session ended while it waited for the lease")
    func endedWhileLeasing() {
        var script = saving()
        script.saved(.staleLease)
        script.read("a")
        #expect(script.leased(.notFound) == "read")
        #expect(script.readNone(.expiredAbsolute) == "ended expiredAbsolute, unused b")
    }

    @Test("tries longer and longer pauses while the store is not there, and then gives up")
    func keeping() {
        var script = saving()
        for pause in [100, 200, 400, 800, 1_600, 1_600] {
            #expect(script.storeFailed() == "wait \(pause)")
            script.pass(.milliseconds(pause))
            script.waited()
        }
        script.pass(.seconds(56))
        #expect(script.storeFailed() == "store unavailable, release 1")
    }

    @Test("outlasts the time that it would wait for others without them")
    func outlastsWaiting() {
        var script = saving()
        script.pass(.seconds(30))
        script.saved(.staleLease)
        #expect(script.read("a") == "lease")
        #expect(script.leased(.heldByOther) == "wait 50")
        script.pass(.seconds(31))
        script.waited()
        #expect(script.read("a") == "lease timeout")
    }

    @Test("waits for a store that fails while it asks for the lease again")
    func storeFailsWhileLeasing() {
        var script = saving()
        script.saved(.staleLease)
        script.read("a")
        #expect(script.storeFailed().hasPrefix("wait"))
        #expect(script.waited() == "read")
        #expect(script.read("a") == "lease")
    }

    @Test("does not mind that its lease has run out while nobody else took one")
    func leaseRanOut() {
        var script = saving()
        script.pass(.seconds(40))
        script.storeFailed()
        script.waited()
        #expect(script.read("a") == "save b over 1 under 1")
    }

    @Test("takes tokens for the same only if both of them are")
    func sameRefreshToken() {
        let once = TokenSet(
            authorization: Secret("Bearer other"), refreshToken: Secret("a"), obtainedAt: Timestamp(seconds: 1_000))
        let session = RefreshScenario.session("a").refreshed(with: SessionUpdate(tokens: once))
        var flight = TokenRefreshStateMachine(
            RefreshScenario.session("a"), limits: RefreshScenario.limits, now: Timestamp(seconds: 1_000))
        _ = flight.leased(.acquired(RefreshLease(fence: 1)), now: Timestamp(seconds: 1_000))
        // The upstream gives a new access token and leaves the refresh token as it was.
        guard case .finish(.coalesced, _) = flight.sessionRead(.active(session), now: Timestamp(seconds: 1_000)) else {
            Issue.record("a renewed session was taken for the old one")
            return
        }
    }
}
