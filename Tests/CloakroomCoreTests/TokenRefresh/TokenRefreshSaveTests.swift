import CloakroomCore
import TestSupport
import Testing

@Suite("A token refresh with unsaved tokens")
struct TokenRefreshSaveTests {
    /// A refresh has spent `a` under the first lease, received `b`, and returned the action to save it.
    private static let saving: [RefreshScenario.Event] = [.held(1), .read("a"), .refreshed("b")]

    private static let rows: [RefreshRow] = [
        RefreshRow(
            "saves them over a newer version if that has the old tokens", after: saving,
            (.notSaved(.versionConflict), "read"), (.read("a", version: 2), "save b over 2 under 1"),
            (.saved("b", version: 3), "refreshed b, release 1")),
        RefreshRow(
            "finds that they were saved if only the store's reply was lost", after: saving,
            (.storeFailed, "wait 100"), (.waited, "read"), (.read("b", version: 2), "refreshed b, release 1")),
        RefreshRow(
            "finds that they were saved if the save was executed twice", after: saving,
            (.notSaved(.versionConflict), "read"), (.read("b", version: 2), "refreshed b, release 1")),
        RefreshRow(
            "saves them again if the store did not receive them", after: saving + [.storeFailed, .waited],
            (.read("a"), "save b over 1 under 1")),
        RefreshRow(
            "with a stale lease uses the tokens of the later lease holder", after: saving,
            (.notSaved(.staleLease), "read"), (.read("c", version: 2), "coalesced c")),
        RefreshRow(
            "with a stale lease saves them under a new lease if the later holder got no tokens",
            after: saving + [.notSaved(.staleLease)],
            (.read("a"), "lease"), (.leased(.heldByOther), "wait 50"), (.waited, "read"), (.read("a"), "lease"),
            (.held(3), "read"), (.read("a", version: 4), "save b over 4 under 3"),
            (.saved("b", version: 5), "refreshed b, release 3")),
        RefreshRow(
            "returns them unused if the session ended in the meantime", after: saving,
            (.notSaved(.notFound), "read"), (.readNone(.revoked), "ended revoked, unused b")),
        RefreshRow(
            "returns them unused if the session ended while the store did not reply",
            after: saving + [.storeFailed, .waited], (.readNone(.revoked), "ended revoked, unused b, release 1")),
        RefreshRow(
            "returns them unused if the session ended while it waited for the lease",
            after: saving + [.notSaved(.staleLease), .read("a")],
            (.leased(.notFound), "read"), (.readNone(.expiredAbsolute), "ended expiredAbsolute, unused b")),
        RefreshRow(
            "waits longer than a refresh without unsaved tokens",
            after: saving + [.pass(.seconds(30)), .notSaved(.staleLease)],
            (.read("a"), "lease"), (.leased(.heldByOther), "wait 50"), (.pass(.seconds(31)), nil), (.waited, nil),
            (.read("a"), "lease timeout")),
        RefreshRow(
            "waits for a store that fails while the lease is requested again",
            after: saving + [.notSaved(.staleLease), .read("a")],
            (.storeFailed, "wait 200"), (.waited, "read"), (.read("a"), "lease")),
        RefreshRow(
            "may save after its lease expired if there is no later lease",
            after: saving + [.pass(.seconds(40)), .storeFailed, .waited], (.read("a"), "save b over 1 under 1")),
    ]

    @Test("follows each event by one action", arguments: rows)
    func action(_ row: RefreshRow) { row.run() }

    @Test("never spends a token a second time, regardless of the duration of a new lease")
    func spendsOnce() {
        var script = RefreshScenario(after: Self.saving + [.notSaved(.staleLease), .read("a"), .held(2)])
        for round in 0..<20 {
            expect(script.on(.read("a")), equals: "save b over 1 under 2")
            // A session that keeps changing is not requested again without a delay.
            guard round >= 6 else {
                expect(script.on(.notSaved(.versionConflict)), equals: "read")
                continue
            }
            expect(script.on(.notSaved(.versionConflict)), equals: "wait 1600")
            expect(script.on(.waited), equals: "read")
        }
    }

    @Test("retries with increasing delays while the store is unavailable, and then gives up")
    func keeping() {
        var script = RefreshScenario(after: Self.saving)
        for pause in [100, 200, 400, 800, 1_600, 1_600] {
            expect(script.on(.storeFailed), equals: "wait \(pause)")
            script.on(.pass(.milliseconds(pause)))
            script.on(.waited)
        }
        script.on(.pass(.seconds(56)))
        expect(script.on(.storeFailed), equals: "store unavailable, release 1")
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
