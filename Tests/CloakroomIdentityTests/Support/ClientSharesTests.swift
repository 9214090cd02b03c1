import TestSupport
import Testing

@testable import CloakroomCore
@testable import CloakroomIdentity

extension ClientShares {
    /// How many places an IPv4 address gets alone.
    static func alone(of limit: Int = maxWaiting) -> Int { ClientShares(limit).takeAll("192.0.2.1") }

    /// - Returns: How many further places a client has got.
    func takeAll(_ client: String) -> Int {
        var count = 0
        while take(RateKey(peer: client)) { count += 1 }
        return count
    }
}

@Suite("Shares of clients")
struct ClientSharesTests {
    @Test("The share is smaller the fewer places are free and the more clients hold some, and grows again")
    func free() {
        let shares = ClientShares(30)
        let clients = [
            "192.0.2.1", "192.0.2.2", "192.0.2.3", "socket", "2001:db8::1", "192.0.2.6", "192.0.2.7", "192.0.2.8",
        ]
        let counts = clients.map { shares.takeAll($0) }
        expect(counts, equals: [10, 5, 3, 2, 1, 2, 1, 1])
        for (client, count) in zip(clients, counts) {
            expect(shares[RateKey(peer: client)], equals: count)
            for _ in 0..<count { shares.release(RateKey(peer: client)) }
        }
        expect(shares.count == 0 && shares.takeAll("192.0.2.6") == 10)
    }

    @Test("The /48 of an IPv6 address is one client, and a /64 has half of its share")
    func networks() {
        let shares = ClientShares(100)
        expect(shares.takeAll("2001:db8::1") == 20 && shares.takeAll("2001:db8::2") == 0)
        expect((1...5).map { shares.takeAll("2001:db8:0:\($0)::1") }, equals: [14, 0, 0, 0, 0])
        expect(shares[RateKey(peer: "2001:db8:0:9::1")], equals: 34)
        expect(shares.takeAll("2001:db8:1::1") > 0 && shares.takeAll("192.0.2.1") > 0)
    }

    @Test("Clients that all take what they can get leave half of the places", arguments: ["192.0.2.", "2001:db8:"])
    func newcomer(kind: String) {
        let shares = ClientShares()
        for index in 0..<10_000 {
            let other = kind.hasSuffix(".") ? "\(kind)\(index % 50)" : "\(kind)\(index % 50):\(index % 7)::1"
            _ = shares.take(RateKey(peer: other))
        }
        #expect(shares.count < 510)
        #expect(shares.takeAll("198.51.100.1") >= 9)
    }

    @Test("Of clients that take all they can get, one after the other, 77 hold all places")
    func greedy() {
        let shares = ClientShares()
        let counts = (1...100).map { shares.takeAll("192.0.2.\($0)") }
        expect(counts.prefix(5), equals: [334, 167, 100, 67, 48])
        expect(counts.count { $0 > 0 } == 77 && shares.count == 1_000)
    }
}
