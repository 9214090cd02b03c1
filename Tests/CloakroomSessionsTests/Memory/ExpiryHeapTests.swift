import TestSupport
import Testing

@testable import CloakroomSessions

@Suite("The heap of deadlines")
struct ExpiryHeapTests {
    private func drain(_ heap: inout ExpiryHeap<UInt64>, now: Int64) -> [Int64] {
        var deadlines: [Int64] = []
        while let entry = heap.popDue(now: now) { deadlines.append(entry.deadline) }
        return deadlines
    }

    @Test("returns entries in the order of their deadlines, whether pushed one by one or created in bulk")
    func order() {
        let deadlines = (0..<500).map { Int64(($0 &* 7_919) % 503) }
        var pushed = ExpiryHeap<UInt64>()
        for deadline in deadlines { pushed.push(ExpiryHeap.Entry(deadline: deadline, id: 0)) }
        var made = ExpiryHeap<UInt64>(deadlines.map { ExpiryHeap.Entry(deadline: $0, id: 0) })
        expect(pushed.count, equals: 500)
        expect(drain(&pushed, now: .max), equals: deadlines.sorted())
        expect(drain(&made, now: .max), equals: deadlines.sorted())
        expect(pushed.count, equals: 0)
    }

    @Test("keeps entries that are not due yet")
    func due() {
        var heap = ExpiryHeap([3, 1, 2].map { ExpiryHeap.Entry(deadline: $0, id: UInt64($0)) })
        expect(heap.popDue(now: 0) == nil)
        expect(drain(&heap, now: 2), equals: [1, 2])
        expect(heap.count, equals: 1)
        expect(heap.popDue(now: 3)?.id, equals: 3)
    }
}
