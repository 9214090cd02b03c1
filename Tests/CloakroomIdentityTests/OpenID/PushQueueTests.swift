import CloakroomCore
import Testing

@testable import CloakroomIdentity

@Suite("Pushed requests in flight", .timeLimit(.minutes(1)))
struct PushQueueTests {
    private func client(_ number: Int) -> ClientAddressKey? { ClientAddressKey("192.0.2.\(number)") }

    private func fill(_ queue: PushQueue, _ client: ClientAddressKey?) async {
        for _ in 0..<PushQueue.maxInFlightOfClient { #expect(await queue.enter(client)) }
    }

    @Test("A client has a share of the places; its further requests wait, and those of others do not")
    func share() async {
        let queue = PushQueue()
        await fill(queue, client(1))
        async let waiting = queue.enter(client(1))
        #expect(await queue.enter(client(2)))
        await queue.leave(client(1))
        #expect(await waiting)
    }

    @Test("The addresses of one IPv6 network are one client")
    func network() async throws {
        let queue = PushQueue()
        await fill(queue, ClientAddressKey("2001:db8:1:2::1"))
        async let waiting = queue.enter(ClientAddressKey("2001:db8:1:2::2"))
        #expect(await queue.enter(ClientAddressKey("2001:db8:1:3::1")))
        await queue.leave(ClientAddressKey("2001:db8:1:2::1"))
        #expect(await waiting)
    }

    @Test("The places of all clients are limited; a place that becomes free goes to a request that waits")
    func total() async {
        let queue = PushQueue()
        let clients = PushQueue.maxInFlight / PushQueue.maxInFlightOfClient
        for number in 0..<clients { await fill(queue, client(number)) }
        async let waiting = queue.enter(client(201))
        await queue.leave(client(0))
        #expect(await waiting)
        // It is not available twice.
        #expect(await !queue.enter(client(202)))
    }

    @Test("A request that waits too long fails, and one that ends later frees its place")
    func patience() async {
        let queue = PushQueue()
        await fill(queue, client(1))
        let start = ContinuousClock.now
        #expect(await !queue.enter(client(1)))
        #expect(ContinuousClock.now - start >= .seconds(2))
        for _ in 0..<PushQueue.maxInFlightOfClient { await queue.leave(client(1)) }
        await fill(queue, client(1))
    }

    @Test("The number of requests of one client that wait is limited: further ones fail at once")
    func waiting() async {
        let queue = PushQueue()
        await fill(queue, client(1))
        let count = PushQueue.maxWaitingOfClient
        // Again, because requests that have waited count no longer.
        for _ in 1...2 {
            await withTaskGroup(of: Bool.self) { group in
                for _ in 0..<2 * count { group.addTask { await queue.enter(client(1)) } }
                // The first to end are those that do not wait.
                for _ in 0..<count { #expect(await group.next() == false) }
                // All that wait get a place, one after the other.
                for _ in 0..<count {
                    await queue.leave(client(1))
                    #expect(await group.next() == true)
                }
            }
        }
    }
}
