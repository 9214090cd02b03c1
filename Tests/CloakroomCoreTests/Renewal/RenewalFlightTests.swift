import CloakroomCore
import Testing

@Suite("A renewal")
struct TokenRefreshStateMachineTests {
    @Test("takes the lease, reads the session again, spends the token, and keeps what it brought")
    func allWell() {
        var script = RefreshScenario()
        #expect(script.last == "lease")
        #expect(script.held(1) == "read")
        #expect(script.read("a") == "renew a")
        #expect(script.refreshed("b") == "save b over 1 under 1")
        #expect(script.saved(.saved(RefreshScenario.session("b", version: 2))) == "renewed b, release 1")
    }

    @Test("spends the token of the session that it read, over the version that it read")
    func readUnderLease() {
        var script = RefreshScenario()
        script.held(4)
        #expect(script.read("a", version: 7) == "renew a")
        #expect(script.refreshed("b") == "save b over 7 under 4")
    }

    @Test("spends nothing if the session that it reads under the lease has other tokens")
    func coalescedUnderLease() {
        var script = RefreshScenario()
        script.held(2)
        #expect(script.read("b", version: 2) == "coalesced b, release 2")
    }

    @Test(
        "of a session that has ended does nothing", arguments: [UnauthorizedReason.revoked, .expiredIdle, .noSession])
    func ended(_ reason: UnauthorizedReason) {
        var script = RefreshScenario()
        #expect(script.leased(.notFound) == "read")
        #expect(script.readNone(reason) == "ended \(reason)")
    }

    @Test("gives the lease back if the session ended before it was read")
    func endedUnderLease() {
        var script = RefreshScenario()
        script.held(3)
        #expect(script.readNone(.revoked) == "ended revoked, release 3")
    }

    @Test("of a session that the store finds after all asks for the lease again")
    func foundAfterAll() {
        var script = RefreshScenario()
        script.leased(.notFound)
        #expect(script.read("a") == "lease")
    }

    // MARK: - Somebody else's lease

    @Test("waits while somebody else holds the lease, and takes what they got")
    func waitsForAnother() {
        var script = RefreshScenario()
        #expect(script.leased(.heldByOther) == "wait 50")
        #expect(script.waited() == "read")
        #expect(script.read("b", version: 2) == "coalesced b")
    }

    @Test("takes the lease once it is free, and reads again under it")
    func takesFreedLease() {
        var script = RefreshScenario()
        script.leased(.heldByOther)
        script.waited()
        #expect(script.read("a") == "lease")
        #expect(script.held(2) == "read")
        #expect(script.read("a") == "renew a")
    }

    @Test("waits no longer than it may")
    func leaseTimeout() {
        var script = RefreshScenario()
        script.leased(.heldByOther)
        script.pass(.seconds(15))
        script.waited()
        #expect(script.read("a") == "lease")
        script.pass(.seconds(1))
        #expect(script.leased(.heldByOther) == "lease timeout")
    }

    @Test("that has waited too long asks for no lease any more, and still takes what there is")
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

    @Test("spends nothing if the call might not be over before the lease is")
    func callDoesNotFit() {
        var script = RefreshScenario()
        script.held(1)
        script.pass(.seconds(5))
        #expect(script.read("a") == "store unavailable, release 1")
    }

    @Test("spends the token if the call just fits")
    func callFits() {
        var script = RefreshScenario()
        script.held(1)
        script.pass(.milliseconds(4_999))
        #expect(script.read("a") == "renew a")
    }

    @Test("counts the lease's time from when it was asked for, not from when it came")
    func leaseAskedAt() {
        var script = RefreshScenario()
        script.pass(.seconds(6))
        script.held(1)
        #expect(script.read("a") == "store unavailable, release 1")
    }

    @Test("counts the time of a lease from when that one was asked for")
    func secondLeaseAskedAt() {
        var script = RefreshScenario()
        script.leased(.heldByOther)
        script.pass(.seconds(12))
        script.waited()
        script.read("a")
        script.held(2)
        #expect(script.read("a") == "renew a")
    }

    // MARK: - Refusals and failures

    @Test("ends the session if the upstream refuses for good")
    func rejected() {
        var script = RefreshScenario()
        script.held(1)
        script.read("a", version: 5)
        #expect(script.notRefreshed(.rejected) == "reject 5 under 1")
        #expect(script.rejected(.ended) == "rejected, release 1")
    }

    @Test(
        "leaves the session alone if the upstream only fails",
        arguments: [TokenClientError.Kind.unreachable, .timedOut, .invalidResponse])
    func failed(_ kind: TokenClientError.Kind) {
        var script = RefreshScenario()
        script.held(1)
        script.read("a")
        #expect(script.notRefreshed(kind) == "unavailable \(kind), release 1")
    }

    @Test("that was refused takes what somebody else has got meanwhile")
    func rejectedButRefreshed() {
        var script = RefreshScenario()
        script.held(1)
        script.read("a")
        script.notRefreshed(.rejected)
        #expect(script.rejected(.versionConflict) == "read")
        #expect(script.read("b", version: 2) == "coalesced b, release 1")
    }

    @Test("that was refused ends the session over its new version, if the tokens are the same ones")
    func rejectedAndResealed() {
        var script = RefreshScenario()
        script.held(1)
        script.read("a")
        script.notRefreshed(.rejected)
        script.rejected(.versionConflict)
        #expect(script.read("a", version: 2) == "reject 2 under 1")
        #expect(script.rejected(.ended) == "rejected, release 1")
    }

    @Test("that was refused after the session ended says how it ended")
    func rejectedAndGone() {
        var script = RefreshScenario()
        script.held(1)
        script.read("a")
        script.notRefreshed(.rejected)
        #expect(script.rejected(.notFound) == "read")
        #expect(script.readNone(.revoked) == "ended revoked, release 1")
    }

    @Test("that was refused does not try to end a session for ever")
    func rejectedForEver() {
        var script = RefreshScenario()
        script.held(1)
        script.read("a")
        script.notRefreshed(.rejected)
        for version in 2...8 as ClosedRange<UInt64> {
            #expect(script.rejected(.versionConflict) == "read")
            script.read("a", version: version)
        }
        #expect(script.rejected(.versionConflict) == "store unavailable, release 1")
    }

    @Test("gives up if the store fails before anything was spent")
    func storeFails() {
        var leasing = RefreshScenario()
        #expect(leasing.storeFailed() == "store unavailable")
        var reading = RefreshScenario()
        reading.held(1)
        var unknown = reading
        #expect(reading.storeFailed() == "store unavailable, release 1")
        #expect(unknown.readUnknown() == "store unavailable, release 1")
        var rejecting = RefreshScenario()
        rejecting.held(1)
        rejecting.read("a")
        rejecting.notRefreshed(.rejected)
        #expect(rejecting.storeFailed() == "store unavailable, release 1")
    }
}
