import CloakroomCore
import Testing

@Suite("A token refresh with unsaved tokens")
struct TokenRefreshSaveTests {
    /// A refresh that has spent `a` under the first lease, received `b`, and returned the action to save it.
    private func saving() -> RefreshScenario {
        var script = RefreshScenario()
        script.held(1)
        script.read("a")
        script.refreshed("b")
        return script
    }

    @Test("saves them over a newer version if that has the old tokens")
    func changed() {
        var script = saving()
        #expect(script.saved(.versionConflict) == "read")
        #expect(script.read("a", version: 2) == "save b over 2 under 1")
        #expect(script.saved(.saved(RefreshScenario.session("b", version: 3))) == "refreshed b, release 1")
    }

    @Test("finds that they were saved if only the store's reply was lost")
    func lostReply() {
        var script = saving()
        #expect(script.storeFailed() == "wait 100")
        #expect(script.waited() == "read")
        #expect(script.read("b", version: 2) == "refreshed b, release 1")
    }

    @Test("finds that they were saved if the save was executed twice")
    func savedTwice() {
        var script = saving()
        #expect(script.saved(.versionConflict) == "read")
        #expect(script.read("b", version: 2) == "refreshed b, release 1")
    }

    @Test("saves them again if the store did not receive them")
    func lostRequest() {
        var script = saving()
        script.storeFailed()
        script.waited()
        #expect(script.read("a") == "save b over 1 under 1")
    }

    @Test("with a stale lease uses the tokens of the later lease holder")
    func fencedAndRefreshed() {
        var script = saving()
        #expect(script.saved(.staleLease) == "read")
        #expect(script.read("c", version: 2) == "coalesced c")
    }

    @Test("with a stale lease saves them under a new lease if the later holder got no tokens")
    func fencedAndKept() {
        var script = saving()
        script.saved(.staleLease)
        #expect(script.read("a") == "lease")
        #expect(script.leased(.heldByOther) == "wait 50")
        #expect(script.waited() == "read")
        #expect(script.read("a") == "lease")
        #expect(script.held(3) == "read")
        #expect(script.read("a", version: 4) == "save b over 4 under 3")
        #expect(script.saved(.saved(RefreshScenario.session("b", version: 5))) == "refreshed b, release 3")
    }

    @Test("never spends a token a second time, regardless of the duration of a new lease")
    func spendsOnce() {
        var script = saving()
        script.saved(.staleLease)
        script.read("a")
        script.held(2)
        for round in 0..<20 {
            #expect(script.read("a") == "save b over 1 under 2")
            // A session that keeps changing is not requested again without a delay.
            guard round >= 6 else {
                #expect(script.saved(.versionConflict) == "read")
                continue
            }
            #expect(script.saved(.versionConflict) == "wait 1600")
            #expect(script.waited() == "read")
        }
    }

    @Test("returns them unused if the session ended in the meantime")
    func endedMeanwhile() {
        var script = saving()
        #expect(script.saved(.notFound) == "read")
        #expect(script.readNone(.revoked) == "ended revoked, unused b")
    }

    @Test("returns them unused if the session ended while the store did not reply")
    func endedUnseen() {
        var script = saving()
        script.storeFailed()
        script.waited()
        #expect(script.readNone(.revoked) == "ended revoked, unused b, release 1")
    }

    @Test("returns them unused if the session ended while it waited for the lease")
    func endedWhileLeasing() {
        var script = saving()
        script.saved(.staleLease)
        script.read("a")
        #expect(script.leased(.notFound) == "read")
        #expect(script.readNone(.expiredAbsolute) == "ended expiredAbsolute, unused b")
    }

    @Test("retries with increasing delays while the store is unavailable, and then gives up")
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

    @Test("waits longer than a refresh without unsaved tokens")
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

    @Test("waits for a store that fails while the lease is requested again")
    func storeFailsWhileLeasing() {
        var script = saving()
        script.saved(.staleLease)
        script.read("a")
        #expect(script.storeFailed().hasPrefix("wait"))
        #expect(script.waited() == "read")
        #expect(script.read("a") == "lease")
    }

    @Test("may save after its lease expired if there is no later lease")
    func leaseRanOut() {
        var script = saving()
        script.pass(.seconds(40))
        script.storeFailed()
        script.waited()
        #expect(script.read("a") == "save b over 1 under 1")
    }

    @Test("treats token sets as equal only if both tokens are")
    func sameRefreshToken() {
        let once = TokenSet(
            authorization: Secret("Bearer other"), refreshToken: Secret("a"), obtainedAt: WallTime(seconds: 1_000))
        let session = RefreshScenario.session("a").refreshed(with: SessionUpdate(tokens: once))
        var flight = TokenRefreshStateMachine(
            RefreshScenario.session("a"), limits: RefreshScenario.limits, now: MonotonicTime(seconds: 1_000))
        _ = flight.leased(.acquired(RefreshLease(fence: 1)), now: MonotonicTime(seconds: 1_000))
        // The upstream returns a new access token and no new refresh token.
        guard case .finish(.coalesced, _) = flight.sessionRead(.active(session), now: MonotonicTime(seconds: 1_000))
        else {
            Issue.record("a refreshed session was treated as the old one")
            return
        }
    }
}
