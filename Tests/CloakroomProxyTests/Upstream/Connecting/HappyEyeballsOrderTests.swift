import TestSupport
import Testing

@testable import CloakroomProxy

@Suite("The order in which addresses are tried")
struct HappyEyeballsOrderTests {
    private func order(_ addresses: [String], turn: Int) -> [String] {
        HappyEyeballsOrder.make(addresses, turn: turn) { $0.hasPrefix("6") }
    }

    @Test("Families alternate, beginning with the address whose turn it is (RFC 8305 §4)")
    func alternates() {
        let addresses = ["6a", "6b", "4a", "4b", "4c"]
        expect(order(addresses, turn: 0), equals: ["6a", "4a", "6b", "4b", "4c"])
        expect(order(addresses, turn: 1), equals: ["6b", "4a", "6a", "4b", "4c"])
        expect(order(addresses, turn: 2), equals: ["4a", "6a", "4b", "6b", "4c"])
        expect(order(addresses, turn: 4), equals: ["4c", "6a", "4a", "6b", "4b"])
        expect(order(addresses, turn: 5), equals: order(addresses, turn: 0))
    }

    @Test("Every address is first in its turn, and each order contains every address once")
    func complete() {
        let addresses = ["4a", "6a", "6b", "4b"]
        expect((0..<4).map { order(addresses, turn: $0)[0] }, equals: addresses)
        for turn in 0..<8 { expect(order(addresses, turn: turn).sorted(), equals: addresses.sorted()) }
    }

    @Test("Without addresses the order is empty, and one address is its own order")
    func few() {
        expect(order([], turn: 3), equals: [])
        expect(order(["4a"], turn: 3), equals: ["4a"])
    }
}
