/// Streams whose response body waits for a turn, in the order of their urgency (RFC 9218 §4.1), and round robin within
/// the same urgency, so that small responses do not wait behind large ones.
///
/// Linked through the records of the streams: no allocation; constant time except for ``remove(_:in:)``.
struct SendQueue {
    private static let none = UInt16.max
    private var heads = InlineArray<8, UInt16>(repeating: SendQueue.none)
    private var tails = InlineArray<8, UInt16>(repeating: SendQueue.none)
    /// Bit n is set if the queue of urgency n has streams.
    private var occupied: UInt8 = 0

    var isEmpty: Bool { occupied == 0 }

    /// Appends a stream to the queue of its urgency, unless it is queued.
    mutating func append(_ slot: Int, in streams: inout StreamTable) {
        guard !streams[slot].isQueued else { return }
        let urgency = Int(min(streams[slot].urgency, 7))
        streams[slot].isQueued = true
        streams[slot].nextInQueue = Self.none
        let entry = UInt16(truncatingIfNeeded: slot)
        if tails[urgency] == Self.none {
            heads[urgency] = entry
        } else {
            streams[Int(tails[urgency])].nextInQueue = entry
        }
        tails[urgency] = entry
        occupied |= 1 << UInt8(urgency)
    }

    /// Removes the first stream of the most urgent queue.
    mutating func popFirst(in streams: inout StreamTable) -> Int? {
        guard occupied != 0 else { return nil }
        let urgency = occupied.trailingZeroBitCount
        let slot = Int(heads[urgency])
        unlink(slot, next: streams[slot].nextInQueue, urgency: urgency)
        streams[slot].isQueued = false
        return slot
    }

    /// Removes a stream that is closed. Takes time in proportion to the streams of its urgency.
    mutating func remove(_ slot: Int, in streams: inout StreamTable) {
        guard streams[slot].isQueued else { return }
        streams[slot].isQueued = false
        let urgency = Int(min(streams[slot].urgency, 7))
        let next = streams[slot].nextInQueue
        let entry = UInt16(truncatingIfNeeded: slot)
        guard heads[urgency] != entry else { return unlink(slot, next: next, urgency: urgency) }
        var before = heads[urgency]
        while before != Self.none, streams[Int(before)].nextInQueue != entry {
            before = streams[Int(before)].nextInQueue
        }
        guard before != Self.none else { return }
        streams[Int(before)].nextInQueue = next
        if tails[urgency] == entry { tails[urgency] = before }
    }

    private mutating func unlink(_ slot: Int, next: UInt16, urgency: Int) {
        heads[urgency] = next
        guard next == Self.none else { return }
        tails[urgency] = Self.none
        occupied &= ~(1 << UInt8(urgency))
    }
}
