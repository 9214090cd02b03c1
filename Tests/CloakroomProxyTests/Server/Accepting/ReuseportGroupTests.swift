import CloakroomCore
import NIOCore
import TestSupport
import Testing

@testable import CloakroomProxy

@Suite("The sockets that listen on an address")
struct ReuseportGroupTests {
    private static let table = """
          sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
           0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 645 1 0 100 0 0 10 0
           1: 00000000:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 646 1 0 100 0 0 10 0
           2: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 647 1 0 100 0 0 10 0
           3: 0100007F:1F90 0100007F:D705 01 00000000:00000000 03:00001644 00000000     0        0 648 3 0
           4: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 649 1 0 100 0 0 10 0
        """

    @Test("Only the listening sockets of the socket table are read")
    func table() {
        expect(ReuseportGroup.members(at: "0100007F:1F90", in: Self.table), equals: [645, 647])
        expect(ReuseportGroup.members(at: "00000000:1F90", in: Self.table), equals: [646])
        expect(ReuseportGroup.members(at: "00000000:1F91", in: Self.table), equals: [])
        expect(ReuseportGroup.members(at: "0100007F:1F90", in: "no table"), equals: [])
    }

    @Test(
        "An address is formatted as in the socket table",
        arguments: [
            ("127.0.0.1", 8_080, "0100007F:1F90"), ("0.0.0.0", 80, "00000000:0050"),
            ("::1", 8_443, "00000000000000000000000001000000:20FB"),
            ("2001:db8::7", 65_535, "B80D0120000000000000000007000000:FFFF"),
        ])
    func names(address: String, port: Int, name: String) throws {
        let bytes = try require(IPAddress.bytes(of: address))
        expect(ReuseportGroup.name(bytes, port: port), equals: name)
    }

    @Test("The kernel's socket table contains the listening sockets")
    func system() async throws {
        try await GatewaySetup().run { gateway in
            let address = try SocketAddress(ipAddress: "127.0.0.1", port: gateway.port)
            let members = ReuseportGroup.members(at: address)
            expect(members.count, equals: 1)
            let second = GatewaySetup().with(\.sharesListeners, true).configuration {
                $0.listeners[0].address.port = gateway.port
            }
            try await second.run { _ in
                let both = ReuseportGroup.members(at: address)
                expect(both.count, equals: 2)
                expect(both.isSuperset(of: members))
            }
            expect(ReuseportGroup.members(at: address), equals: members)
        }
    }
}
