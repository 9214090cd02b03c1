import CloakroomCore
import Testing

@Suite("A token refresh")
struct TokenRefreshStateMachineTests {
    @Test("acquires the lease, reads the session again, spends the token, and saves the new tokens")
    func allWell() {
        var script = RefreshScenario()
        #expect(script.last == "lease")
        #expect(script.held(1) == "read")
        #expect(script.read("a") == "refresh a")
        #expect(script.refreshed("b") == "save b over 1 under 1")
        #expect(script.saved(.saved(RefreshScenario.session("b", version: 2))) == "refreshed b, release 1")
    }

    @Test("spends the token of the session that it read, and saves over that version")
    func readUnderLease() {
        var script = RefreshScenario(held: 4)
        #expect(script.read("a", version: 7) == "refresh a")
        #expect(script.refreshed("b") == "save b over 7 under 4")
    }

    @Test("spends no token if the session that it reads under the lease has other tokens")
    func coalescedUnderLease() {
        var script = RefreshScenario(held: 2)
        #expect(script.read("b", version: 2) == "coalesced b, release 2")
    }

    @Test(
        "of a session that has ended does nothing", arguments: [UnauthorizedReason.revoked, .expiredIdle, .noSession])
    func ended(_ reason: UnauthorizedReason) {
        var script = RefreshScenario()
        #expect(script.leased(.notFound) == "read")
        #expect(script.readNone(reason) == "ended \(reason)")
    }

    @Test("releases the lease if the session ended before it was read")
    func endedUnderLease() {
        var script = RefreshScenario(held: 3)
        #expect(script.readNone(.revoked) == "ended revoked, release 3")
    }

    @Test("of a session that the store finds after all requests the lease again")
    func foundAfterAll() {
        var script = RefreshScenario()
        script.leased(.notFound)
        #expect(script.read("a") == "lease")
    }

    // MARK: - Leases held elsewhere

    @Test("waits while the lease is held elsewhere, and uses the tokens of its holder")
    func waitsForAnother() {
        var script = RefreshScenario()
        #expect(script.leased(.heldByOther) == "wait 50")
        #expect(script.waited() == "read")
        #expect(script.read("b", version: 2) == "coalesced b")
    }

    @Test("acquires the lease once it is free, and reads again under it")
    func takesFreedLease() {
        var script = RefreshScenario()
        script.leased(.heldByOther)
        script.waited()
        #expect(script.read("a") == "lease")
        #expect(script.held(2) == "read")
        #expect(script.read("a") == "refresh a")
    }

    @Test("waits no longer than the limit")
    func leaseTimeout() {
        var script = RefreshScenario()
        script.leased(.heldByOther)
        script.pass(.seconds(15))
        script.waited()
        #expect(script.read("a") == "lease")
        script.pass(.seconds(1))
        #expect(script.leased(.heldByOther) == "lease timeout")
    }

    @Test("that has waited too long requests no more leases but still uses new tokens in the session")
    func afterWaiting() {
        var script = RefreshScenario()
        script.leased(.heldByOther)
        script.pass(.seconds(16))
        script.waited()
        var other = script
        #expect(script.read("a") == "lease timeout")
        #expect(other.read("b") == "coalesced b")
    }

    // MARK: - Time under the lease

    @Test("spends no token if the lease might expire before the call ends")
    func callDoesNotFit() {
        var script = RefreshScenario(held: 1)
        script.pass(.seconds(5))
        #expect(script.read("a") == "store unavailable, release 1")
    }

    @Test("spends the token if the call just fits into the lease")
    func callFits() {
        var script = RefreshScenario(held: 1)
        script.pass(.milliseconds(4_999))
        #expect(script.read("a") == "refresh a")
    }

    @Test("counts the duration of a lease from the request, not from the reply")
    func leaseAskedAt() {
        var script = RefreshScenario()
        script.pass(.seconds(6))
        script.held(1)
        #expect(script.read("a") == "store unavailable, release 1")
    }

    @Test("counts the duration of each lease from its own request")
    func secondLeaseAskedAt() {
        var script = RefreshScenario()
        script.leased(.heldByOther)
        script.pass(.seconds(12))
        script.waited()
        script.read("a")
        script.held(2)
        #expect(script.read("a") == "refresh a")
    }

    // MARK: - Rejections and failures

    @Test("ends the session if the upstream rejects the refresh token")
    func rejected() {
        var script = RefreshScenario(held: 1)
        script.read("a", version: 5)
        #expect(script.notRefreshed(.rejected) == "reject 5 under 1")
        #expect(script.rejected(.ended) == "rejected, release 1")
    }

    @Test(
        "does not change the session if the upstream only fails",
        arguments: [TokenClientError.Kind.unreachable, .timedOut, .invalidResponse])
    func failed(_ kind: TokenClientError.Kind) {
        var script = RefreshScenario(held: 1)
        script.read("a")
        #expect(script.notRefreshed(kind) == "unavailable \(kind), release 1")
    }

    @Test("that was rejected uses tokens that were obtained elsewhere in the meantime")
    func rejectedButRefreshed() {
        var script = RefreshScenario(held: 1)
        script.read("a")
        script.notRefreshed(.rejected)
        #expect(script.rejected(.versionConflict) == "read")
        #expect(script.read("b", version: 2) == "coalesced b, release 1")
    }

    @Test("that was rejected ends a newer version of the session if the tokens are the same")
    func rejectedAndResealed() {
        var script = RefreshScenario(held: 1)
        script.read("a")
        script.notRefreshed(.rejected)
        script.rejected(.versionConflict)
        #expect(script.read("a", version: 2) == "reject 2 under 1")
        #expect(script.rejected(.ended) == "rejected, release 1")
    }

    @Test("that was rejected after the session ended reports why it ended")
    func rejectedAndGone() {
        var script = RefreshScenario(held: 1)
        script.read("a")
        script.notRefreshed(.rejected)
        #expect(script.rejected(.notFound) == "read")
        #expect(script.readNone(.revoked) == "ended revoked, release 1")
    }

    @Test("that was rejected does not try to end a session indefinitely")
    func rejectedForEver() {
        var script = RefreshScenario(held: 1)
        script.read("a")
        script.notRefreshed(.rejected)
        for version in 2...8 as ClosedRange<UInt64> {
            #expect(script.rejected(.versionConflict) == "read")
            script.read("a", version: version)
        }
        #expect(script.rejected(.versionConflict) == "store unavailable, release 1")
    }

    @Test("gives up if the store fails before a token was spent")
    func storeFails() {
        var leasing = RefreshScenario()
        #expect(leasing.storeFailed() == "store unavailable")
        var reading = RefreshScenario(held: 1)
        var unknown = reading
        #expect(reading.storeFailed() == "store unavailable, release 1")
        #expect(unknown.readUnknown() == "store unavailable, release 1")
        var rejecting = RefreshScenario(held: 1)
        rejecting.read("a")
        rejecting.notRefreshed(.rejected)
        #expect(rejecting.storeFailed() == "store unavailable, release 1")
    }
}
