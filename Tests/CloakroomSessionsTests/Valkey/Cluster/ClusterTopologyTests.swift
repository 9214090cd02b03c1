import CloakroomCore
import NIOCore
import TestSupport
import Testing

@testable import CloakroomSessions

@Suite("The topology of a cluster")
struct ClusterTopologyTests {
    @Test("A seed names the primaries, which are connected to and confirm their slots")
    func start() {
        var cluster = ModelCluster()
        expect(cluster.port(of: 0), equals: nil)
        cluster.advance(.seconds(1))
        expect(cluster.links, equals: [1, 2, 3])
        expect([0, 5_460, 5_461, 10_923, 16_383].map { cluster.port(of: $0) }, equals: [1, 1, 2, 3, 3])
        expect(cluster.areTrusted(HashSlot.all))
        expect(empty: cluster.restorations)
        expect(cluster.actions.count { if case .askSeed = $0 { true } else { false } }, equals: 1)
        expect(!cluster.actions.contains { if case .trust(_, let afterOutage) = $0 { afterOutage } else { false } })
    }

    @Test("Seeds are tried in turn, and one of three primaries may be unreachable")
    func unreachableSeed() {
        var cluster = ModelCluster(seeds: [9, 1])
        cluster.servers[9]?.isReachable = false
        cluster.servers[3]?.isReachable = false
        cluster.advance(.seconds(1))
        expect(cluster.areTrusted(0..<10_923))
        expect(cluster.port(of: 16_383), equals: nil)
        cluster.servers[3]?.isReachable = true
        cluster.advance(.seconds(6))
        expect(cluster.areTrusted(HashSlot.all))
    }

    @Test("Slots of a primary that was unreachable at the start, or replaced before, are trusted as after an outage")
    func failureAtStart() {
        func outages(_ cluster: ModelCluster) -> Set<Int> {
            var slots: Set<Int> = []
            for case .trust(let ranges, afterOutage: true) in cluster.actions { slots.formUnion(ranges.joined()) }
            return slots
        }
        var cluster = ModelCluster(seeds: [2])
        cluster.servers[1]?.isReachable = false
        cluster.advance(.seconds(2))
        cluster.servers[1]?.isReachable = true
        cluster.advance(.seconds(6))
        expect(cluster.areTrusted(HashSlot.all))
        expect(Set(ModelCluster.first).isSubset(of: outages(cluster)))
        var other = ModelCluster(seeds: [2])
        other.servers[1]?.isReachable = false
        other.advance(.seconds(2))
        other.report(ModelCluster.afterFailover, by: 2, 3, 4)
        other.advance(.seconds(6))
        expect(other.port(of: 0), equals: 4)
        expect(Set(ModelCluster.first).isSubset(of: outages(other)))
        // A process that found no seed at first.
        var isolated = ModelCluster()
        for port in 1...3 { isolated.servers[port]?.isReachable = false }
        isolated.advance(.seconds(3))
        for port in 1...3 { isolated.servers[port]?.isReachable = true }
        isolated.advance(.seconds(8))
        expect(isolated.areTrusted(HashSlot.all))
        expect(outages(isolated), equals: Set(HashSlot.all))
    }

    @Test("What a seed reports is not used without a majority of the primaries that it names")
    func staleSeed() {
        var cluster = ModelCluster(seeds: [9])
        cluster.servers[9]?.view = [(0..<16_384, 8)]
        cluster.servers[8] = ModelCluster.Server(isReachable: false, view: [])
        cluster.advance(.seconds(5))
        expect((0..<16_384).allSatisfy { cluster.port(of: $0) == nil })
        expect(!cluster.trusted.contains(true))
        // Only one of three confirms.
        var other = ModelCluster()
        other.servers[2]?.isReachable = false
        other.servers[3]?.isReachable = false
        other.advance(.seconds(5))
        expect(!other.trusted.contains(true))
        expect(other.port(of: 0), equals: nil)
    }

