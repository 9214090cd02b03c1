import CloakroomCore
import TestSupport
import Testing

@testable import CloakroomIdentity

@Suite("Places that clients wait for", .timeLimit(.minutes(1)))
struct ClientQueueTests {
    /// The end of each wait.
    private let timer = Gate()

    private func queue(_ places: Int = ClientQueue.maxCalls) -> ClientQueue {
        ClientQueue(places, sleep: { [timer] _ in await timer.passed() })
    }

    private func client(_ number: Int) -> RateKey { RateKey(peer: "192.0.2.\(number)") }

    private func fill(_ queue: ClientQueue, _ client: RateKey) async {
        while queue.inFlight.hasRoom(for: client) { await expect(queue.enter(client)) }
    }

    @Test("A client has a share of the places; its further requests wait, and those of others do not")
    func share() async {
        let queue = queue()
        await fill(queue, client(1))
        async let waiting = queue.enter(client(1))
        await expect(queue.enter(client(2)))
        await queue.leave(client(2))
        await queue.leave(client(1))
        await expect(waiting)
    }

    @Test("The addresses of one IPv6 network are one client")
    func network() async throws {
        let queue = queue()
        await fill(queue, RateKey(peer: "2001:db8:1:2::1"))
        async let waiting = queue.enter(RateKey(peer: "2001:db8:1:2::2"))
        await expect(queue.enter(RateKey(peer: "2001:db8:1:3::1")))
        await queue.leave(RateKey(peer: "2001:db8:1:3::1"))
        await queue.leave(RateKey(peer: "2001:db8:1:2::1"))
        await expect(waiting)
    }

    @Test("Rule 134: a free place goes to the client with the fewest requests in flight, and then to each in turn")
    func turns() async {
        let queue = queue()
        for number in 0..<ClientQueue.maxCalls { await expect(queue.enter(client(number))) }
        await withTaskGroup(of: Int.self) { group in
            for number in [0, 0, 100, 100, 101] {
                group.addTask { await queue.enter(client(number)) ? number : -1 }
                await timer.waitForArrival()
            }
            var placed: [Int] = []
            // A client that has a place gets no other while few are free.
            for ended in [[5], [6], [0], [100], [7, 0]] {
                for number in ended { await queue.leave(client(number)) }
                placed.append(await group.next() ?? -1)
            }
            expect(placed, equals: [100, 101, 0, 100, 0])
        }
    }

    @Test("Rule 134: twelve networks with 90 requests each leave places for another one")
    func newcomer() async throws {
        let (queue, released, failed, placed) = (queue(), Gate(), CallRecorder(), CallRecorder())
        @Sendable func send(_ name: String, _ client: RateKey) async {
            guard await queue.enter(client) else { return failed.note(name) }
            await released.passed()
            placed.note(name)
            await queue.leave(client)
        }
        func all(_ count: Int) async throws {
            try await eventually("each has a place, waits or has failed") {
                queue.inFlight.count + queue.waiting.count + failed.all.count == count
            }
        }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for index in 0..<1_080 { group.addTask { await send("other", client(index % 12)) } }
            try await all(1_080)
            for _ in 0..<15 { group.addTask { await send("new", client(100)) } }
            try await all(1_095)
            released.open()
            try await group.waitForAll()
        }
        expect(!failed.all.contains("new") && placed.all.count { $0 == "new" } == 15)
        // It has had its turns: the last of its requests is sent long before those of the others.
        let last = try require(placed.all.lastIndex(of: "new"))
        #expect(last < placed.all.count * 2 / 3)
    }

    @Test(
        "Identity rule 20: behind work of 20 clients, another one waits for one piece of each; a /48 is one client",
        arguments: [("192.0.2.", 20), ("2001:db8:0:", 1)])
    func oneOfEach(prefix: String, networks: Int) async throws {
        let (queue, order) = (queue(1), CallRecorder())
        @Sendable func work(_ name: String, _ peer: String) async {
            _ = await queue.run(from: RateKey(peer: peer)) { order.note(name) }
        }
        await expect(queue.enter(client(99)))
        try await withThrowingTaskGroup(of: Void.self) { group in
            for index in 0..<300 {
                group.addTask { await work("other", "\(prefix)\(index % 20)\(networks == 1 ? "::1" : "")") }
            }
            try await eventually("all wait") { queue.waiting.count == 300 }
            group.addTask { await work("new", "198.51.100.1") }
            try await eventually("the new one waits") { queue.waiting.count == 301 }
            await queue.leave(client(99))
            try await group.waitForAll()
        }
        expect(order.all.count, equals: 301)
        #expect(try require(order.all.firstIndex(of: "new")) <= networks)
    }

    @Test("A request that waits too long fails, and one that ends later frees its place")
    func patience() async {
        let queue = queue()
        await fill(queue, client(1))
        async let waiting = queue.enter(client(1))
        await timer.waitForArrival()
        timer.open()
        await expect(!waiting)
        let held = queue.inFlight.count
        for _ in 0..<held { await queue.leave(client(1)) }
        await fill(queue, client(1))
        expect(queue.inFlight.count, equals: held)
    }

    @Test("Rule 134: a client whose request waits too long has its next turn after those that came later")
    func turnAfterGivingUp() async throws {
        let waits = CallRecorder()
        let queue = ClientQueue(
            ClientQueue.maxCalls,
            sleep: { [timer] _ in
                waits.note("wait")
                // Only the first one ends.
                if waits.all.count == 1 { await timer.passed() } else { try await Task.sleep(for: .seconds(3_600)) }
            })
        for number in 0..<ClientQueue.maxCalls { await expect(queue.enter(client(number))) }
        try await withThrowingTaskGroup(of: Int.self) { group in
            for (index, number) in [100, 100, 101].enumerated() {
                group.addTask { await queue.enter(client(number)) ? number : -1 }
                try await eventually("it waits") {
                    queue.waiting.count == index + 1 && waits.all.count == index + 1
                }
            }
            timer.open()
            try await expect(group.next(), equals: -1)
            for (ended, placed) in [(0, 101), (1, 100)] {
                await queue.leave(client(ended))
                try await expect(group.next(), equals: placed)
            }
        }
    }

    @Test("The timer of a request ends with its wait")
    func cancelledTimer() async {
        let (begun, ended) = (Gate(), Gate())
        let queue = ClientQueue(
            ClientQueue.maxCalls,
            sleep: { _ in
                begun.open()
                defer { ended.open() }
                try await Task.sleep(for: .seconds(3_600))
            })
        await fill(queue, client(1))
        async let waiting = queue.enter(client(1))
        await begun.passed()
        await queue.leave(client(1))
        await expect(waiting)
        await ended.passed()
    }

    @Test("The number of requests of one client that wait is limited: further ones fail at once")
    func waiting() async {
        let queue = queue()
        await fill(queue, client(1))
        let count = ClientShares.alone()
        // Again, because requests that have waited count no longer.
        for _ in 1...2 {
            await withTaskGroup(of: Bool.self) { group in
                for _ in 0..<2 * count { group.addTask { await queue.enter(client(1)) } }
                // The first to end are those that do not wait.
                for _ in 0..<count { await expect(group.next(), equals: false) }
                // All that wait get a place, one after the other.
                for _ in 0..<count {
                    await queue.leave(client(1))
                    await expect(group.next(), equals: true)
                }
            }
        }
    }
}
