/// State of one open stream (RFC 9113 §5.1), as flow control and the order of sending need it.
struct StreamRecord {
    /// Remaining send window in bytes; negative after the client has reduced it (RFC 9113 §6.9.2).
    var sendWindow = 0
    /// Remaining receive window in bytes.
    var receiveWindow = 0
    /// Whether the receive window was raised, because the body is being consumed.
    var isWindowRaised = false
    /// Bytes of body that were delivered and not yet consumed.
    var heldBytes = 0
    /// Bytes consumed since the last WINDOW_UPDATE.
    var unacknowledgedBytes = 0
    /// Remaining bytes of the body; -1 if the request has no `content-length`.
    var remainingLength = -1
    /// Whether the client has ended its side.
    var isRemoteEnded = false
    /// Bytes of the response body that wait for a turn.
    var pendingBytes = 0
    /// Urgency of the response, 0...7 (RFC 9218 §4.1).
    var urgency: UInt8 = 3
    /// Whether the stream is in a send queue, and the next one there.
    var isQueued = false
    var nextInQueue: UInt16 = 0
}

/// The open streams of a connection. A stream has the same slot from its first frame to its last.
///
/// Lookups scan the ids from the newest slot: with at most some hundred streams that is quicker than a hash table.
struct StreamTable {
    /// A free slot has id 0.
    private var ids: [UInt32] = []
    private var records: [StreamRecord] = []
    private var free: [UInt16] = []
    /// Number of open streams.
    private(set) var count = 0

    /// Number of slots in use or free.
    var slotCount: Int { ids.count }

    subscript(slot: Int) -> StreamRecord {
        _read { yield records[slot] }
        _modify { yield &records[slot] }
    }

    /// The stream in a slot; 0 if the slot is free.
    func id(at slot: Int) -> UInt32 { ids.indices.contains(slot) ? ids[slot] : 0 }

    func slot(of id: UInt32) -> Int? {
        guard id != 0 else { return nil }
        var slot = ids.count - 1
        while slot >= 0 {
            if ids[slot] == id { return slot }
            slot -= 1
        }
        return nil
    }

    mutating func open(_ id: UInt32, _ record: StreamRecord) -> Int {
        count += 1
        if let slot = free.popLast() {
            ids[Int(slot)] = id
            records[Int(slot)] = record
            return Int(slot)
        }
        ids.append(id)
        records.append(record)
        return ids.count - 1
    }

    mutating func close(_ slot: Int) {
        guard id(at: slot) != 0 else { return }
        ids[slot] = 0
        count -= 1
        free.append(UInt16(truncatingIfNeeded: slot))
    }

    /// Frees the memory of an idle connection.
    mutating func compact() {
        guard count == 0 else { return }
        self = StreamTable()
    }
}