    @Test("A primary is replaced in a cluster with as many primaries as are supported")
    func failoverOfManyPrimaries() {
        let count = ClusterTopology.maximumLinks
        let share = HashSlot.count / count
        var view = (0..<count).map { ($0 * share..<($0 + 1) * share, $0 + 1) }
        var cluster = ModelCluster(view)
        cluster.advance(.seconds(2))
        expect(cluster.areTrusted(HashSlot.all))
        cluster.lose(1)
        view[0].1 = count + 1
        cluster.report(view, by: Array(2...count + 1))
        cluster.advance(.seconds(6))
        expect(cluster.port(of: 0), equals: count + 1)
        expect(cluster.areTrusted(HashSlot.all))
    }

    @Test("A slot without a server is not used; the other slots of the server that had it are")
    func abandonedSlot() {
        var cluster = ModelCluster.ready()
        let without = [(0..<100, 1), (101..<5_461, 1), (ModelCluster.second, 2), (ModelCluster.third, 3)]
        cluster.report(without, by: 1, 2, 3)
        cluster.advance(.seconds(10))
        expect(cluster.port(of: 100), equals: nil)
        expect(!cluster.trusted[100])
        expect(cluster.areTrusted(0..<100) && cluster.areTrusted(101..<16_384))
        cluster.report(ModelCluster.thirds, by: 1, 2, 3)
        cluster.advance(.seconds(3))
        expect(cluster.port(of: 100), equals: 1)
        expect(cluster.areTrusted(HashSlot.all))
        // What was written to it before may be lost.
        expect(cluster.restorations.map(\.slots), equals: [[100..<101]])
    }

    @Test("Primaries are asked about once a second each, and never because of nothing")
    func questions() {
        var cluster = ModelCluster.ready()
        cluster.advance(.seconds(100))
        for port in 1...3 {
            expect((75...140).contains(cluster.questions(to: port)), "\(cluster.questions(to: port))")
        }
        expect(cluster.areTrusted(HashSlot.all))
        expect(!cluster.actions.contains { if case .ask = $0 { false } else { true } })
    }

    @Test("A lost link: its slots are not trusted and have no link; those of the others are not affected")
    func lostLink() {
        var cluster = ModelCluster.ready()
        cluster.lose(1)
        expect(cluster.actions.first, equals: .distrust([ModelCluster.first]))
        expect(cluster.actions.dropFirst().first, equals: .route([ModelCluster.first], .none))
        expect(!cluster.trusted[ModelCluster.first].contains(true))
        expect(cluster.areTrusted(ModelCluster.second) && cluster.areTrusted(ModelCluster.third))
        cluster.servers[1]?.isReachable = true
        cluster.advance(.seconds(2))
        expect(cluster.areTrusted(HashSlot.all))
        expect(cluster.restorations.map(\.port), equals: [1])
        expect(cluster.actions.contains(.trust([ModelCluster.first], afterOutage: true)))
    }

    @Test("A failover that a majority reports: the new server is restored first, then used, then trusted")
    func failover() throws {
        var cluster = ModelCluster.ready()
        cluster.restores = false
        cluster.lose(1)
        cluster.report(ModelCluster.afterFailover, by: 2, 3, 4)
        cluster.advance(.seconds(1))
        expect(cluster.restorations.map(\.port), equals: [4])
        expect(cluster.restorations.first?.slots, equals: [ModelCluster.first])
        expect(cluster.routes[0], equals: .wait)
        expect(!cluster.trusted[0])
        let number = try require(cluster.restorations.first?.number)
        cluster.restored(number)
        expect(cluster.port(of: 0), equals: 4)
        expect(cluster.areTrusted(HashSlot.all))
        expect(cluster.actions.contains(.trust([ModelCluster.first], afterOutage: true)))
        // The old server, now a replica, is not connected to any more.
        cluster.servers[1]?.isReachable = true
        cluster.servers[1]?.view = ModelCluster.afterFailover
        cluster.forgetActions()
        cluster.advance(.seconds(10))
        expect(cluster.connections(to: 1), equals: 0)
    }

