import NIOCore
import TestSupport
import Testing

@testable import CloakroomSessions

/// Slots that move to another server, and the reports of other servers at the same time.
@Suite("Redirections in the topology of a cluster")
struct ClusterTopologyRedirectionTests {
    @Test("The owner of a slot redirects: the slot is not trusted before it moves, and no other slot changes")
    func move() {
        var cluster = ModelCluster.ready()
        cluster.advance(.seconds(40))
        cluster.forgetActions()
        cluster.moved(7, to: 2, by: 1)
        expect(cluster.actions.first, equals: .distrust([7..<8]))
        expect(cluster.port(of: 7), equals: 2)
        expect(cluster.trusted[7])
        // A plain move between two primaries loses nothing.
        expect(empty: cluster.restorations)
        expect(cluster.actions.contains(.trust([7..<8], afterOutage: false)))
        expect(cluster.port(of: 6) == 1 && cluster.port(of: 8) == 1)
        // Reports that the others send later, because they do not know yet, do not move it back.
        cluster.report(ModelCluster.moved(7..<8, to: 2), by: 1, 2)
        cluster.advance(.seconds(2))
        expect(cluster.port(of: 7), equals: 2)
    }

    @Test("A redirection by a server that does not have the slot changes nothing")
    func foreignMove() {
        var cluster = ModelCluster.ready()
        cluster.moved(7, to: 3, by: 2)
        cluster.moved(7, to: 1, by: 1)
        cluster.moved(7, to: 3, by: 9)
        cluster.moved(99_999, to: 3, by: 1)
        cluster.asking(7, to: 3, by: 2)
        expect(empty: cluster.actions)
        expect(cluster.port(of: 7), equals: 1)
    }

    @Test("A primary that was demoted redirects to a server that was no primary: its slots are restored")
    func demotion() {
        var cluster = ModelCluster.ready()
        cluster.servers[4] = ModelCluster.Server(view: ModelCluster.afterFailover)
        cluster.moved(7, to: 4, by: 1)
        expect(cluster.restorations.map(\.port), equals: [4])
        expect(cluster.port(of: 7), equals: 4)
        cluster.report(ModelCluster.afterFailover, by: 1, 2, 3)
        cluster.advance(.seconds(2))
        expect((0..<5_461).allSatisfy { cluster.port(of: $0) == 4 })
        expect(cluster.restorations.allSatisfy { $0.port == 4 })
        expect(Set(cluster.restorations.flatMap { $0.slots.joined() }), equals: Set(0..<5_461))
        expect(cluster.actions.contains { if case .trust(_, true) = $0 { true } else { false } })
        expect(cluster.areTrusted(HashSlot.all))
    }

    @Test("What a primary itself reports about its slots counts as a redirection")
    func reportedMove() {
        var cluster = ModelCluster.ready()
        cluster.advance(.seconds(40))
        let moved = ModelCluster.moved(0..<100, to: 2)
        cluster.report(moved, by: 1)
        cluster.advance(.seconds(2))
        // The other one does not know yet. Its redirections are followed; data of these slots is not trusted.
        expect(cluster.port(of: 0), equals: 1)
        expect(!cluster.trusted[0..<100].contains(true))
        expect(cluster.areTrusted(100..<16_384))
        cluster.report(moved, by: 2)
        cluster.advance(.seconds(2))
        expect((0..<100).allSatisfy { cluster.port(of: $0) == 2 })
        expect(cluster.port(of: 100), equals: 1)
        cluster.report(moved, by: 3)
        cluster.advance(.seconds(5))
        expect(cluster.areTrusted(HashSlot.all))
    }

    @Test("A slot that is being moved is used, and not trusted until 2 s after the last redirection")
    func asking() {
        var cluster = ModelCluster.ready()
        cluster.asking(7, to: 2, by: 1)
        expect(cluster.actions.first, equals: .distrust([7..<8]))
        expect(cluster.port(of: 7), equals: 1)
        cluster.advance(.milliseconds(1_500))
        cluster.asking(7, to: 2, by: 1)
        cluster.advance(.milliseconds(1_500))
        expect(!cluster.trusted[7])
        expect(cluster.trusted[6])
        cluster.advance(.milliseconds(600))
        expect(cluster.trusted[7])
    }

    @Test("A slot is moved to a server that has none yet: it is connected to")
    func askingNewServer() {
        var cluster = ModelCluster.ready()
        cluster.servers[5] = ModelCluster.Server(view: ModelCluster.thirds)
        cluster.asking(7, to: 5, by: 1)
        expect(cluster.links.contains(5))
        cluster.advance(.seconds(70))
        expect(!cluster.links.contains(5))
    }

