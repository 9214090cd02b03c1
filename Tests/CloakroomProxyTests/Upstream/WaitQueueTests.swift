import TestSupport
import Testing

@testable import CloakroomProxy

@Suite("Queue of waiters")
struct WaitQueueTests {
    @Test("In any sequence of events the queue contains what a list would")
    func model() {
        for seed in 1...50 as ClosedRange<UInt64> {
            var generator = SeededGenerator(seed: seed)
            var queue = WaitQueue<Int>()
            var model: [(waiter: Int, id: WaiterID, since: UInt64, deadline: UInt64)] = []
            var left: [WaiterID] = []
            for now in 1...400 as ClosedRange<UInt64> {
                switch Int.random(in: 0..<10, using: &generator) {
                case 0...4:
                    let deadline =
                        Bool.random(using: &generator) ? .max : now + UInt64.random(in: 0...40, using: &generator)
                    let id = queue.append(
                        Int(now), slot: Int(now % 5), hasPlace: now % 2 == 0, now: now, deadline: deadline)
                    model.append((Int(now), id, now, deadline))
                case 5:
                    let removed = queue.popFirst()
                    expect(removed?.waiter, equals: model.first?.waiter)
                    if !model.isEmpty { left.append(model.removeFirst().id) }
                case 6, 7:
                    guard let index = model.indices.randomElement(using: &generator) else { continue }
                    let removed = queue.remove(model[index].id)
                    expect(removed?.waiter, equals: model[index].waiter)
                    expect(removed?.slot, equals: model[index].waiter % 5)
                    expect(removed?.hasPlace, equals: model[index].waiter % 2 == 0)
                    left.append(model.remove(at: index).id)
                case 8:
                    if let id = left.randomElement(using: &generator) { expect(queue.remove(id) == nil) }
                default:
                    var expired: [Int] = []
                    while let removed = queue.removeExpired(now: now) { expired.append(removed.waiter) }
                    expect(expired.sorted(), equals: model.filter { $0.deadline <= now }.map(\.waiter))
                    left += model.filter { $0.deadline <= now }.map(\.id)
                    model.removeAll { $0.deadline <= now }
                }
                expect(queue.count, equals: model.count)
                expect(queue.isEmpty, equals: model.isEmpty)
                expect(queue.oldest, equals: model.first?.since)
                #expect(queue.earliestDeadline <= model.map(\.deadline).min() ?? .max)
                expect(queue.count(before: now), equals: model.count { $0.since < now })
            }
        }
    }

    @Test("Waiters may leave and arrive while passed deadlines are searched")
    func changesDuringSearch() {
        var queue = WaitQueue<Int>()
        func append(_ waiter: Int, deadline: UInt64) -> WaiterID {
            queue.append(waiter, slot: 0, hasPlace: false, now: 0, deadline: deadline)
        }
        _ = append(1, deadline: 5)
        let second = append(2, deadline: 5)
        _ = append(3, deadline: 9)
        _ = append(4, deadline: 5)
        expect(queue.removeExpired(now: 5)?.waiter, equals: 1)
        expect(queue.remove(second)?.waiter, equals: 2)
        _ = append(5, deadline: 4)
        expect(queue.removeExpired(now: 5)?.waiter, equals: 4)
        expect(queue.removeExpired(now: 5)?.waiter, equals: 5)
        expect(queue.removeExpired(now: 5) == nil)
        expect(queue.earliestDeadline, equals: 9)
        expect(queue.popFirst()?.waiter, equals: 3)
        expect(queue.earliestDeadline, equals: .max)
    }
}
