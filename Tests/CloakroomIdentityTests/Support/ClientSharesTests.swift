import Testing

@testable import CloakroomCore
@testable import CloakroomIdentity

@Suite("Shares of clients")
struct ClientSharesTests {
    private func take(_ client: String, _ shares: ClientShares) -> Int {
        var count = 0
        while shares.take(RateKey(peer: client)) { count += 1 }
        return count
    }

    @Test("A client has its share at most, and never more places than are free")
    func free() {
        let shares = ClientShares(12, ofClient: 4)
        let clients = ["192.0.2.1", "192.0.2.2", "192.0.2.3", "socket", "2001:db8::1", "192.0.2.6"]
        let counts = clients.map { take($0, shares) }
        #expect(counts == [4, 4, 2, 1, 1, 0])
        for (client, count) in zip(clients, counts) {
            #expect(shares[RateKey(peer: client)] == count)
            for _ in 0..<count { shares.release(RateKey(peer: client)) }
        }
        #expect(shares.count == 0 && take("192.0.2.6", shares) == 4)
    }

    @Test("The /64 of an IPv6 address is one client, and its /48 has four times the share")
    func networks() {
        let shares = ClientShares(100, ofClient: 4)
        #expect(take("2001:db8::1", shares) == 4 && take("2001:db8::2", shares) == 0)
        #expect((1...5).map { take("2001:db8:0:\($0)::1", shares) } == [4, 4, 4, 0, 0])
        #expect(shares[RateKey(peer: "2001:db8:0:9::1")] == 16)
        #expect(take("2001:db8:1::1", shares) == 4)
    }

    @Test("However much other networks ask for, another one finds places")
    func newcomer() {
        for kind in ["192.0.2.", "2001:db8:"] {
            let shares = ClientShares()
            for _ in 0..<200 {
                for network in 0..<50 where kind == "192.0.2." { _ = shares.take(RateKey(peer: "\(kind)\(network)")) }
                for index in 0..<500 where kind != "192.0.2." {
                    _ = shares.take(RateKey(peer: "\(kind)\(index / 10):\(index % 10)::1"))
                }
            }
            // Of 51 equal parts of 1,000.
            #expect(take("198.51.100.1", shares) >= 6)
        }
        // One client after the other takes all that it can get.
        let shares = ClientShares()
        let counts = (1...17).map { take("192.0.2.\($0)", shares) }
        #expect(counts[8...] == [100, 50, 25, 13, 6, 3, 2, 1, 0])
    }
}