    @Test("A redirection to an unknown server: the slot is not trusted, and all primaries are asked for its owner")
    func unknownTarget() {
        var cluster = ModelCluster.ready()
        cluster.advance(.seconds(40))
        cluster.forgetActions()
        for other in [2, 9] { cluster.movedToUnknown(7, by: other) }
        expect(empty: cluster.actions)
        cluster.movedToUnknown(7, by: 1)
        expect(cluster.actions, equals: [.distrust([7..<8])])
        expect(cluster.port(of: 7) == 1 && cluster.trusted[6])
        cluster.advance(.milliseconds(100))
        let questions = (1...3).map { cluster.questions(to: $0) }
        expect(questions.allSatisfy { $0 >= 1 }, "\(questions)")
        // They name no other server: it was moved back, or the redirection was a lie.
        cluster.advance(.milliseconds(1_500))
        expect(!cluster.trusted[7])
        cluster.advance(.seconds(1))
        expect(cluster.trusted[7])
        cluster.movedToUnknown(7, by: 1)
        cluster.report(ModelCluster.moved(7..<8, to: 2), by: 1, 2, 3)
        cluster.advance(.milliseconds(500))
        expect(cluster.port(of: 7), equals: 2)
        expect(cluster.trusted[7])
    }

    @Test("A redirection asks all primaries soon")
    func asksAll() {
        var cluster = ModelCluster.ready()
        cluster.advance(.seconds(30))
        cluster.forgetActions()
        cluster.moved(7, to: 2, by: 1)
        cluster.advance(.milliseconds(100))
        let questions = (1...3).map { cluster.questions(to: $0) }
        expect(questions.allSatisfy { $0 >= 1 }, "\(questions)")
    }

    @Test("Reports that were requested before a redirection, or shortly after it, do not count against its target")
    func staleReports() {
        var cluster = ModelCluster.ready()
        cluster.advance(.seconds(40))
        cluster.forgetActions()
        cluster.moved(7, to: 2, by: 1)
        expect(cluster.trusted[7])
        // The servers learn of the move after 150 ms; all have been asked before.
        cluster.advance(.milliseconds(150))
        expect((1...3).allSatisfy { cluster.questions(to: $0) >= 1 })
        expect(!cluster.actions.contains { if case .distrust(let slots) = $0 { slots != [7..<8] } else { false } })
        expect(cluster.port(of: 7), equals: 2)
        // What they report later does count: the slot was given back without a further redirection.
        cluster.advance(.seconds(3))
        expect(cluster.port(of: 7), equals: 1)
        expect(cluster.areTrusted(HashSlot.all))
    }

    @Test("One redirected slot does not confirm the other slots of its target, and is used when these are confirmed")
    func unconfirmedTarget() {
        var cluster = ModelCluster.ready()
        // The others do not know the server 2 any more.
        for port in 1...3 {
            cluster.servers[port]?.view = port == 2 ? ModelCluster.thirds : [(0..<5_461, 1), (10_923..<16_384, 3)]
        }
        cluster.advance(.seconds(5))
        expect(cluster.routes[6_000], equals: .inDoubt)
        cluster.moved(7, to: 2, by: 1)
        expect(cluster.routes[7], equals: .wait)
        expect(cluster.routes[6_000], equals: .inDoubt)
        expect(!cluster.trusted[6_000])
        cluster.report(ModelCluster.moved(7..<8, to: 2), by: 1, 2, 3)
        cluster.advance(.seconds(4))
        expect(cluster.port(of: 7), equals: 2)
        expect(cluster.areTrusted(HashSlot.all))
    }

    @Test("Redirections to ever new servers are bounded")
    func manyServers() {
        var cluster = ModelCluster.ready()
        for port in 10..<1_000 { cluster.asking(7, to: port, by: 1) }
        let connected = cluster.actions.count { if case .connect = $0 { true } else { false } }
        expect(connected, equals: ClusterTopology.maximumAdditions)
        cluster.advance(.milliseconds(1_100))
        cluster.forgetActions()
        cluster.asking(7, to: 999, by: 1)
        expect(cluster.connections(to: 999), equals: 1)
        cluster.forgetActions()
        cluster.moved(7, to: 2, by: 1)
        expect(cluster.port(of: 7), equals: 2)
    }
}
