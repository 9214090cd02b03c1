import NIOCore
import Testing

@testable import CloakroomSessions

/// A redirection, and the reports of other servers at the same time.
@Suite("Redirections in the topology of a cluster")
struct ClusterTopologyRedirectionTests {
    private func ready() -> ModelCluster {
        var cluster = ModelCluster()
        cluster.advance(.seconds(1))
        cluster.forgetActions()
        return cluster
    }

    @Test("A redirection asks all primaries soon")
    func asksAll() {
        var cluster = ready()
        cluster.advance(.seconds(30))
        cluster.forgetActions()
        cluster.moved(7, to: 2, by: 1)
        cluster.advance(.milliseconds(100))
        let questions = (1...3).map { cluster.questions(to: $0) }
        #expect(questions.allSatisfy { $0 >= 1 }, "\(questions)")
    }

    @Test("Reports that were requested before a redirection, or shortly after it, do not count against its target")
    func staleReports() {
        var cluster = ready()
        cluster.advance(.seconds(40))
        cluster.forgetActions()
        cluster.moved(7, to: 2, by: 1)
        let isTrusted = cluster.trusted[7]
        #expect(isTrusted)
        // The servers learn of the move after 150 ms; all have been asked before.
        cluster.advance(.milliseconds(150))
        #expect((1...3).allSatisfy { cluster.questions(to: $0) >= 1 })
        let wasLost = cluster.actions.contains { if case .distrust(let slots) = $0 { slots != [7..<8] } else { false } }
        #expect(!wasLost)
        #expect(cluster.port(of: 7) == 2)
        // What they report later does count: the slot was given back without a further redirection.
        cluster.advance(.seconds(3))
        #expect(cluster.port(of: 7) == 1)
        let areTrusted = cluster.areTrusted(HashSlot.all)
        #expect(areTrusted)
        #expect(cluster.violations.prefix(3).isEmpty)
    }

    @Test("One redirected slot does not confirm the other slots of its target, and is used when these are confirmed")
    func unconfirmedTarget() {
        var cluster = ready()
        // The others do not know the server 2 any more.
        for port in 1...3 {
            cluster.servers[port]?.view = port == 2 ? ModelCluster.thirds : [(0..<5_461, 1), (10_923..<16_384, 3)]
        }
        cluster.advance(.seconds(5))
        #expect(cluster.routes[6_000] == .inDoubt)
        cluster.moved(7, to: 2, by: 1)
        #expect(cluster.routes[7] == .wait)
        #expect(cluster.routes[6_000] == .inDoubt)
        #expect(!cluster.trusted[6_000])
        let moved = [(0..<7, 1), (7..<8, 2), (8..<5_461, 1), (5_461..<10_923, 2), (10_923..<16_384, 3)]
        cluster.report(moved, by: 1, 2, 3)
        cluster.advance(.seconds(4))
        #expect(cluster.port(of: 7) == 2)
        let areTrusted = cluster.areTrusted(HashSlot.all)
        #expect(areTrusted)
        #expect(cluster.violations.prefix(3).isEmpty)
    }

    @Test("Redirections to ever new servers are bounded")
    func manyServers() {
        var cluster = ready()
        for port in 10..<1_000 { cluster.asking(7, to: port, by: 1) }
        let connected = cluster.actions.count { if case .connect = $0 { true } else { false } }
        #expect(connected == ClusterTopology.maximumAdditions)
        cluster.advance(.milliseconds(1_100))
        cluster.forgetActions()
        cluster.asking(7, to: 999, by: 1)
        #expect(cluster.connections(to: 999) == 1)
        cluster.forgetActions()
        cluster.moved(7, to: 2, by: 1)
        #expect(cluster.port(of: 7) == 2)
    }
}
