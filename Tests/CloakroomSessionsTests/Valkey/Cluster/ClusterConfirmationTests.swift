import NIOCore
import TestSupport
import Testing

@testable import CloakroomSessions

@Suite("The confirmation of a cluster's servers by a majority")
struct ClusterConfirmationTests {
    @Test("Confirmations are counted about once in two seconds for each server, and never while they are too few")
    func countedConfirmations() {
        let count = ClusterTopology.maximumLinks
        let share = HashSlot.count / count
        let view = (0..<count).map { ($0 * share..<($0 + 1) * share, $0 + 1) }
        var cluster = ModelCluster(view)
        cluster.advance(.seconds(2))
        let before = cluster.topology.countedMajorities
        cluster.advance(.seconds(4))
        expect(cluster.areTrusted(HashSlot.all))
        expect((count..<4 * count).contains(cluster.topology.countedMajorities - before))
        // Half of the servers contradict the other half about one slot of each of these.
        let other = (0..<count).flatMap { index -> [(Range<Int>, Int)] in
            let slots = index * share..<(index + 1) * share
            guard index < count / 2 else { return [(slots, index + 1)] }
            return [(slots.lowerBound..<slots.lowerBound + 1, index + 2), (slots.dropFirst(), index + 1)]
        }
        cluster.report(other, by: Array(count / 2 + 1...count))
        cluster.advance(.seconds(5))
        expect(cluster.routes[0..<HashSlot.count / 2].allSatisfy { $0 == .inDoubt })
        expect(cluster.areTrusted(HashSlot.count / 2..<HashSlot.count))
        let doubted = cluster.topology.countedMajorities
        cluster.advance(.seconds(2))
        #expect(cluster.topology.countedMajorities - doubted < 2 * count)
    }

    @Test("A server that a majority has not confirmed for 3 s is neither used nor trusted")
    func doubt() {
        var cluster = ModelCluster.ready()
        // Separated from the others, and not aware of it.
        cluster.servers[2]?.view = [(ModelCluster.second, 2), (ModelCluster.third, 3)]
        cluster.servers[3]?.view = [(ModelCluster.second, 2), (ModelCluster.third, 3)]
        cluster.advance(.milliseconds(1_500))
        expect(cluster.areTrusted(ModelCluster.first))
        cluster.advance(.seconds(3))
        expect(cluster.routes[ModelCluster.first].allSatisfy { $0 == .inDoubt })
        expect(!cluster.trusted[ModelCluster.first].contains(true))
        expect(cluster.areTrusted(ModelCluster.second) && cluster.areTrusted(ModelCluster.third))
        cluster.report(ModelCluster.thirds, by: 2, 3)
        cluster.advance(.seconds(3))
        expect(cluster.areTrusted(HashSlot.all))
    }

    @Test("A confirmation counts from when its question was sent")
    func lateConfirmation() {
        var cluster = ModelCluster.ready()
        for port in 1...3 { cluster.servers[port]?.replies = false }
        cluster.advance(.milliseconds(2_900))
        // Replies to questions that were sent long ago.
        for port in 1...3 {
            guard let server = cluster.servers[port], let report = ModelCluster.report(server) else { continue }
            cluster.perform(cluster.topology.answered(ModelCluster.address(port), report, now: cluster.now))
        }
        cluster.advance(.milliseconds(1_500))
        expect(!cluster.trusted.contains(true))
    }

    @Test("Time that passes unnoticed ends the trust")
    func pause() {
        var cluster = ModelCluster.ready()
        cluster.perform(cluster.topology.tick(now: cluster.now + .seconds(10)))
        for slots in [ModelCluster.first, ModelCluster.second, ModelCluster.third] {
            expect(cluster.actions.contains(.distrust([slots])))
        }
    }

    @Test("A primary that comes back is used only after a majority has confirmed it since")
    func confirmedAfterReconnect() {
        var cluster = ModelCluster.ready()
        cluster.lose(1, isReachable: true)
        // The others know of a failover that the old server does not know yet.
        cluster.report(ModelCluster.afterFailover, by: 2, 3)
        cluster.servers[4] = ModelCluster.Server(isReachable: false, view: ModelCluster.afterFailover)
        cluster.advance(.seconds(5))
        expect((0..<5_461).allSatisfy { cluster.port(of: $0) == nil })
        expect(!cluster.trusted[ModelCluster.first].contains(true))
        cluster.servers[4]?.isReachable = true
        cluster.advance(.seconds(6))
        expect(cluster.port(of: 0), equals: 4)
        expect(cluster.areTrusted(HashSlot.all))
    }
}