    @Test("One of three primaries cannot change the owner of a slot of another one")
    func minority() {
        var cluster = ModelCluster.ready()
        cluster.lose(1)
        cluster.report(ModelCluster.afterFailover, by: 2, 4)
        cluster.advance(.seconds(10))
        expect(cluster.connections(to: 4), equals: 0)
        expect((0..<5_461).allSatisfy { cluster.port(of: $0) == nil })
    }

    @Test("A new server is connected to when it gets its first slot, and an empty one is disconnected later")
    func scaling() {
        var cluster = ModelCluster.ready()
        cluster.report(ModelCluster.moved(0..<100, to: 5), by: 1, 2, 3, 5)
        cluster.advance(.seconds(2))
        expect(cluster.port(of: 0), equals: 5)
        expect(cluster.areTrusted(HashSlot.all))
        cluster.report(ModelCluster.thirds, by: 1, 2, 3, 5)
        cluster.advance(.seconds(3))
        expect(cluster.port(of: 0), equals: 1)
        expect(cluster.links.contains(5))
        cluster.advance(.seconds(70))
        expect(cluster.links, equals: [1, 2, 3])
    }

    @Test("A loss during a restoration ends it, and the next link starts another one")
    func lossDuringRestoration() throws {
        var cluster = ModelCluster.ready()
        cluster.restores = false
        cluster.lose(1, isReachable: true)
        cluster.advance(.seconds(1))
        let number = try require(cluster.restorations.first?.number)
        cluster.lose(1, isReachable: true)
        cluster.restored(number)
        expect(cluster.port(of: 0), equals: nil)
        cluster.advance(.seconds(1))
        let next = try require(cluster.restorations.last?.number)
        expect(next != number)
        cluster.restored(next)
        expect(cluster.areTrusted(HashSlot.all))
    }

    @Test("Slots that change their server at the same time are restored together")
    func restoredTogether() {
        var cluster = ModelCluster.ready()
        let scattered = (0..<2_000).map { ($0..<($0 + 1), $0 % 2 == 0 ? 4 : 1) } + [(2_000..<5_461, 1)]
        let others = [(ModelCluster.second, 2), (ModelCluster.third, 3)]
        cluster.report(ModelCluster.moved(0..<1, to: 4), by: 1, 2, 3, 4)
        cluster.advance(.seconds(3))
        expect(cluster.port(of: 0), equals: 4)
        cluster.forgetActions()
        cluster.report(scattered + others, by: 1, 2, 3, 4)
        cluster.advance(.seconds(5))
        expect((0..<2_000).allSatisfy { cluster.port(of: $0) == ($0 % 2 == 0 ? 4 : 1) })
        expect(cluster.restorations.count, equals: 1)
        expect(cluster.restorations.first?.slots.count, equals: 999)
        expect(cluster.areTrusted(HashSlot.all))
    }

    @Test("A server has one restoration at a time: slots that it gets meanwhile are restored together after it")
    func oneRestorationAtATime() throws {
        var cluster = ModelCluster.ready()
        let moved = ModelCluster.moved(0..<100, to: 4)
        cluster.servers[4] = ModelCluster.Server(view: moved)
        cluster.restores = false
        for slot in 0..<100 { cluster.moved(slot, to: 4, by: 1) }
        cluster.report(moved, by: 1, 2, 3)
        expect(cluster.restorations.map(\.slots), equals: [[0..<1]])
        expect(cluster.port(of: 0), equals: nil)
        let first = try require(cluster.restorations.first?.number)
        cluster.restored(first)
        expect(cluster.port(of: 0), equals: 4)
        expect(cluster.port(of: 1), equals: nil)
        expect(cluster.restorations.map(\.slots), equals: [[0..<1], [1..<100]])
        // Another server has its own.
        cluster.lose(2, isReachable: true)
        cluster.advance(.seconds(1))
        expect(cluster.restorations.map(\.port), equals: [4, 4, 2])
        for restoration in cluster.restorations.dropFirst() {
            cluster.restored(restoration.number)
        }
        expect((0..<100).allSatisfy { cluster.port(of: $0) == 4 })
        expect(cluster.port(of: 6_000), equals: 2)
    }

