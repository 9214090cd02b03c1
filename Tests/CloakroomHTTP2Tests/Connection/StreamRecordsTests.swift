import TestSupport
import Testing

@testable import CloakroomHTTP2

@Suite("Stream table, closed streams and send queue")
struct StreamRecordsTests {
    // MARK: - Stream table

    @Test("A stream keeps its slot, and the slot of a closed one is used again")
    func slots() {
        var table = StreamTable()
        var record = StreamRecord()
        record.sendWindow = 7
        expect(table.open(1, record), equals: 0)
        expect(table.open(3, StreamRecord()), equals: 1)
        expect(table[0].sendWindow, equals: 7)
        expect(table.slot(of: 3), equals: 1)
        table.close(0)
        expect(table.count, equals: 1)
        expect(table.slot(of: 1), equals: nil)
        expect(table.id(at: 0), equals: 0)
        expect(table.open(5, StreamRecord()), equals: 0)
        expect(table[0].sendWindow, equals: 0)
        expect(table.slotCount, equals: 2)
        expect(table.id(at: 0), equals: 5)
    }

    @Test("Slots that are not open are harmless, and the stream 0 is in none")
    func outside() {
        var table = StreamTable()
        _ = table.open(1, StreamRecord())
        table.close(0)
        for slot in [-1, 0, 0, 1, 100] {
            table.close(slot)
            expect(table.id(at: slot), equals: 0)
        }
        expect(table.count, equals: 0)
        expect(table.slot(of: 0), equals: nil)
        expect(table.open(3, StreamRecord()), equals: 0)
        expect(table.open(5, StreamRecord()), equals: 1)
    }

    @Test("Only a table without streams is compacted")
    func compaction() {
        var table = StreamTable()
        _ = table.open(1, StreamRecord())
        table.compact()
        expect(table.slotCount, equals: 1)
        table.close(0)
        table.compact()
        expect(table.slotCount, equals: 0)
    }

    @Test("Equals a dictionary after random openings and closings")
    func model() {
        var generator = SeededGenerator(seed: 1)
        var table = StreamTable()
        var model: [UInt32: Int] = [:]
        var id: UInt32 = 1
        for _ in 0..<20_000 {
            if Bool.random(using: &generator), model.count < 100 {
                model[id] = table.open(id, StreamRecord())
                id += 2
            } else if let (old, slot) = model.randomElement(using: &generator) {
                expect(table.slot(of: old), equals: slot)
                table.close(slot)
                model[old] = nil
            }
            expect(table.count, equals: model.count)
        }
        expect(Set(model.values).count, equals: model.count)
        #expect(table.slotCount <= 100)
    }

    // MARK: - Closed streams

    @Test("Ids that are skipped are unknown, however many")
    func skipped() {
        var closed = ClosedStreams()
        for id in [1, 3, 1_021] as [UInt32] {
            closed.open(id)
            closed.close(id, .ended)
        }
        expect(closed.end(of: 1), equals: .ended)
        expect(closed.end(of: 5), equals: .unknown)
        expect(closed.end(of: 1_021), equals: .ended)
        closed.open(0x7fff_ffff)
        expect(closed.end(of: 1_021), equals: .unknown)
        closed.close(0x7fff_ffff, .reset)
        expect(closed.end(of: 0x7fff_ffff), equals: .reset)
        for id in stride(from: 0x7fff_fc03, to: 0x7fff_ffff, by: 2) as StrideTo<UInt32> {
            expect(closed.end(of: id), equals: .unknown)
        }
        // Too old, or never opened.
        closed.close(1, .ended)
        expect(closed.end(of: 1), equals: .unknown)
    }

    @Test("Equals a dictionary of the last 1,024 streams")
    func closedModel() {
        var generator = SeededGenerator(seed: 2)
        var closed = ClosedStreams()
        var model: [UInt32: ClosedStreams.End] = [:]
        var newest: UInt32 = 1
        closed.open(1)
        for _ in 0..<20_000 {
            if Int.random(in: 0..<3, using: &generator) == 0 {
                newest += 2 * UInt32.random(in: 1...(Bool.random(using: &generator) ? 2 : 300), using: &generator)
                closed.open(newest)
            }
            let back = UInt32.random(in: 0...min(1_200, newest / 2), using: &generator)
            let id = newest - 2 * back
            let end: ClosedStreams.End = Bool.random(using: &generator) ? .reset : .ended
            if Bool.random(using: &generator) {
                closed.close(id, end)
                if back < 1_024 { model[id] = end }
            }
            let expected = back < 1_024 ? model[id] ?? .unknown : .unknown
            guard closed.end(of: id) == expected else {
                Issue.record("stream \(id), newest \(newest): \(closed.end(of: id)) instead of \(expected)")
                return
            }
        }
    }

    // MARK: - Send queue

    @Test("A stream is queued once; streams leave by urgency, then in order")
    func order() {
        var streams = StreamTable()
        var queue = SendQueue()
        for (id, urgency) in [(1, 3), (3, 0), (5, 3), (7, 7), (9, 200)] as [(UInt32, UInt8)] {
            var record = StreamRecord()
            record.urgency = urgency
            _ = streams.open(id, record)
        }
        expect(queue.isEmpty)
        expect(queue.popFirst(in: &streams), equals: nil)
        for slot in [4, 0, 3, 2, 1, 0, 4] { queue.append(slot, in: &streams) }
        expect(!queue.isEmpty)
        var order: [Int] = []
        while let slot = queue.popFirst(in: &streams) { order.append(slot) }
        // An urgency above 7 counts as 7.
        expect(order, equals: [1, 0, 2, 4, 3])
        expect(queue.isEmpty)
    }

    @Test("Equals eight arrays after random appending, popping and removing")
    func queueModel() {
        for seed in 1...20 as ClosedRange<UInt64> {
            var generator = SeededGenerator(seed: seed)
            var streams = StreamTable()
            var queue = SendQueue()
            var model = [[Int]](repeating: [], count: 8)
            for number in 0..<40 as Range<UInt32> {
                var record = StreamRecord()
                record.urgency = UInt8.random(in: 0...7, using: &generator)
                _ = streams.open(2 * number + 1, record)
            }
            for _ in 0..<2_000 {
                let slot = Int.random(in: 0..<40, using: &generator)
                let urgency = Int(streams[slot].urgency)
                switch Int.random(in: 0..<5, using: &generator) {
                case 0, 1:
                    queue.append(slot, in: &streams)
                    if !model[urgency].contains(slot) { model[urgency].append(slot) }
                case 2:
                    queue.remove(slot, in: &streams)
                    model[urgency].removeAll { $0 == slot }
                default:
                    let first = model.firstIndex { !$0.isEmpty }
                    expect(queue.popFirst(in: &streams), equals: first.map { model[$0].removeFirst() })
                }
                expect(queue.isEmpty, equals: model.allSatisfy(\.isEmpty))
                expect(streams[slot].isQueued, equals: model[urgency].contains(slot))
            }
        }
    }
}
