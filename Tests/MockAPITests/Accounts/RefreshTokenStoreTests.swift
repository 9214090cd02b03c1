import FoundationEssentials
import TestSupport
import Testing

@testable import MockAPI

struct RefreshTokenStoreTests {
    private let now = Date(timeIntervalSince1970: 1_750_000_000)

    private func successor(_ rotation: RefreshTokenStore.Rotation) throws -> String {
        guard case .rotated(let token, "usr_1") = rotation else {
            throw Unexpected()
        }
        return token
    }

    private struct Unexpected: Error {}

    @Test("expiry depends on the issue of the token, not of its family")
    func expiry() throws {
        var ledger = RefreshTokenStore(lifetime: .seconds(60))
        let first = ledger.issue(to: "usr_1", now: now)
        let second = try successor(ledger.rotate(first, now: now.addingTimeInterval(59)))
        let third = try successor(ledger.rotate(second, now: now.addingTimeInterval(118)))
        expect(ledger.rotate(third, now: now.addingTimeInterval(178)), equals: .rejected)
    }

    @Test("expired tokens are deleted when the ledger grows, and valid ones are kept")
    func sweep() throws {
        var ledger = RefreshTokenStore(lifetime: .seconds(60))
        let old = ledger.issue(to: "usr_1", now: now)
        for _ in 0..<1022 { _ = ledger.issue(to: "usr_1", now: now) }
        let late = now.addingTimeInterval(60)
        let living = ledger.issue(to: "usr_1", now: late)
        _ = ledger.issue(to: "usr_1", now: late)
        expect(ledger.revoke(old), equals: false)
        #expect(throws: Never.self) { try successor(ledger.rotate(living, now: late)) }
    }
}