    @Test("The only primary is replaced: the seeds and its replicas name the new one")
    func onlyPrimary() {
        var cluster = ModelCluster([(0..<16_384, 1)], seeds: [1])
        cluster.servers[1]?.replicas = [2]
        cluster.advance(.seconds(1))
        expect(cluster.areTrusted(HashSlot.all))
        cluster.lose(1)
        cluster.report([(0..<16_384, 2)], by: 2)
        cluster.advance(.seconds(5))
        expect(cluster.port(of: 0), equals: 2)
        expect(cluster.areTrusted(HashSlot.all))
        expect(cluster.restorations.map(\.port), equals: [2])
    }

    @Test("Unreachable servers are connected to with growing delays")
    func backoff() {
        var cluster = ModelCluster.ready()
        cluster.lose(1)
        cluster.advance(.seconds(60))
        expect((10...60).contains(cluster.connections(to: 1)), "\(cluster.connections(to: 1))")
        // Links that end at once are no success.
        var flapping = ModelCluster.ready()
        flapping.lose(1, isReachable: true)
        flapping.forgetActions()
        for _ in 0..<400 {
            flapping.advance(.milliseconds(50))
            if flapping.links.contains(1) { flapping.lose(1, isReachable: true) }
        }
        #expect(flapping.connections(to: 1) <= 30, "\(flapping.connections(to: 1))")
    }

    @Test("Random events break no rule, and the cluster settles afterwards", arguments: [2, 8, 10, 11, 14] as [UInt64])
    func random(_ seed: UInt64) {
        var generator = SeededGenerator(seed: seed)
        var cluster = ModelCluster.ready()
        var view = ModelCluster.thirds
        var isLinked = true
        for _ in 0..<80 {
            let port = Int.random(in: 1...4, using: &generator)
            switch Int.random(in: 0..<8, using: &generator) {
            case 0 where cluster.links.contains(port): cluster.lose(port, isReachable: Bool.random(using: &generator))
            case 1: cluster.servers[port]?.isReachable.toggle()
            case 2: cluster.servers[port]?.replies.toggle()
            case 3:
                view[Int.random(in: 0..<3, using: &generator)].1 = Int.random(in: 1...4, using: &generator)
                cluster.report(view, by: port)
            case 4: cluster.report(view, by: Int.random(in: 1...4, using: &generator))
            case 5: cluster.moved(Int.random(in: HashSlot.all, using: &generator), to: port, by: 1)
            case 6: cluster.asking(Int.random(in: HashSlot.all, using: &generator), to: port, by: 2)
            default: cluster.advance(.milliseconds(Int64.random(in: 50...1_000, using: &generator)))
            }
            for slot in stride(from: 0, to: HashSlot.count, by: 97) where cluster.trusted[slot] {
                if cluster.port(of: slot).map(cluster.links.contains) != true { isLinked = false }
            }
        }
        expect(isLinked, "trusted slots have links")
        cluster.report(ModelCluster.thirds, by: 1, 2, 3, 4)
        for port in 1...4 {
            cluster.servers[port]?.isReachable = true
            cluster.servers[port]?.replies = true
            if cluster.links.contains(port) { cluster.lose(port, isReachable: true) }
        }
        cluster.advance(.seconds(8))
        expect(cluster.areTrusted(HashSlot.all), "seed \(seed)")
        let isRouted = ModelCluster.thirds.allSatisfy { slots, port in slots.allSatisfy { cluster.port(of: $0) == port }
        }
        expect(isRouted, "seed \(seed)")
    }
}
