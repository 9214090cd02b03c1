import TestSupport
import Testing

@testable import CloakroomCore

private let second: UInt64 = 1_000_000_000

@Suite("Address set")
struct AddressSetTests {
    private func v4(_ numbers: Int...) -> [AddressSet.Address] {
        numbers.map { AddressSet.Address("10.0.0.\($0)", .version4) }
    }

    private func v6(_ numbers: Int...) -> [AddressSet.Address] {
        numbers.map { AddressSet.Address("fd00::\($0)", .version6) }
    }

    @Test("Errors and empty responses keep the old set, however long they last")
    func failures() {
        var set = AddressSet(keep: .seconds(120))
        expect(set.update(.failed, now: 0) == false && set.addresses.isEmpty && set.respondedAt == nil)
        let isChanged1 = set.update(.addresses(v4(1, 2)), now: second)
        expect(isChanged1)
        for response in [AddressSet.Response.failed, .addresses([])] {
            let isChanged2 = set.update(response, now: 86_400 * second)
            expect(!isChanged2)
            expect(set.addresses == v4(1, 2) && set.respondedAt == second)
        }
    }

    @Test("A removed address is kept for a time after it was last in a response")
    func keep() {
        var set = AddressSet(keep: .seconds(120))
        _ = set.update(.addresses(v4(1, 2)), now: 0)
        let isChanged1 = set.update(.addresses(v4(2, 1)), now: 30 * second)
        expect(!isChanged1)
        expect(set.update(.addresses(v4(2, 3)), now: 60 * second) && set.addresses == v4(1, 2, 3))
        let isChanged2 = set.update(.addresses(v4(2, 3)), now: 149 * second)
        expect(!isChanged2)
        expect(set.update(.addresses(v4(2, 3)), now: 150 * second) && set.addresses == v4(2, 3))
        var none = AddressSet(keep: .zero)
        _ = none.update(.addresses(v4(1)), now: 0)
        _ = none.update(.addresses(v4(2)), now: 0)
        expect(none.addresses, equals: v4(2))
    }

    @Test("Addresses of one family are used: the preferred one, then the one that connects")
    func families() {
        var set = AddressSet(keep: .seconds(120))
        _ = set.update(.addresses(v6(1) + v4(1, 2)), now: 0)
        expect(set.addresses, equals: v6(1))
        // The order of a later response does not change the family.
        let isChanged = set.update(.addresses(v4(1, 2) + v6(1)), now: second)
        expect(!isChanged)
        set.connected(.version4)
        expect(set.update(.addresses(v6(1) + v4(1, 2)), now: 2 * second) && set.addresses == v4(1, 2))
        // Without addresses of it, the other one is used.
        expect(set.update(.addresses(v6(1)), now: 3 * second) && set.addresses == v6(1))
        expect(set.update(.addresses(v6(1) + v4(1)), now: 4 * second) && set.addresses == v4(1))
        set.familyFailed()
        expect(set.update(.addresses(v6(1) + v4(1)), now: 5 * second) && set.addresses == v6(1))
        var empty = AddressSet(keep: .zero)
        empty.familyFailed()
        expect(empty.update(.addresses(v4(1)), now: 0) && empty.addresses == v4(1))
    }

    @Test("The number of addresses is limited, and current ones replace those that are only kept")
    func capacity() {
        var set = AddressSet(keep: .seconds(120), capacity: 2)
        _ = set.update(.addresses(v4(1, 1, 2, 3)), now: 0)
        expect(set.addresses, equals: v4(1, 2))
        _ = set.update(.addresses(v4(3, 2)), now: second)
        expect(set.addresses, equals: v4(2, 3))
        _ = set.update(.addresses(v4(4, 3, 2)), now: 2 * second)
        expect(set.addresses, equals: v4(2, 3))
    }
}
