import CloakroomCore
import TestSupport
import Testing

@Suite("A token refresh")
struct TokenRefreshStateMachineTests {
    private static let rejected: [RefreshScenario.Event] = [.held(1), .read("a"), .notRefreshed(.rejected)]

    private static let rows: [RefreshRow] = [
        RefreshRow(
            "acquires the lease, reads the session again, spends the token, and saves the new tokens",
            (.held(1), "read"), (.read("a"), "refresh a"),
            (.refreshed("b"), "save b over 1 under 1"), (.saved("b", version: 2), "refreshed b, release 1")),
        RefreshRow(
            "spends the token of the session that it read, and saves over that version", after: [.held(4)],
            (.read("a", version: 7), "refresh a"), (.refreshed("b"), "save b over 7 under 4")),
        RefreshRow(
            "spends no token if the session that it reads under the lease has other tokens", after: [.held(2)],
            (.read("b", version: 2), "coalesced b, release 2")),
        RefreshRow(
            "releases the lease if the session ended before it was read", after: [.held(3)],
            (.readNone(.revoked), "ended revoked, release 3")),
        RefreshRow(
            "of a session that the store finds after all requests the lease again", after: [.leased(.notFound)],
            (.read("a"), "lease")),
    ]

    private static let heldElsewhere: [RefreshRow] = [
        RefreshRow(
            "waits while the lease is held elsewhere, and uses the tokens of its holder",
            (.leased(.heldByOther), "wait 50"), (.waited, "read"), (.read("b", version: 2), "coalesced b")),
        RefreshRow(
            "acquires the lease once it is free, and reads again under it", after: [.leased(.heldByOther), .waited],
            (.read("a"), "lease"), (.held(2), "read"), (.read("a"), "refresh a")),
        RefreshRow(
            "waits no longer than the limit", after: [.leased(.heldByOther), .pass(.seconds(15)), .waited],
            (.read("a"), "lease"), (.pass(.seconds(1)), nil), (.leased(.heldByOther), "lease timeout")),
        RefreshRow(
            "that has waited too long requests no more leases",
            after: [.leased(.heldByOther), .pass(.seconds(16)), .waited], (.read("a"), "lease timeout")),
        RefreshRow(
            "that has waited too long still uses new tokens in the session",
            after: [.leased(.heldByOther), .pass(.seconds(16)), .waited], (.read("b"), "coalesced b")),
    ]

    private static let timeUnderLease: [RefreshRow] = [
        RefreshRow(
            "spends no token if the lease might expire before the call ends", after: [.held(1), .pass(.seconds(5))],
            (.read("a"), "store unavailable, release 1")),
        RefreshRow(
            "spends the token if the call just fits into the lease", after: [.held(1), .pass(.milliseconds(4_999))],
            (.read("a"), "refresh a")),
        RefreshRow(
            "counts the duration of a lease from the request, not from the reply",
            after: [.pass(.seconds(6)), .held(1)], (.read("a"), "store unavailable, release 1")),
        RefreshRow(
            "counts the duration of each lease from its own request",
            after: [.leased(.heldByOther), .pass(.seconds(12)), .waited, .read("a"), .held(2)],
            (.read("a"), "refresh a")),
    ]

    private static let rejections: [RefreshRow] = [
        RefreshRow(
            "ends the session if the upstream rejects the refresh token", after: [.held(1), .read("a", version: 5)],
            (.notRefreshed(.rejected), "reject 5 under 1"), (.rejected(.ended), "rejected, release 1")),
        RefreshRow(
            "that was rejected uses tokens that were obtained elsewhere in the meantime", after: rejected,
            (.rejected(.versionConflict), "read"), (.read("b", version: 2), "coalesced b, release 1")),
        RefreshRow(
            "that was rejected ends a newer version of the session if the tokens are the same",
            after: rejected + [.rejected(.versionConflict)],
            (.read("a", version: 2), "reject 2 under 1"), (.rejected(.ended), "rejected, release 1")),
        RefreshRow(
            "that was rejected after the session ended reports why it ended", after: rejected,
            (.rejected(.notFound), "read"), (.readNone(.revoked), "ended revoked, release 1")),
        RefreshRow("gives up if the store fails before it leases", (.storeFailed, "store unavailable")),
        RefreshRow(
            "gives up if the store fails before it reads", after: [.held(1)],
            (.storeFailed, "store unavailable, release 1")),
        RefreshRow(
            "gives up if the store does not know the session", after: [.held(1)],
            (.readUnknown, "store unavailable, release 1")),
        RefreshRow(
            "gives up if the store fails before it ends the session", after: rejected,
            (.storeFailed, "store unavailable, release 1")),
    ]

    @Test("follows each event by one action", arguments: rows + heldElsewhere + timeUnderLease + rejections)
    func action(_ row: RefreshRow) { row.run() }

    @Test(
        "of a session that has ended does nothing", arguments: [UnauthorizedReason.revoked, .expiredIdle, .noSession])
    func ended(_ reason: UnauthorizedReason) {
        RefreshRow("\(reason)", (.leased(.notFound), "read"), (.readNone(reason), "ended \(reason)")).run()
    }

    @Test(
        "does not change the session if the upstream only fails",
        arguments: [TokenClientError.Kind.unreachable, .timedOut, .invalidResponse])
    func failed(_ kind: TokenClientError.Kind) {
        RefreshRow(
            "\(kind)", after: [.held(1), .read("a")], (.notRefreshed(kind), "unavailable \(kind), release 1")
        ).run()
    }

    @Test("that was rejected does not try to end a session indefinitely")
    func rejectedForEver() {
        var script = RefreshScenario(after: Self.rejected)
        for version in 2...8 as ClosedRange<UInt64> {
            expect(script.on(.rejected(.versionConflict)), equals: "read")
            script.on(.read("a", version: version))
        }
        expect(script.on(.rejected(.versionConflict)), equals: "store unavailable, release 1")
    }
}
